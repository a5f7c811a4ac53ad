"""Small decisions of the engines by tables: what divides, what is left out, what stands at a bound (`make mutants`)."""

from __future__ import annotations

import ast
import re
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from oomph.answers.plan import load
from oomph.doctor.explain import explain
from oomph.engines.llamacpp.convert import quantize
from oomph.engines.llamacpp.failed import printed_devices
from oomph.engines.llamacpp.levers import _experts_back, experts_on_cpu, host_levers
from oomph.engines.llamacpp.timing import ELEMENT
from oomph.engines.ollama.planner import _from_params, choose
from oomph.engines.sglang.drafts import _choice, _layers
from oomph.engines.sglang.emit import _hierarchical_cache
from oomph.engines.sglang.failed import _value, from_arguments, printed_settings
from oomph.engines.sglang.levers import _least_share, balancing_ratio
from oomph.engines.sglang.resolve.reserve import GraphPlan, _graph_reserve, _pays_for_images, _tokens
from oomph.engines.sglang.safe_fraction import Decoding
from oomph.engines.trtllm.command.options_file import put
from oomph.engines.trtllm.emit import config_file
from oomph.engines.trtllm.kv.pool import stage_layers
from oomph.engines.trtllm.scheduler.loop import CapacityLoop
from oomph.engines.trtllm.settings import Settings as TrtllmSettings
from oomph.engines.trtllm.terms import deepgemm_workspace
from oomph.engines.vllm.command.python_call import _environment
from oomph.engines.vllm.host_levers import _smaller
from oomph.engines.vllm.kv.specs import Refused
from oomph.engines.vllm.refusal_levers import _length
from oomph.engines.vllm.resolve.build import _verify_stages
from oomph.engines.vllm.resolve.plain_flags import Offload, _max_pixels, plain_flags
from oomph.engines.vllm.serving.kept import _growing
from oomph.engines.vllm.weights.load.player import Player
from oomph.engines.vllm.weights.load.steps import Setting
from oomph.errors import OomphError
from oomph.facts.llamacpp.quantize import About
from oomph.facts.sglang.facts import at as sglang_at
from oomph.facts.vllm.facts import at as vllm_at
from oomph.ir.model import Experts
from oomph.ir.observation import Observation
from oomph.sources.gpu import parse_gpus
from oomph.units import GIB, MIB, cdiv, round_up

# --- SGLang ------------------------------------------------------------------------------------------


def _graphs(batch: int = 8, decode: bool = True, prefill: str = "disabled", sizes: int = 4, tokens: int = 64) -> Any:
    return GraphPlan(batch, decode, prefill, sizes, tokens)


MEMORY: Any = SimpleNamespace(
    reserve_without_graphs=False, per_graph=2.0, mla_prefill_reserve=0, per_prefill_graph=0, fewest_tokens=100,
    deepep_prefill_reserve=1000, language_only=True, language_model_only=False, decode_worker_keeps_share=True,
)  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "graphs", "mode", "reserve"),
    [
        ({}, _graphs(), "null", 16), ({}, _graphs(), "prefill", 0), ({}, _graphs(decode=False), "null", 0),
        ({"dp_size": 2, "enable_dp_attention": True}, _graphs(), "null", 16 + 48),
        ({"dp_size": 2, "enable_dp_attention": True}, _graphs(300), "null", 600 + 1800),
        ({"dp_size": 2, "enable_dp_attention": True}, _graphs(301), "null", 602 + 1806 + 903),
        ({"dp_size": 2, "enable_dp_attention": True}, _graphs(), "prefill", 0),
        ({}, _graphs(prefill="full"), "null", 16 + 8), ({}, _graphs(prefill="full"), "decode", 16),
        ({}, _graphs(prefill="full"), "prefill", 8), ({}, _graphs(prefill="breakable"), "null", 24),
        ({"moe_a2a_backend": "deepep"}, _graphs(prefill="breakable"), "null", 1024),
        ({"moe_a2a_backend": "deepep"}, _graphs(prefill="full"), "null", 24),
    ],
)  # fmt: skip
def test_sglang_keeps_room_for_graphs(flags: dict[str, Any], graphs: GraphPlan, mode: str, reserve: float) -> None:
    shape: Any = SimpleNamespace(is_latent=False)
    assert _graph_reserve(shape, MEMORY, flags, graphs, mode) == reserve


@pytest.mark.parametrize(
    ("flags", "chunk", "mode", "tokens"),
    [
        ({}, 0, "null", 16384), ({}, -1, "null", 16384), ({}, 1, "null", 100), ({}, 4096, "null", 4096),
        ({"max_prefill_tokens": 200}, 0, "null", 200), ({"max_prefill_tokens": 200}, 300, "null", 300),
        ({}, 4096, "decode", 100), ({"max_running_requests": 150}, 4096, "decode", 150),
        ({"max_running_requests": 150, "speculative_num_draft_tokens": 4}, 0, "decode", 600),
    ],
)  # fmt: skip
def test_sglang_guesses_activations_from_tokens(flags: dict[str, Any], chunk: int, mode: str, tokens: int) -> None:
    assert _tokens(flags, chunk, _graphs(), mode, MEMORY) == tokens
    assert _tokens({}, 0, _graphs(batch=0), "decode", MEMORY) == 100


@pytest.mark.parametrize(
    ("flags", "sees", "pays"),
    [
        ({}, True, True), ({}, False, False), ({"language_only": True}, True, False),
        ({"language_model_only": True}, True, True), ({"disaggregation_mode": "decode"}, True, False),
        ({"disaggregation_mode": "prefill"}, True, True),
    ],
)  # fmt: skip
def test_sglang_keeps_room_for_images_where_they_are_served(flags: dict[str, Any], sees: bool, pays: bool) -> None:
    assert _pays_for_images(SimpleNamespace(is_multimodal=sees), MEMORY, flags) is pays  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("room", "least"), [(0, 9), (79, 9), (80, 9), (90, 10), (99, 10), (100, 11), (190, 20), (10_000, 20)]
)
def test_the_smallest_load_that_does_not_fit(room: int, least: int) -> None:
    assert Decoding(20, 200, 8).load_beyond(room).startswith(f"{least} requests")
    assert Decoding(20, 0, 8).load_beyond(room).startswith("9 requests")


@pytest.mark.parametrize(
    ("flags", "size"),
    [
        ({"hicache_size": 3}, None), ({"enable_hierarchical_cache": True}, 200),
        ({"enable_hierarchical_cache": True, "hicache_ratio": 3.0}, 300),
        ({"enable_hierarchical_cache": True, "hicache_size": 2}, 2 * 10**9),
        ({"enable_hierarchical_cache": True, "hicache_size": 0}, 200),
    ],
)  # fmt: skip
def test_sglang_keeps_a_second_cache_in_host_memory(flags: dict[str, Any], size: int | None) -> None:
    plan: Any = SimpleNamespace(
        deployment=SimpleNamespace(flags=flags), kv=SimpleNamespace(available_bytes=100), ranks=(1, 2)
    )
    parts = _hierarchical_cache(plan, 2)
    assert [part.bytes for part in parts] == ([] if size is None else [2 * size])
    assert all(part.high == round(1.05 * part.bytes) for part in parts)


def test_sglang_prints_its_arguments() -> None:
    assert [_value(text) for text in ("'a'", "True", "False", "None", "3", "-1", "0.5", "x")] == [
        "a", True, False, None, 3, -1, 0.5, None,
    ]  # fmt: skip
    text = "model_path='a/b', context_length=4096, mem_fraction_static=0.8, tp_size=2, disable_cuda_graph=False"
    lines = [Observation(1, "sg_args", {"args": text})]
    gpus = parse_gpus("2x RTX 4090")
    deployment = from_arguments(lines, gpus)
    assert deployment is not None and deployment.model == "a/b"
    assert deployment.flags == {"context_length": 4096, "mem_fraction_static": 0.8, "tp_size": 2}
    assert from_arguments(lines, ()) is None and from_arguments([], gpus) is None
    newer = "{'model_path': 'a/b', 'tp_size': 2, 'cuda_graph_config': {'decode': {'tp_size': 7}}, 'dtype': 'auto'}"
    assert printed_settings([Observation(1, "sg_args", {"args": newer})]) == ("a/b", {"tp_size": 2})


@pytest.mark.parametrize(
    ("capture", "flag"),
    [
        ("Capture cuda graph begin. This can take up to several minutes. avail mem=1.6 GB", "--cuda-graph-max-bs 16"),
        ("Capture target decode CUDA graph begin. backend=full, avail mem=1.6 GB", "--cuda-graph-max-bs-decode 16"),
    ],
)
def test_a_flag_is_spelled_as_the_release_of_the_log_spells_it(capture: str, flag: str) -> None:
    log = f"[2026-05-14 12:00:02 TP0] {capture}\nException: Capture cuda graph failed: CUDA out of memory.\n"
    assert flag in [remedy.change.label for remedy in explain(log, plan=False).remedies]


@pytest.mark.parametrize(
    ("flags", "choice"),
    [
        ({"speculative_num_steps": 3}, (3, 1, 4)),
        ({"speculative_num_steps": 3, "speculative_eagle_topk": 4}, (3, 4, 4)),
        ({"speculative_num_steps": 2, "speculative_num_draft_tokens": 8}, (2, 1, 8)),
    ],
)  # fmt: skip
def test_sglang_counts_the_tokens_of_a_draft(flags: dict[str, Any], choice: tuple[int, int, int]) -> None:
    settings: Any = SimpleNamespace(speculative_algorithm="EAGLE")
    model: Any = SimpleNamespace(architecture="A", param=lambda name: None)
    assert _choice(settings, model, sglang_at("0.5.16"), flags) == choice
    assert _layers(model, None) == 0
    assert _layers(model, SimpleNamespace(layers=(1, 2))) == 2  # type: ignore[arg-type]


def _pools(slots: int = 2, block: int = 16, has_kv: bool = True, context: int = 1024) -> Any:
    kv = SimpleNamespace(block_size=block, bytes_per_block=1600) if has_kv else None
    terms = {"free_before_load": SimpleNamespace(low=1_000_000), "weights": SimpleNamespace(high=400_000)}
    resolved = {"mamba_slots_per_request": slots, "mamba_bytes_per_slot": 51200, "context_length": context}
    return SimpleNamespace(kv=kv, resolved=resolved, ranks=[SimpleNamespace(terms=terms)])


def test_the_ratio_at_which_states_and_tokens_run_out_together() -> None:
    assert balancing_ratio(_pools()) == 1.0
    assert balancing_ratio(_pools(slots=1)) == 0.5
    assert balancing_ratio(_pools(slots=100)) == 9.0
    assert balancing_ratio(_pools(context=1 << 20)) == 0.05
    assert [balancing_ratio(plan) for plan in (_pools(slots=0), _pools(block=0), _pools(has_kv=False))] == [None] * 3


def test_the_smallest_share_that_leaves_a_request() -> None:
    assert _least_share(_pools()) == 0.51  # 400,000 of weights and 1,024 tokens of 100 bytes
    assert _least_share(_pools(context=0)) == 0.81  # 4,096 tokens
    assert _least_share(_pools(context=8192)) == 0.81
    assert _least_share(_pools(has_kv=False)) == 0.4
    nothing = _pools()
    nothing.ranks[0].terms["free_before_load"].low = 0
    assert _least_share(nothing) == 1.0


# --- TensorRT-LLM -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "stages", "partition", "ranges"),
    [
        (10, 1, (), [(0, 10)]), (10, 2, (), [(0, 5), (5, 10)]), (10, 3, (), [(0, 4), (4, 7), (7, 10)]),
        (11, 3, (), [(0, 4), (4, 8), (8, 11)]), (10, 2, (7, 3), [(0, 7), (7, 10)]), (10, 2, (7, 4), None),
        (10, 3, (7, 3), None), (10, 2, (10,), None),
    ],
)  # fmt: skip
def test_tensorrt_llm_divides_layers_among_stages(
    count: int, stages: int, partition: tuple[int, ...], ranges: list[tuple[int, int]] | None
) -> None:
    settings: Any = SimpleNamespace(pp_size=stages, pp_partition=partition)
    if ranges is None:
        with pytest.raises(OomphError, match="does not split"):
            stage_layers(count, settings, 0)
    else:
        parts = [stage_layers(count, settings, rank) for rank in range(stages)]
        assert [(part.start, part.stop) for part in parts] == ranges


# --- llama.cpp ------------------------------------------------------------------------------------------


def _host_plan(flags: dict[str, Any], ram: int = 64, breaks: str = "host_ram", later: int = 1) -> Any:
    parts = [SimpleNamespace(name="prompt cache")] * later
    return SimpleNamespace(
        host=SimpleNamespace(ram_bytes=ram, later=parts), deployment=SimpleNamespace(flags=flags),
        verdict=SimpleNamespace(first_to_break=breaks),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("plan", "names"),
    [
        (_host_plan({}), ["cache_ram"]), (_host_plan({"mmap": False}), ["mmap", "cache_ram"]),
        (_host_plan({"mmap": True}), ["cache_ram"]), (_host_plan({"mlock": True}, later=0), ["mlock"]),
        (_host_plan({"load_mode": "mmap"}, later=0), []), (_host_plan({"load_mode": "none"}, later=0), ["load_mode"]),
        (_host_plan({"cache_ram": 0}), []), (_host_plan({"cache_ram": 4096}), ["cache_ram"]), (_host_plan({}, 0), []),
        (_host_plan({}, breaks="weights_load"), []),
    ],
)  # fmt: skip
def test_what_helps_host_memory(plan: Any, names: list[str]) -> None:
    levers = list(host_levers(plan))
    assert [lever.name for lever in levers] == names
    flags = [lever.changes[0].flags for lever in levers]
    assert flags == [{name: {"load_mode": "mmap", "cache_ram": 0}.get(name)} for name in names]


@pytest.mark.parametrize(
    ("count", "fewer"), [(0, []), (1, []), (2, [1]), (4, [3, 2, 1]), (8, [6, 4, 2]), (9, [6, 4, 2])]
)
def test_experts_go_back_to_the_gpus(count: int, fewer: list[int]) -> None:
    plan: Any = SimpleNamespace(
        verdict=SimpleNamespace(first_to_break="host_ram"),
        deployment=SimpleNamespace(flags={"override_tensor": experts_on_cpu(count)}),
    )
    labels = [change.label for lever in _experts_back(plan) for change in lever.changes]
    assert labels == [f"--n-cpu-moe {number}" for number in fewer]
    plan.deployment.flags = {"override_tensor": [("other", "CPU")]}
    assert not list(_experts_back(plan))
    plan.verdict.first_to_break = "weights_load"
    assert not list(_experts_back(plan))


@pytest.mark.parametrize(
    ("buffer", "total", "free", "used"),
    [("CUDA0", 100, 40, 60), ("CUDA0", 100, 100, 0), ("CUDA0", 100, 101, None), ("CPU", 100, 40, None)],
)
def test_llamacpp_prints_what_a_card_has_free(buffer: str, total: int, free: int, used: int | None) -> None:
    values: dict[str, Any] = {"buffer": buffer, "device": buffer, "name": "a card", "total": total, "free": free}
    devices = printed_devices([Observation(1, "lc_free", values)])
    assert [device.used_bytes for device in devices] == ([] if used is None else [used])
    assert not printed_devices([Observation(1, "lc_device", values)])


def test_an_element_of_the_cache_takes_its_block_s_share() -> None:
    """Bytes of an element of ggml's types: 32 of them and their scale."""
    blocks = {
        "q8_0": 34,
        "q5_1": 24,
        "q5_0": 22,
        "q4_1": 20,
        "q4_0": 18,
        "iq4_nl": 18,
        "f16": 64,
        "bf16": 64,
        "f32": 128,
    }
    assert {name: size * 32 for name, size in ELEMENT.items()} == blocks


# --- vLLM ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_a_load_allocates_each_of_many(count: int) -> None:
    facts = vllm_at("0.21.0")
    player = Player(Setting(facts.repacking, facts.loading, 0, 90, 132))
    player.new_many("a module", 3 * MIB, count)
    assert player.held == count * 3 * MIB
    assert player.peak.total == player.held


@pytest.mark.parametrize(
    ("stages", "is_refused"),
    [
        (((0, 36),), False), (((0, 18), (18, 36)), False), (((0, 2), (2, 36)), True), (((0, 3), (3, 36)), False),
        (((0, 1), (1, 20), (20, 36)), True), (((0, 1), (1, 2), (2, 36)), True),
    ],
)  # fmt: skip
def test_inner_states_of_an_encoder_stay_on_the_first_stage(stages: Any, is_refused: bool) -> None:
    model: Any = SimpleNamespace(
        architecture="Qwen3VLForConditionalGeneration", param=lambda name, default: 3, layers=()
    )
    if is_refused:
        with pytest.raises(Refused):
            _verify_stages(model, stages)
    else:
        _verify_stages(model, stages)
    _verify_stages(SimpleNamespace(architecture="Other", param=lambda name, default: 3, layers=()), stages)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("offload", "taken"),
    [
        (Offload(10), [0, 9]), (Offload(0, 4, 1), [3, 7]), (Offload(0, 4, 2), [2, 3, 6, 7]), (Offload(), []),
        (Offload(10, params=frozenset(("experts",))), []),
    ],
)  # fmt: skip
def test_which_layers_go_to_the_host(offload: Offload, taken: list[int]) -> None:
    """By a budget of bytes that are gone, or of each group the last layers."""
    if offload.budget:
        assert [gone for gone in (0, 9, 10, 11) if offload.takes(0, gone, "mlp.up")] == taken
        named = Offload(10, params=frozenset(("experts",)))
        assert named.takes(0, 0, "mlp.experts.w1") and not named.takes(0, 0, "mlp.shared_experts.w1")
    else:
        assert [layer for layer in range(8) if offload.takes(layer, 0, "mlp.up")] == taken
    assert offload.active is bool(offload.budget or offload.group)


@pytest.mark.parametrize(
    ("kwargs", "pixels"),
    [
        ({}, 0), ({"max_pixels": 5}, 5), ({"max_pixels": 0}, 0), ({"max_pixels": -1}, 0), ({"max_pixels": 1}, 1),
        ({"size": {"longest_edge": 7}}, 7), ({"max_pixels": "x"}, 0), ({"size": 3}, 0),
    ],
)  # fmt: skip
def test_a_limit_of_pixels_is_a_number_above_zero(kwargs: dict[str, Any], pixels: int) -> None:
    assert _max_pixels(kwargs) == pixels


@pytest.mark.parametrize(
    ("source", "variables"),
    [
        ('os.environ["A"] = "1"', {"A": "1"}), ('os.environ.setdefault("A", "1")', {"A": "1"}),
        ('os.environ["A"] = "1"\nos.environ.setdefault("A", "2")', {"A": "1"}), ('other["A"] = "1"', {}),
        ('values.setdefault("A", "1")', {}), ('os.environ.setdefault("A")', {}), ('os.environ["A"] = 1', {}),
        ('os.environ.setdefault("A", "1", "2")', {}), ('os.environ.setdefault("A", x)', {}),
    ],
)  # fmt: skip
def test_variables_that_a_script_sets(source: str, variables: dict[str, str]) -> None:
    assert _environment(ast.parse(source)) == variables


@pytest.mark.parametrize(
    ("overrides", "names"),
    [
        (None, ["max_model_len"]), ({"rope_scaling": {}}, ["max_model_len", "hf_overrides"]),
        ({"rope_parameters": {}}, ["max_model_len", "hf_overrides"]), ({"other": 1}, ["max_model_len"]),
        ("rope_scaling", ["max_model_len"]),
    ],
)  # fmt: skip
def test_a_longer_context_than_the_config_says(overrides: Any, names: list[str]) -> None:
    levers = list(_length({"hf_overrides": overrides} if overrides else {}, 65536, 40960))
    assert [lever.name for lever in levers] == names
    assert levers[0].changes[0].flags == {"max_model_len": 40960}
    if len(levers) > 1:
        assert levers[1].changes[0].flags["hf_overrides"]["max_position_embeddings"] == 65536


@pytest.mark.parametrize(
    ("size", "short", "sizes"),
    [
        (8, GIB, [6, 4, 2]), (8, 10 * GIB, [4, 2]), (2, GIB // 10, [1]), (1, GIB, []), (0, GIB, None),
        (True, GIB, None), ("8", GIB, None), (4.5, GIB, [3, 2, 1]), (10, 0, [5, 2]),
    ],
)  # fmt: skip
def test_less_is_kept_in_host_memory(size: Any, short: int, sizes: list[int] | None) -> None:
    plan: Any = SimpleNamespace(deployment=SimpleNamespace(flags={"cpu_offload_gb": size}))
    changes = [change for lever in _smaller(plan, "cpu_offload_gb", short, "a cost") for change in lever.changes]
    assert [change.flags["cpu_offload_gb"] for change in changes] == ([] if sizes is None else [*sizes, None])


@pytest.mark.parametrize(
    ("sequences", "tokens", "drafts", "rows"),
    [(4, 100, 0, [1, 2, 3, 4]), (1, 100, 0, [1]), (0, 100, 0, []), (2, 250, 0, [2]), (9, 3, 0, [1, 2, 3]),
     (9, 4, 1, [1, 2])],
)  # fmt: skip
def test_prompts_fill_the_steps_that_decoding_leaves(sequences: int, tokens: int, drafts: int, rows: list[int]) -> None:
    passes: Any = SimpleNamespace(sequences=sequences, tokens=tokens, drafts=drafts)
    assert _growing(passes, 200) == rows


# --- TensorRT-LLM's files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("max_batch_size", (0, 1, 512), (-1, True, 1.5, "8", 1 << 70)),
        ("kv_cache_config.free_gpu_memory_fraction", (0.5, 1), (True, "x", float("nan"))),
        ("kv_cache_config.enable_block_reuse", (True, False), (1, "true")),
        ("kv_cache_config.dtype", ("fp8",), (8, True)),
        ("kv_cache_config.max_attention_window", ([1], [512, 4096]), ([0], [True], ["x"], 512, [-1], [1.5])),
    ],
)  # fmt: skip
def test_values_of_an_options_file(field: str, good: tuple[Any, ...], bad: tuple[Any, ...]) -> None:
    for value in good:
        fields: dict[str, Any] = {}
        put(fields, field, value, "a file")
        assert fields == {field: value}
    for value in bad:
        with pytest.raises(OomphError, match=re.escape(field)):
            put({}, field, value, "a file")


def test_no_graphs_are_said_by_nothing_and_any_other_field_is_left_out() -> None:
    fields: dict[str, Any] = {}
    put(fields, "cuda_graph_config", None, "a file")
    put(fields, "max_batch_size", None, "a file")
    assert list(fields) == ["cuda_graph_config"] and fields["cuda_graph_config"] is not None


def test_the_options_file_holds_what_is_not_the_server_s_own() -> None:
    flags = {"max_batch_size": 8, "port": 8001, "backend": "pytorch", "host": "x", "max_seq_len": 4}
    text = config_file(SimpleNamespace(flags=flags))  # type: ignore[arg-type]
    assert "max_batch_size: 8" in text and "max_seq_len: 4" in text
    assert not any(word in text for word in ("port", "backend", "host"))


@pytest.mark.parametrize(
    ("tokens", "tp", "dp", "limit", "chunks"),
    [(1000, 4, False, 0, 1), (1000, 4, True, 1000, 4), (2000, 1, False, 1000, 1), (2001, 1, False, 1000, 3)],
)
def test_experts_work_in_chunks(tokens: int, tp: int, dp: bool, limit: int, chunks: int) -> None:
    experts = Experts("experts", 8, 256, 128, 2, "BF16")
    layer = SimpleNamespace(block=SimpleNamespace(modules=(experts,)))
    model: Any = SimpleNamespace(layers=[layer])
    settings = TrtllmSettings(
        max_num_tokens=tokens, tp_size=tp, ep_size=tp, enable_attention_dp=dp, moe_max_num_tokens=limit
    )
    every = tokens * (tp if dp else 1)
    rows = 8 // tp * round_up(cdiv(every, chunks), 128)
    assert deepgemm_workspace(model, settings) == rows * (256 + 4 + 2 * 256)
    assert replace(settings, max_seq_len=10, extra_tokens=3).printed_seq_len == 12


# --- Ollama ------------------------------------------------------------------------------------------


def test_a_model_s_own_parameters_are_whole_numbers() -> None:
    params = {"num_ctx": 0, "num_gpu": (1 << 31) - 1, "num_batch": 1 << 31, "other": 3}
    assert _from_params(params) == {"num_ctx": 0, "num_gpu": (1 << 31) - 1}
    assert _from_params({"num_ctx": -1, "num_gpu": True, "num_batch": "8"}) == {}


@pytest.mark.parametrize(("flags", "context"), [({}, 4096), ({"num_ctx": 8192}, 8192), ({"num_ctx": 0}, 4096)])
def test_ollama_takes_its_default_context_where_none_is_named(flags: dict[str, Any], context: int) -> None:
    model = load("Qwen/Qwen3-4B")
    chosen = choose(model, flags, parse_gpus("RTX 3060 12GB"), vision=False)
    assert (chosen.num_ctx, chosen.parallel) == (context, 1)
    assert choose(model, {**flags, "num_parallel": 300}, parse_gpus("RTX 3060 12GB"), vision=False).parallel == 256
    longest = choose(model, {"num_ctx": 1 << 20}, parse_gpus("RTX 3060 12GB"), vision=False)
    assert longest.num_ctx == model.max_position


@pytest.mark.parametrize(
    ("architecture", "flags", "is_whole"),
    [
        ("A", {"mm_encoder_tp_mode": "data"}, True), ("B", {"mm_encoder_tp_mode": "data"}, False), ("A", {}, False),
        ("A", {"mm_encoder_tp_mode": "weights"}, False), ("B", {}, False),
        ("A", {"enable_multimodal_encoder_data_parallel": True}, True),
    ],
)  # fmt: skip
def test_every_rank_has_the_whole_encoder_where_its_class_can(
    architecture: str, flags: dict[str, Any], is_whole: bool
) -> None:
    model: Any = SimpleNamespace(architecture=architecture, towers=(), modalities=())
    assert plain_flags(model, flags, frozenset("A")).multimodal.encoder_per_rank is is_whole


@pytest.mark.parametrize(
    ("count", "arrival", "steps"),
    [
        (5, 30, 3), (5, 31, 4), (5, 29, 3), (3, 30, 3), (4, 30, 3), (5, 0, 1), (5, 1, 1), (5, 100, 5), (1, 0, 1),
        (5, None, 5),
    ],
)  # fmt: skip
def test_steps_that_begin_before_a_request_comes(count: int, arrival: int | None, steps: int) -> None:
    """Steps of ten ticks: the first begins at once, the fourth at 30, when the request is there."""
    loop: Any = SimpleNamespace(
        clients=SimpleNamespace(arrival=None if arrival is None else (arrival, "a request")), now=0,
        capacity=SimpleNamespace(beams=1), time=SimpleNamespace(fixed=lambda rows, tokens: 10),
        decode_time=SimpleNamespace(all_series=lambda contexts, step: 0),
    )  # fmt: skip
    request: Any = SimpleNamespace(tokens=1)
    assert CapacityLoop._steps_before_arrival(loop, [request], count) == steps


@pytest.mark.parametrize("length", [39, 40, 41])
def test_an_unknown_quantisation_is_quoted_as_far_as_a_line_goes(length: int) -> None:
    with pytest.raises(OomphError, match=f"'{'x' * min(length, 40)}'"):
        quantize((), "x" * length, About(1, 0, 1, False))
