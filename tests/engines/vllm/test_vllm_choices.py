"""Small choices of vLLM's planner, each side by itself: specs that merge, levers of a refusal, worlds, host pools."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from oomph.engines.vllm.host import _kv_tiers, _number
from oomph.engines.vllm.kv.check import _block_tokens
from oomph.engines.vllm.kv.layers import _extra_retained
from oomph.engines.vllm.kv.specs import Refused, Request, Spec, is_uniform_type, max_blocks, merges
from oomph.engines.vllm.profile.live import _Layer
from oomph.engines.vllm.refusal_levers import refusal_levers
from oomph.engines.vllm.resolve.modules import _kind, _runs
from oomph.engines.vllm.terms import _variable
from oomph.engines.vllm.world import replicas_here, world_size
from oomph.facts.vllm.facts import at
from oomph.facts.vllm.versions import NEWEST
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.model import Scheme
from oomph.ir.timeline import Verdict
from oomph.sources.gpu import parse_gpus
from oomph.units import GIB

RULES = at("0.21.0").kv
FULL = Spec("full", 16, 100)
(CARD,) = parse_gpus("RTX 4090")


def spec(kind: str, **values: Any) -> Spec:
    return Spec(kind, **{"block_size": 16, "state_bytes": 100, **values})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("first", "second", "is_uniform"),
    [
        (FULL, spec("full", state_bytes=200), True), (FULL, spec("mla"), True),
        (FULL, spec("mla", block_size=32), False),
        (FULL, spec("sliding_window", window=8), False), (spec("mla"), FULL, True),
        (spec("sliding_window", window=8), spec("sliding_window", window=8, state_bytes=5), True),
        (spec("sliding_window", window=8), spec("sliding_window", window=9), False),
        (spec("sliding_window", window=8), spec("sliding_window_mla", window=8), True),
        (spec("sliding_window_mla", window=8), spec("sliding_window_mla", window=8, head_size=4), True),
        (spec("sliding_window_mla", window=8), spec("sliding_window_mla", window=9), False),
        (spec("sliding_window_mla", window=8), spec("sliding_window", window=8), False),
        (spec("chunked_local", chunk=8), spec("chunked_local", chunk=8, state_bytes=5), True),
        (spec("chunked_local", chunk=8), spec("chunked_local", chunk=9), False),
        (spec("chunked_local", chunk=8), spec("full", chunk=8), False),
        (spec("cross"), spec("cross", state_bytes=5), True), (spec("cross"), FULL, False),
    ],
)  # fmt: skip
def test_one_block_table_serves_layers_of_one_type(first: Spec, second: Spec, is_uniform: bool) -> None:
    assert is_uniform_type((first, second), RULES) is is_uniform
    assert is_uniform_type((first,), RULES)


@pytest.mark.parametrize(
    ("first", "second", "is_merged"),
    [
        (FULL, FULL, True), (FULL, spec("full", state_bytes=200), False), (FULL, spec("mla"), False),
        (FULL, spec("full", window=8), True), (spec("full", chunk=8), spec("full", window=8), False),
        (spec("full", chunk=8), FULL, True), (spec("full", window=8), spec("full", window=9), None),
        (spec("full", chunk=8), spec("full", chunk=9), None), (spec("mla"), spec("mla"), True),
        (spec("mla", role="a"), spec("mla", role="b"), False), (spec("mla"), FULL, False),
        (spec("sliding_window", window=8), spec("sliding_window", window=8), True),
        (spec("sliding_window", window=8), spec("sliding_window", window=9), False),
    ],
)  # fmt: skip
def test_layers_that_are_one_group_of_one_spec(first: Spec, second: Spec, is_merged: bool | None) -> None:
    if is_merged is None:
        with pytest.raises(Refused):
            merges((first, second), RULES)
    else:
        assert merges((first, second), RULES) is is_merged


def asks(length: int, in_flight: int, mode: Any = "none", cp: int = 1, encoder_tokens: int = 0) -> Request:
    return Request(length, in_flight, mode, cp, encoder_tokens)


@pytest.mark.parametrize(
    ("one", "request_of", "blocks"),
    [
        (FULL, asks(64, 0), 4), (FULL, asks(65, 0), 5), (FULL, asks(64, 0, cp=2), 2),
        (spec("sliding_window", window=17), asks(1000, 16), 3),
        (spec("sliding_window", window=17), asks(1000, 17), 4),
        (spec("sliding_window", window=17), asks(16, 100), 2),
        (spec("sliding_window", window=17, extra_retained=1), asks(1000, 16), 4),
        (spec("chunked_local", chunk=16), asks(1000, 16), 2),
        (spec("chunked_local", chunk=16), asks(1000, 17), 3),
        (spec("cross"), asks(1000, 0, encoder_tokens=17), 2),
        (spec("mamba", speculative_blocks=3), asks(64, 0, "all"), 4 + (3 if RULES.mamba == "mode+spec" else 0)),
        (spec("mamba", speculative_blocks=3, checkpoint_blocks=5), asks(64, 0, "align"), 10),
        (spec("mamba", speculative_blocks=3), asks(64, 0), 4),
    ],
)  # fmt: skip
def test_how_many_blocks_a_request_may_hold(one: Spec, request_of: Request, blocks: int) -> None:
    assert max_blocks(one, request_of, RULES) == blocks


@pytest.mark.parametrize(
    ("groups", "cached", "mode", "tokens"),
    [
        # (kind, block) of each group, with two ranks that share the tokens of full attention
        ((("full", 16),), True, "none", (64, 64)), ((("full", 16), ("sliding_window", 16)), True, "none", (32, 16)),
        ((("full", 16), ("sliding_window", 48)), True, "none", (96, 16)),
        ((("full", 16), ("sliding_window", 48)), False, "none", (96, 96)),
        ((("full", 16), ("mamba", 48)), True, "none", (96, 96)), ((("full", 16),
        ("mamba", 48)), True, "align", (96, 16)),
    ],
)  # fmt: skip
def test_the_tokens_of_a_block(groups: Any, cached: bool, mode: str, tokens: tuple[int, int]) -> None:
    kv: Any = SimpleNamespace(dcp=2, pcp=2, prefix_caching=cached, mamba_mode=mode)
    every: Any = [SimpleNamespace(block_size=block, spec=spec(kind)) for kind, block in groups]
    assert _block_tokens(kv, every) == tokens


# --- the levers of a refusal -----------------------------------------------------------------------------------------


def refused(message: str, gpus: int = 1, version: str = "0.21.0", **flags: Any) -> list[Any]:
    plan: Any = SimpleNamespace(
        verdict=Verdict(False, "other", message=message),
        deployment=Deployment(Engine("vllm", version), "a/model", flags, (CARD,) * gpus),
    )
    levers = list(refusal_levers(plan))
    assert all(len(lever.changes) == 1 for lever in levers)
    return [lever.changes[0] for lever in levers]


def test_a_context_that_is_too_long() -> None:
    message = "max_model_len (9000) is greater than the derived max_model_len (max_position_embeddings=4096 or"
    (shorter,) = refused(message)
    assert (shorter.flags, shorter.label) == ({"max_model_len": 4096}, "--max-model-len 4096")
    for name in ("rope_parameters", "rope_scaling"):
        _, longer = refused(message, hf_overrides={name: {}})
        assert longer.flags == {"hf_overrides": {name: {}, "max_position_embeddings": 9000}}
    assert len(refused(message, hf_overrides={"a": 1})) == 1


@pytest.mark.parametrize(
    ("message", "version", "flags", "change"),
    [
        ("max_num_batched_tokens (10) is smaller than max_model_len (70)", "0.21.0", {},
         {"max_num_batched_tokens": 70}),
        ("Bfloat16 is only supported on GPUs", "0.21.0", {}, {"dtype": "half"}),
        ("FP8 KV cache is not supported", "0.21.0", {}, {"kv_cache_dtype": "float16"}),
        ("FP8 KV cache is not supported", "0.21.0", {"kv_cache_dtype": "fp8"}, {"kv_cache_dtype": "auto"}),
        ("kv_cache_dtype is wrong", "0.21.0", {"kv_cache_dtype": "fp8"}, {"kv_cache_dtype": "auto"}),
        ("does not recognize this architecture", "0.21.0", {}, NEWEST),
    ],
)  # fmt: skip
def test_a_refusal_names_what_to_change(message: str, version: str, flags: dict[str, Any], change: Any) -> None:
    (only,) = refused(message, version=version, **flags)
    assert (only.version or only.flags) == change


def test_the_newest_release_has_no_newer_one() -> None:
    assert not refused("does not recognize this architecture", version=NEWEST)


def test_the_name_of_a_parser() -> None:
    close, without = refused("invalid tool call parser", tool_call_parser="hermess")
    assert close.flags == {"tool_call_parser": "hermes"}
    assert without.flags == {"tool_call_parser": None, "enable_auto_tool_choice": None}
    (without,) = refused("invalid reasoning parser", reasoning_parser="nothing-like-it")
    assert without.flags == {"reasoning_parser": None}
    assert not refused("something else", tool_call_parser="hermes")
    newer = sorted({*at(NEWEST).values.tool_call_parser} - {*at("0.21.0").values.tool_call_parser})
    upgrade, _ = refused("invalid tool call parser", tool_call_parser=newer[0])
    assert upgrade.version == NEWEST


# --- worlds, variables, pools ----------------------------------------------------------------------------------------


def deployment(gpus: int = 1, **flags: Any) -> Deployment:
    return Deployment(Engine("vllm", "0.21.0"), "a/model", flags, (CARD,) * gpus)


@pytest.mark.parametrize(
    ("flags", "world", "here"),
    [
        ({}, 1, 1), ({"tensor_parallel_size": 2, "pipeline_parallel_size": 3}, 6, 1),
        ({"tensor_parallel_size": 0}, 1, 1),
        ({"tensor_parallel_size": 1}, 1, 1), ({"data_parallel_size": 4}, 1, 4), ({"data_parallel_size": 0}, 1, 1),
        ({"data_parallel_size": 4, "data_parallel_size_local": 2}, 1, 2), ({"tensor_parallel_size": "two"}, 1, 1),
        ({"data_parallel_size": 4, "data_parallel_size_local": 0}, 1, 0), ({"data_parallel_size_local": 1}, 1, 1),
    ],
)  # fmt: skip
def test_how_many_gpus_a_layout_needs(flags: dict[str, Any], world: int, here: int) -> None:
    assert (world_size(deployment(**flags)), replicas_here(deployment(**flags))) == (world, here)


@pytest.mark.parametrize(
    ("text", "value"), [("", 7), ("12", 12), ("999999", 999999), ("1000000", 7), ("-1", 7), ("٣", 7), ("0", 0)]
)
def test_a_variable_that_is_a_number(text: str, value: int) -> None:
    run: Any = SimpleNamespace(deployment=SimpleNamespace(environment={"A": text} if text else {}))
    assert _variable(run, "A", 7) == value


@pytest.mark.parametrize(
    ("text", "value"), [(None, 5.0), ("", 5.0), ("2.5", 2.5), ("-1", 0.0), ("0", 0.0), ("0.005", 0.005), ("x", 5.0)]
)
def test_a_size_in_a_variable(text: str | None, value: float) -> None:
    assert _number(text, 5.0) == value


@pytest.mark.parametrize(
    ("flags", "environment", "parts"),
    [
        ({}, {}, []), ({"kv_transfer_config": {"kv_connector": None}}, {}, []), ({"kv_offloading_size": 0}, {}, []),
        ({"kv_transfer_config": {"kv_connector": "LMCacheConnectorV1"}}, {"LMCACHE_MAX_LOCAL_CPU_SIZE": "2"},
         [("LMCache", 4 * GIB, 4 * GIB, round(4 * GIB * 1.1))]),
    ],
)  # fmt: skip
def test_pools_on_the_host(flags: dict[str, Any], environment: dict[str, str], parts: list[Any]) -> None:
    plan: Any = SimpleNamespace(deployment=SimpleNamespace(flags=flags, environment=environment))
    assert [(part.name, part.bytes, part.low, part.high) for part in _kv_tiers(plan, 2)] == parts


# --- kernels of linear layers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheme", "kind"),
    [
        (Scheme("awq", 4, "int", "group"), ""), (Scheme("gptq", 4, "int", "group", input_bits=16), "wna16"),
        (Scheme("compressed-tensors", 8, "int", "channel", input_bits=8), "int8"),
        (Scheme("compressed-tensors", 4, "float", "tensor_group"), "nvfp4"),
        (Scheme("modelopt_fp4", 4, "float", "group"), "nvfp4"),
        (Scheme("other", 4, "float", "group"), ""), (Scheme("fp8", 8, "float", "block", group_size=128), "fp8_block"),
        (Scheme("fp8", 8, "float", "tensor"), "fp8"), (Scheme("mxfp8", 8, "float", "block", group_size=32), "mxfp8"),
    ],
)  # fmt: skip
def test_the_kind_of_a_linear_layer(scheme: Scheme, kind: str) -> None:
    assert _kind(scheme) == kind


@pytest.mark.parametrize(
    ("backend", "sm", "strategy", "activation", "runs"),
    [
        ("flashinfer_cutlass", 100, "tensor", "static", True), ("flashinfer_cutlass", 101, "tensor", "static", True),
        ("flashinfer_cutlass", 99, "tensor", "static", False), ("flashinfer_cutlass", 100, "channel", "static", False),
        ("flashinfer_cutlass", 100, "tensor", "dynamic", False), ("other", 100, "channel", "dynamic", True),
        ("other", 109, "channel", "dynamic", True), ("other", 110, "channel", "dynamic", False),
        ("other", 99, "tensor", "static", False),
    ],
)  # fmt: skip
def test_where_a_kernel_runs(backend: str, sm: int, strategy: Any, activation: Any, runs: bool) -> None:
    facts: Any = SimpleNamespace(kernels={"fp8": {backend: (100, 110)}})
    scheme = Scheme("fp8", 8, "float", strategy, activation=activation)
    assert _runs(facts, "fp8", backend, scheme, sm) is runs


@pytest.mark.parametrize(("groups", "widths"), [(1, (100, 30, 30)), (2, (100, 30, 60, 50)), (8, (100, 30, 60, 50))])
def test_a_gated_norm_in_groups_is_there_twice(groups: int, widths: tuple[int, ...]) -> None:
    layer: Any = SimpleNamespace(
        batch=SimpleNamespace(layout=SimpleNamespace(tp=2)), model=SimpleNamespace(hidden_size=10),
        layer=SimpleNamespace(mixers=("state",)), _projection=lambda: 100,
    )  # fmt: skip
    state: Any = SimpleNamespace(kind="mamba2", intermediate=60, groups=groups)
    assert _Layer._state(layer, state) == widths


@pytest.mark.parametrize(
    ("version", "modules", "drafts", "extra"),
    [("0.27.1", 3, 3, 0), ("0.28.0", 3, 3, 2), ("0.32.0", 3, 2, 1), ("0.32.0", 3, 1, 0), ("0.32.0", 1, 3, 0)],
)
def test_windows_keep_what_several_draft_modules_read(version: str, modules: int, drafts: int, extra: int) -> None:
    model = SimpleNamespace(drafts=[SimpleNamespace(mixers=("attention",))] * modules)
    for uses_drafts in (True, False):
        setup = SimpleNamespace(uses_drafts=uses_drafts, drafts=drafts)
        work: Any = SimpleNamespace(model=model, setup=setup, facts=at(version))
        assert _extra_retained(work) == (extra if uses_drafts else 0)
