"""Small decisions of llama.cpp and Ollama on both sides of their bounds (`make mutants`)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from oomph.engines.llamacpp import offer
from oomph.engines.llamacpp.command import model_of, parse
from oomph.engines.llamacpp.host import _prompt_cache, _weights
from oomph.engines.llamacpp.measure import HOST, _buffer, _shares
from oomph.engines.llamacpp.planner import _flag_notes, _large_buffers, _single_allocation, _visible
from oomph.engines.ollama import planner as ollama
from oomph.errors import CommandError
from oomph.facts.llamacpp.builds import LOAD_MODE_SINCE, SYCL_LARGE_BUFFERS_SINCE
from oomph.facts.llamacpp.overhead import unaccounted
from oomph.facts.ollama import defaults
from oomph.ir.deployment import Deployment, Engine
from oomph.search import placed
from oomph.sources.gpu import parse_gpus
from oomph.units import GIB, MIB

TWO = parse_gpus("2x RTX 4090")
MOST = 1 << 31


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("-ngl auto", "n_gpu_layers", -1), ("-ngl all", "n_gpu_layers", -2), ("-ngl 20", "n_gpu_layers", 20),
        ("-c 0", "ctx_size", 0), ("-c 1", "ctx_size", 1), ("-c -1", "ctx_size", None),
        ("-b 0", "batch_size", 0), ("-ub -1", "ubatch_size", None),
        ("-np 4096", "parallel", 4096), ("-np 4097", "parallel", None),
        (f"-c {MOST}", "ctx_size", MOST), (f"-c {MOST + 1}", "ctx_size", None),
        ("-ts 3,1", "tensor_split", [3.0, 1.0]), ("-ts 0", "tensor_split", [0.0]), ("-ts -1", "tensor_split", None),
        ("-ts " + ",".join(["1"] * 128), "tensor_split", [1.0] * 128), ("-ts " + ",".join(["1"] * 129), "", None),
        (f"-ts {MOST}", "", None), (f"-ts {MOST - 1}", "tensor_split", [float(MOST - 1)]), ("-ts ,", "", None),
        ("-fa", "flash_attn", "on"), ("-fa off", "flash_attn", "off"), ("-fa maybe", "", None),
        ("-ot exps=CPU", "override_tensor", [("exps", "CPU")]), ("-ot =CPU", "", None), ("-ot exps", "", None),
        ("-ot " + "x" * 400 + "=CPU", "override_tensor", [("x" * 400, "CPU")]), ("-ot " + "x" * 401 + "=CPU", "", None),
        ("-ot a+b+c+d+e+=CPU", "override_tensor", [("a+b+c+d+e+", "CPU")]), ("-ot a+b+c+d+e+f+=CPU", "", None),
        ("-ot (a)+=CPU", "", None), ("-ncmoe -1", "", None), ("-ncmoe 0", "override_tensor", []),
        ("-ncmoe 10001", "", None),
    ],
)  # fmt: skip
def test_what_a_flag_takes(words: str, field: str, value: Any) -> None:
    if value is None:
        with pytest.raises(CommandError):
            parse(words.split())
    else:
        assert parse(words.split()).flags[field] == value


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        ({"model": "a.gguf", "hf_repo": "a/b"}, "a.gguf"), ({"hf_repo": "a/b"}, "a/b:Q4_K_M"),
        ({"hf_repo": "a/b:Q8_0"}, "a/b:Q8_0"), ({"hf_repo": "a/b:Q8_0", "hf_file": "c.gguf"}, "a/b/c.gguf"),
        ({"model_url": "https://x/c.gguf"}, "https://x/c.gguf"),
    ],
)  # fmt: skip
def test_which_model_a_command_names(flags: dict[str, str], name: str) -> None:
    assert model_of(flags) == name


@pytest.mark.parametrize(
    ("target", "place"),
    [("CPU", HOST), ("cuda_host", HOST), ("CUDA0", 0), ("ROCm1", 1), ("CUDA2", None), ("x" * 50, None), ("CUDA", None)],
)
def test_which_buffer_a_tensor_is_sent_to(target: str, place: int | None) -> None:
    if place is not None:
        assert _buffer(target, 2) == place
        return
    with pytest.raises(CommandError, match=f"'{'x' * 40}'" if target.startswith("x") else target):
        _buffer(target, 2)


@pytest.mark.parametrize(
    ("split", "shares"),
    [
        ((), [0.25, 1.0]), ((3.0, 1.0), [0.75, 1.0]), ((1.0,), [1.0, 1.0]), ((0.0, 0.0), [0.25, 1.0]),
        ((1.0, 1.0, 0.0), [0.5, 1.0]), ((1.0, 1.0, 1.0), None),
    ],
)  # fmt: skip
def test_how_layers_are_shared(split: tuple[float, ...], shares: list[float] | None) -> None:
    settings: Any = SimpleNamespace(tensor_split=split)
    if shares is not None:
        assert _shares(settings, [10, 30]) == shares
        return
    with pytest.raises(CommandError, match="3 values for 2 GPUs"):
        _shares(settings, [10, 30])


def test_shares_of_cards_without_room_are_none() -> None:
    settings: Any = SimpleNamespace(tensor_split=())
    assert _shares(settings, [0, 0]) == [0.0, 0.0]


@pytest.mark.parametrize(
    ("device", "names"),
    [("", [0, 1]), ("none", []), ("CUDA0", [0]), ("CUDA1,CUDA0", [1, 0]), ("CUDA2", None), ("gpu", None)],
)
def test_which_gpus_are_visible(device: str, names: list[int] | None) -> None:
    first, second = TWO[0], replace(TWO[1], name="the second")
    if names is None:
        with pytest.raises(CommandError, match="there are 2 GPUs"):
            _visible((first, second), device)
    else:
        assert _visible((first, second), device) == tuple((first, second)[n] for n in names)


@pytest.mark.parametrize(
    ("build", "relaxed", "are_allowed"), [(-1, "1", False), (0, "1", True), (0, "0", None), (1, "", None)]
)
def test_large_buffers_of_intel_cards(build: int, relaxed: str, are_allowed: bool | None) -> None:
    deployment: Any = SimpleNamespace(environment={"UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS": relaxed})
    assert _large_buffers(deployment, SYCL_LARGE_BUFFERS_SINCE + build) is are_allowed


@pytest.mark.parametrize("sure", [True, False])
def test_one_buffer_above_the_drivers_limit(sure: bool) -> None:
    gate = _single_allocation(replace(TWO[0], largest_allocation=100), 130, 1, sure=sure)
    assert (gate.stage, gate.room) == ("weights_load", -30)
    assert [(slack.term, slack.down, slack.up) for slack in gate.slacks] == (
        [] if sure else [("largest allocation", 0, 60)]
    )


def test_mapping_flags_are_refused_from_one_build_on() -> None:
    for flags in ({"mmap": False}, {"mlock": True}):
        assert not _flag_notes(flags, LOAD_MODE_SINCE - 1) and "refused" in _flag_notes(flags, LOAD_MODE_SINCE)[0]
    assert not _flag_notes({}, LOAD_MODE_SINCE)
    assert "up to 1 MiB" in _flag_notes({"moe_cache": 1}, 0)[0] and not _flag_notes({"moe_cache": 0}, 0)


def _plan(weights: int = 5, **flags: Any) -> Any:
    rank = SimpleNamespace(terms={"weights": SimpleNamespace(bytes=weights)})
    return SimpleNamespace(
        deployment=SimpleNamespace(flags=flags), ranks=[rank],
        resolved={"host": {"prompt_cache_limit": flags.pop("limit", 0) * MIB}},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        ({"cache_ram": 0}, None), ({"cache_ram": -1}, (8 * GIB, 0, 1 << 50)), ({"cache_ram": 1}, (MIB, 0, MIB)),
        ({"limit": 3}, (3 * MIB, 0, 3 * MIB)), ({}, None), ({"cache_ram": "much"}, None),
    ],
)  # fmt: skip
def test_the_prompt_cache_on_the_host(flags: dict[str, Any], part: tuple[int, int, int] | None) -> None:
    parts = _prompt_cache(_plan(**flags))
    assert [(one.bytes, one.low, one.high) for one in parts] == ([part] if part else [])


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        # (name, low, stays, may be given back) of 7 bytes on the host and 5 on a GPU
        ({}, [("weights", 7, True, True), ("page cache", 0, False, True)]),
        ({"mmap": False}, [("weights", 7, True, False)]), ({"load_mode": "none"}, [("weights", 7, True, False)]),
        ({"load_mode": "mmap"}, [("weights", 7, True, True), ("page cache", 0, False, True)]),
        ({"load_mode": "mlock"}, [("weights", 7, True, False), ("page cache", 5, True, False)]),
        ({"mlock": True}, [("weights", 7, True, False), ("page cache", 5, True, False)]),
    ],
)  # fmt: skip
def test_weights_on_the_host(flags: dict[str, Any], parts: list[Any]) -> None:
    found = _weights(_plan(**flags), 7)
    assert [(one.name, one.low, *_last_two(one)) for one in found] == parts
    assert not [one for one in _weights(_plan(**flags), 0) if one.name == "weights"]
    assert not [one for one in _weights(_plan(0, **flags), 7) if one.name == "page cache"]


def _last_two(part: Any) -> tuple[bool, bool]:
    names = part.__struct_fields__
    return getattr(part, names[-2]), getattr(part, names[-1])


# --- Ollama ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("more", "holds"), [(-1, True), (0, True), (1, False)])
def test_a_projector_stays_on_the_gpu_where_there_is_room(more: int, holds: bool) -> None:
    (gpu,) = parse_gpus("RTX 4090")
    outside = unaccounted(gpu.sm, gpu.vendor)[1]
    size = gpu.total_bytes - gpu.used_bytes - outside - defaults.MARGIN + more
    extras, target = ollama._projector(size, (gpu,))
    assert bool(extras) is holds and target == (-(-defaults.MARGIN // MIB) if holds else 1024)
    assert ollama._projector(0, (gpu,)) == ([], 1024) == ollama._projector(5, ())


def test_the_batch_is_halved_until_it_has_room() -> None:
    (first, (share, surcharge)), *_ = sorted(defaults.BATCH_ROOM.items(), reverse=True)
    free = 1 << 40
    at_share = int(free * share)
    assert ollama._batch(1 << 20, min(at_share, int(free * defaults.SHARE) - surcharge), free) == first
    assert ollama._batch(1 << 20, min(at_share, int(free * defaults.SHARE) - surcharge) + 2, free) < first
    assert ollama._batch(1 << 20, free, free) == min(defaults.BATCH_ROOM) // 2


@pytest.mark.parametrize(("wanted", "context"), [(None, 0), (0, 0), (-1, 0), (4096, 4096), (4097, 4097)])
def test_the_context_is_what_was_asked_for_or_the_tier(wanted: int | None, context: int) -> None:
    model: Any = SimpleNamespace(
        max_position=1 << 20, model_type="qwen3", pooling=False, num_heads=8, layers=[], nbytes=1, hidden_size=64
    )
    (gpu,) = parse_gpus("RTX 4090")
    tier = defaults.default_context(gpu.total_bytes)
    chosen = ollama.choose(model, {} if wanted is None else {"num_ctx": wanted}, (gpu,), vision=False)
    assert chosen.num_ctx == (context or tier) and any("default" in note for note in chosen.notes) is (wanted is None)
    two = ollama.choose(model, {"num_ctx": 4096, "num_parallel": 2}, (gpu,), vision=False)
    model.pooling = True
    one = ollama.choose(model, {"num_ctx": 4096, "num_parallel": 2}, (gpu,), vision=False)
    assert (two.parallel, one.parallel) == (2, 1) and any("parallel requests" in note for note in one.notes)
    model.pooling = False
    for alone in (defaults.NO_PARALLEL - defaults.NO_PARALLEL_HF, defaults.NO_PARALLEL_HF - defaults.NO_PARALLEL):
        model.model_type = min(alone)
        assert ollama.choose(model, {"num_ctx": 4096, "num_parallel": 2}, (gpu,), vision=False).parallel == 1


# --- compare's offers ------------------------------------------------------------------------------------------------


def _served(slots: int, outcome: str = "fits", offloaded: int = 4, experts: int = 0, risk: str = "") -> Any:
    return SimpleNamespace(
        verdict=SimpleNamespace(outcome=outcome, risk=risk),
        ranks=(),
        host=None,
        resolved={
            "layers": 4, "offloaded": offloaded, "n_seq_max": slots,
            "host": {"weights": 5, "parts": {"experts": experts} if experts else {}},
        },
    )  # fmt: skip


@pytest.mark.parametrize(
    ("users", "fits", "most"), [(1, {1}, 1), (1, {1, 4}, 4), (2, {2, 8, 4}, 8), (8, {8}, 8), (4, {4, 1}, 4)]
)
def test_an_offer_holds_as_many_users_as_it_can(users: int, fits: set[int], most: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(placed, "SLOTS", (8, 4, 2))
    monkeypatch.setattr(placed.Places, "rate", lambda *_: None)
    monkeypatch.setattr(offer, "parse_command", lambda words, engine: replace(TOLD, flags={"slots": int(words[1])}))

    def planner(deployment: Any, _: Any) -> Any:
        slots = deployment.flags["slots"]
        return _served(slots, "fits" if slots in fits else "fails")

    def ways(_: str, gpus: Any, planner: Any, release: str) -> Any:
        return offer.ways_of(lambda one, _: (one.quant, str(one.slots)), gpus, ("Q8_0",), planner, "", placed=False)

    engine: Any = SimpleNamespace(ways=ways)
    places = placed.Places("Qwen/Qwen3-8B", TWO, placed.Want(8192, users), engine, planner)
    answer, _ = places.best()
    assert (answer.users, answer.words) == (float(most), ("Q8_0", str(most)))


@pytest.mark.parametrize(
    ("plan", "users", "why", "served"),
    [
        (_served(2, offloaded=3), 2, "1 of 4 layers on the CPU", 2.0),
        (_served(1, offloaded=0), 2, "4 of 4 layers", 0.0),
        (_served(2, experts=3), 2, "experts on the CPU", 2.0), (_served(2, "close"), 2, "too close to call", 0.0),
        (_served(2, "at_risk", risk="a burst"), 2, "a burst", 0.0),
        (_served(1, experts=3), 1, "experts on the CPU", 1.0),
        (_served(3, experts=3), 1, "experts on the CPU", 1.0), (_served(1, experts=3), 2, "experts on the CPU", 0.0),
    ],
)  # fmt: skip
def test_an_offer_that_does_not_hold_them_says_why(
    plan: Any, users: int, why: str, served: float, monkeypatch: Any
) -> None:
    monkeypatch.setattr(offer, "parse_command", lambda words, engine: TOLD)
    ways = offer.ways_of(lambda one, _: (one.quant, str(one.slots)), TWO, ("Q8_0",), lambda _: plan, "", placed=False)
    answer = ways[-2].at(8, users)
    assert answer.why.startswith(why) and answer.users == served


TOLD = Deployment(Engine("llamacpp", ""), "a/model", {}, ())
