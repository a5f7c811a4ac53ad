"""Further small choices of the engines by tables: kernels of experts, sizes of states, words of a command."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from oomph.answers.plan import load, plan
from oomph.engines.common import shard
from oomph.engines.common.allocator import ROUND, Allocator
from oomph.engines.common.expert_kernel import (
    ExpertSetting,
    _packed_refusal,
    routing_method,
    scheme_family,
)
from oomph.engines.llamacpp.cache import state_bytes
from oomph.engines.llamacpp.failed import printed_devices
from oomph.engines.ollama.planner import resolve_name
from oomph.engines.registry import engine_named
from oomph.engines.sglang import controls as sglang_controls
from oomph.engines.sglang.command.serve import parse as parse_sglang
from oomph.engines.sglang.failed import from_arguments
from oomph.engines.trtllm import resolve as trtllm
from oomph.engines.vllm import controls as vllm_controls, terms
from oomph.engines.vllm.command import values
from oomph.engines.vllm.command.arguments import _spelled
from oomph.engines.vllm.kv.specs import Refused
from oomph.engines.vllm.resolve.backend_query import _hd256_falls_back
from oomph.engines.vllm.resolve.build import verify_config
from oomph.engines.vllm.resolve.expert_setting import expert_setting
from oomph.errors import CannotPlan, CommandError, UnknownCache, UnknownModel
from oomph.facts.sglang.flags import options_of as sglang_options
from oomph.facts.trtllm.facts import at as trtllm_at
from oomph.facts.vllm.expert_kernels import DEEPGEMM, MARLIN, MXFP4_CUTLASS, MXFP4_TRTLLM
from oomph.facts.vllm.facts import at
from oomph.facts.vllm.flags import options_of
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.model import Linear, Part, Routing, Scheme, State
from oomph.ir.observation import Observation
from oomph.sources.gpu import parse_gpus
from oomph.units import MIB


@pytest.mark.parametrize(
    ("flags", "needed"),
    [
        ({}, 1), ({"tp_size": 4}, 4), ({"tp_size": 4, "pp_size": 2}, 8), ({"tp_size": 0}, 1), ({"tp_size": "all"}, 1),
        ({"tp_size": 4, "nnodes": 1}, 4), ({"tp_size": 4, "nnodes": 2}, 2), ({"tp_size": 1, "nnodes": 2}, 1),
        ({"tp_size": 4, "nnodes": "two"}, 4), ({"tp_size": 1, "nnodes": 1}, 1),
    ],
)  # fmt: skip
def test_how_many_gpus_sglang_needs_on_a_node(flags: dict[str, Any], needed: int) -> None:
    deployment = Deployment(Engine("sglang", "0.5.23"), "a/model", flags, ())
    assert engine_named("sglang").gpus_needed(deployment) == needed


@pytest.mark.parametrize(
    ("environment", "sm", "excluded", "forced"),
    [
        ({}, 90, set(), ""), ({"VLLM_USE_DEEP_GEMM": "0"}, 90, {DEEPGEMM}, ""),
        ({"VLLM_MOE_USE_DEEP_GEMM": "0"}, 90, {DEEPGEMM}, ""), ({"VLLM_USE_DEEP_GEMM": "1"}, 90, set(), ""),
        ({"VLLM_USE_FLASHINFER_MOE_MXFP4_BF16": "0"}, 90, {MXFP4_TRTLLM, MXFP4_CUTLASS}, ""),
        ({"VLLM_USE_FLASHINFER_MOE_MXFP4_BF16": "1"}, 90, set(), MXFP4_CUTLASS),
        ({"VLLM_USE_FLASHINFER_MOE_MXFP4_BF16": "1"}, 100, set(), ""),
        ({"VLLM_USE_FLASHINFER_MOE_MXFP4_BF16": "1", "VLLM_MXFP4_USE_MARLIN": "1"}, 100, set(), MARLIN),
        ({"VLLM_MXFP4_USE_MARLIN": "1"}, 90, set(), MARLIN), ({"VLLM_MXFP4_USE_MARLIN": "0"}, 90, set(), ""),
    ],
)  # fmt: skip
def test_variables_that_choose_a_kernel(environment: dict[str, str], sm: int, excluded: set[str], forced: str) -> None:
    flags: Any = SimpleNamespace(moe_backend="flashinfer-trtllm", lora=None, balancing=None)
    facts = at("0.32.0")
    setting = expert_setting(facts, sm, flags, environment)
    assert ({*setting.excluded}, setting.forced, setting.backend) == (excluded, forced, "flashinfer_trtllm")
    assert (setting.lora, setting.eplb, setting.online_multiple, setting.online_pairs) == (False, False, 1, False)
    busy: Any = SimpleNamespace(moe_backend="auto", lora=1, balancing=1)
    online = expert_setting(facts, sm, busy, environment, "fp8_per_block")
    assert online.lora and online.eplb and online.online_multiple == facts.expert_kernels.online_block
    assert online.online_pairs is facts.expert_kernels.online_pairs


@pytest.mark.parametrize(
    ("scheme", "family"),
    [
        (None, "plain"), (Scheme("mxfp4", 4, "float", "group"), "mxfp4"),
        (Scheme("compressed-tensors", 4, "float", "group", format="mxfp4-pack-quantized"), "mxfp4"),
        (Scheme("modelopt_fp4", 4, "float", "group"), "nvfp4"),
        (Scheme("compressed-tensors", 4, "float", "group", format="nvfp4-pack-quantized"), "nvfp4"),
        (Scheme("modelopt_mxfp8", 8, "float", "block"), "mxfp8"), (Scheme("fp8", 8, "float", "block"), "fp8_block"),
        (Scheme("fp8", 8, "float", "channel"), "fp8_channel"), (Scheme("bitsandbytes", 8, "float", "tensor"), ""),
        (Scheme("fp8", 8, "float", "tensor", activation="static"), "fp8_static"),
        (Scheme("fp8", 8, "float", "tensor", activation="dynamic"), "fp8_tensor"),
        (Scheme("gptq", 8, "int", "group"), ""),
        (Scheme("gptq", 4, "int", "group"), ""), (Scheme("x", 6, "float", "tensor"), ""),
    ],
)  # fmt: skip
def test_the_family_of_experts(scheme: Scheme | None, family: str) -> None:
    assert scheme_family(scheme) == family


@pytest.mark.parametrize(
    ("routing", "method"),
    [
        ({"custom": "own"}, "own"), ({"scoring": "sqrtsoftplus"}, "deepseek_v4"),
        ({"biased": True, "scoring": "softmax", "renormalised": True}, "unspecified"),
        ({"biased": True, "scoring": "sigmoid", "renormalised": False}, "unspecified"),
        ({"biased": True, "scoring": "sigmoid", "renormalised": True, "groups": 1}, "deepseek_v3"),
        ({"biased": True, "scoring": "sigmoid", "renormalised": True, "groups": 0}, "minimax2"),
        ({"scoring": "sigmoid", "renormalised": True}, "sigmoid_renorm"),
        ({"scoring": "sigmoid", "renormalised": False}, "sigmoid"),
        ({"scoring": "softmax", "renormalised": True}, "renormalize_naive"),
        ({"scoring": "softmax", "renormalised": False}, "default"),
    ],
)  # fmt: skip
def test_the_method_of_a_router(routing: dict[str, Any], method: str) -> None:
    assert routing_method(Routing(**routing)) == method


@pytest.mark.parametrize(
    ("state", "numbers"),
    [
        (State("short_conv", 3, 64), 2 * 64), (State("mamba1", 4, 64, 16), 3 * 64 + 16 * 64),
        (State("kda", 4, num_heads=8, head_dim=16), 3 * 3 * 8 * 16 + 16**2 * 8),
        (State("mamba2", 4, 64, 16, 8, 8, 2), 3 * (64 + 2 * 2 * 16) + 16 * 64),
        (State("mamba2", 4, 0, 16, 8, 8, 2), 3 * (64 + 2 * 2 * 16) + 16 * 64),
        (State("gdn", 4, 0, 0, 8, 16, 4, 32), 3 * (128 + 2 * 4 * 32) + 32 * 128),
        (State("mamba2", 0, 64, 16, 8, 8, 2), 16 * 64), (State("linear_attention", 0, 0, 0, 8, 16), None),
    ],
)  # fmt: skip
def test_one_sequences_state_in_llamacpp(state: State, numbers: int | None) -> None:
    if numbers is None:
        with pytest.raises(UnknownCache, match="linear attention"):
            state_bytes(state)
    else:
        assert state_bytes(state) == 4 * numbers


@pytest.mark.parametrize(
    ("release", "words", "spelled"),
    [
        ("0.21.0", "--max_model_len 4", "--max-model-len 4"), ("0.21.0", "--a_b.c_d=e_f", "--a-b.c_d=e_f"),
        ("0.21.0", "-O3", "--optimization-level 3"), ("0.21.0", "-O=2", "--optimization-level 2"),
        ("0.21.0", "-O 3", "--optimization-level 3"), ("0.21.0", "-O 4", "-O 4"), ("0.21.0", "-O", "-O"),
        ("0.21.0", "-tp 2", "-tp 2"), ("0.12.0", "-O.mode 3", "-cc.mode 3"), ("0.10.0", "-O.level 3", "-O.level 3"),
        ("0.10.0", "-O3", "-O.level=3"), ("0.10.0", "-O 3", "-O.level 3"),
    ],
)  # fmt: skip
def test_how_a_word_is_spelled(release: str, words: str, spelled: str) -> None:
    assert _spelled(words.split(), options_of(release)) == spelled.split()


@pytest.mark.parametrize("more", [0, 1])
def test_a_tensor_that_takes_a_whole_segment(more: int) -> None:
    limit = 20 * MIB
    assert Allocator(limit).is_whole(limit - ROUND + more) is bool(more)
    assert not Allocator(limit, expandable=True).is_whole(limit - ROUND + more)


@pytest.mark.parametrize(
    ("types", "allowed", "is_refused"),
    [
        ("a b", ("a", "b"), False),
        ("a", ("a", "b"), False),
        ("a c", ("a", "b"), True),
        ("c", (), False),
        ("", ("a",), False),
    ],
)
def test_types_of_layers_that_a_release_knows(types: str, allowed: tuple[str, ...], is_refused: bool) -> None:
    model = load("Qwen/Qwen3-8B")
    params = (*(pair for pair in model.params if pair[0] != "layer_types"), ("layer_types", types))
    nothing: dict[str, Any] = {}
    support: Any = SimpleNamespace(gguf_in_tree=True, not_yet=nothing, gone=nothing, layer_types=allowed)
    if is_refused:
        with pytest.raises(Refused):
            verify_config(replace(model, params=params), support, by_transformers=False)
    else:
        verify_config(replace(model, params=params), support, by_transformers=False)


@pytest.mark.parametrize(
    ("switch", "graph_estimate", "vendor", "is_applied"),
    [
        (None, "subtracted", "nvidia", True), (None, "logged", "nvidia", False), ("1", "logged", "nvidia", True),
        ("0", "subtracted", "nvidia", False), (None, "subtracted", "other", False), ("1", "none", "nvidia", False),
    ],
)  # fmt: skip
def test_whether_the_estimate_of_graphs_is_subtracted(
    switch: str | None, graph_estimate: str, vendor: str, is_applied: bool
) -> None:
    budget = SimpleNamespace(graph_estimate=graph_estimate, v2_estimates=False)
    facts = SimpleNamespace(budget=budget, estimates=SimpleNamespace(vendors=("nvidia",)))
    environment = {"VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": switch} if switch is not None else {}
    for runner, counts in (("v1", True), ("v2", False)):
        run: Any = SimpleNamespace(
            deployment=SimpleNamespace(environment=environment), device=SimpleNamespace(vendor=vendor), facts=facts,
            settings=SimpleNamespace(facts=facts, model_runner=runner),
        )  # fmt: skip
        assert terms._estimate_applied(run) is (is_applied and counts)


def test_the_steps_of_a_control_double() -> None:
    modules = [import_module(f"oomph.engines.{name}.controls") for name in ("trtllm", "llamacpp", "ollama")]
    controls = [control for module in (vllm_controls, sglang_controls, *modules) for control in module.CONTROLS]
    for steps in (vllm_controls.BATCHES, sglang_controls.BATCHES, *(one.steps for one in controls if one.steps)):
        assert list(steps) == [steps[0] << number for number in range(len(steps))] and steps[0] in (1, 64, 512)


# --- ranks and stages of vLLM ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "pp", "partition", "stages"),
    [
        (8, 2, (), [4, 4]), (9, 2, (), [5, 4]), (10, 4, (), [2, 3, 3, 2]), (11, 4, (), [3, 3, 3, 2]), (5, 1, (), [5]),
        (8, 2, (3, 5), [3, 5]), (8, 2, (3, 4), None), (8, 2, (2, 3, 3), None), (8, 3, (4, 4), None),
    ],
)  # fmt: skip
def test_how_layers_are_divided_among_stages(
    count: int, pp: int, partition: tuple[int, ...], stages: list[int] | None
) -> None:
    if stages is None:
        with pytest.raises(CannotPlan, match="VLLM_PP_LAYER_PARTITION"):
            shard.stage_layers(count, shard.Layout(pp=pp, partition=partition))
        return
    parts = [shard.stage_layers(count, shard.Layout(pp=pp, pp_rank=rank, partition=partition)) for rank in range(pp)]
    assert [len(part) for part in parts] == stages and [n for part in parts for n in part] == list(range(count))


@pytest.mark.parametrize(
    ("heads", "alone", "habits", "parts"),
    [
        (4, "", (), (2, 2)), (3, "", (), (0, 0)), (3, "attention", (), (1, 2)), (3, "all", (), (0, 0)),
        (3, "all", ("encoders alone where heads do not divide",), (1, 1)),
        (3, "", ("encoders alone where heads do not divide",), (0, 0)), (4, "attention", (), (2, 2)),
    ],
)  # fmt: skip
def test_ranks_that_share_an_encoder(heads: int, alone: str, habits: tuple[str, ...], parts: tuple[int, int]) -> None:
    split = Linear("attn.qkv", (Part("qkv", 8),), 8, "column", "multimodal", "BF16")
    for modules, expected in (((split,), parts), ((replace(split, shard="replicated"),), (2, 2)), ((), (2, 2))):
        tower: Any = SimpleNamespace(
            num_heads=heads, alone=alone, modality="image", blocks=[(1, SimpleNamespace(modules=modules))]
        )
        assert shard.tower_parts(tower, 2, frozenset(habits)) == expected


@pytest.mark.parametrize(
    ("whole", "tp", "parallel", "share"),
    [
        (128, 1, False, 128),
        (128, 2, False, 64),
        (128, 4, False, 48),
        (192, 4, False, 48),
        (100, 2, False, 50),
        (128, 4, True, 128),
    ],
)
def test_the_share_of_an_expert(whole: int, tp: int, parallel: bool, share: int) -> None:
    """This class gives every rank 48 features at the least."""
    experts: Any = SimpleNamespace(intermediate=whole, least_share=("a habit", 48))
    layout = shard.Layout(tp=tp, expert_parallel=parallel)
    assert shard.experts_share(experts, layout, frozenset({"a habit"})) == share
    assert shard.experts_share(experts, layout, frozenset()) == (whole if parallel else whole // tp)


# --- values of flags -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1k", 1000), ("1K", 1024), ("25.6k", 25600), ("2M", 2 << 20), ("2m", 2_000_000), ("1.5K", None), ("x", None),
        ("7", 7), ("1g", 10**9), ("1G", 1 << 30), (f"{values._MOST - 1}", values._MOST - 1), (f"{values._MOST}", None),
        (f"-{values._MOST}", None), ("1" * 19 + "k", None), ("0." + "0" * 16 + "1k", 0), ("0." + "0" * 17 + "1k", None),
    ],
)  # fmt: skip
def test_numbers_as_people_write_them(text: str, number: int | None) -> None:
    if number is None:
        with pytest.raises(values.Refused):
            values.human_int(text)
    else:
        assert values.human_int(text) == number


def test_json_is_bounded_in_length_and_depth() -> None:
    options = options_of("0.21.0")
    for more, is_refused in ((0, False), (1, True)):
        nested = "[" * (values._DEEPEST + more) + "]" * (values._DEEPEST + more)
        long = '"' + "x" * (values._LONGEST - 2 + more) + '"'
        for text in (nested, long):
            if is_refused:
                with pytest.raises(values.Refused):
                    values.json_value(text, options, human=False)
            else:
                values.json_value(text, options, human=False)
    some: tuple[Any, ...] = (1, [], [1], {"a": [1]}, [[[]]])
    assert [values.depth(value) for value in some] == [0, 1, 1, 2, 3]


@pytest.mark.parametrize(
    ("words", "flags", "notes"),
    [
        ("--tp-size 2", {"tp_size": 2}, 0), ("--tp-size=2", {"tp_size": 2}, 0),
        ("--enable-tf32-matmul", {"enable_tf32_matmul": True}, 0),
        ("--no-enable-tf32-matmul", {"enable_tf32_matmul": False}, 0),
        ("--cuda-graph-bs-decode 1 2 4 --tp-size 2", {"cuda_graph_bs_decode": [1, 2, 4], "tp_size": 2}, 0),
        ("--tp-size $TP --context-length 5", {"context_length": 5}, 1),
        ("--disable-cuda-graph", {"disable_cuda_graph": True}, 0),
        ("--context-length -1", {"context_length": -1}, 0), ("--disable-cuda-graph=1", None, 0), ("--tp-size", None, 0),
        ("serve", None, 0), ("--no-disable-cuda-graph", None, 0), ("--no-such-flag", None, 0),
    ],
)  # fmt: skip
def test_how_sglang_reads_its_words(words: str, flags: dict[str, Any] | None, notes: int) -> None:
    options = sglang_options("0.5.23")
    if flags is None:
        with pytest.raises(CommandError):
            parse_sglang(words.split(), options)
    else:
        read, told = parse_sglang(words.split(), options)
        assert read == flags and len(told) == notes


# --- TensorRT-LLM ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "number"), [(None, 7), (0, 7), (1, 1), (-1, 7), (True, 7), ("3", 7), (5, 5)])
def test_a_size_of_tensorrt_llm_is_above_zero(value: Any, number: int) -> None:
    flags = {} if value is None else {"a": value}
    assert trtllm._number(flags, "a", 7) == number
    block = trtllm._block({"kv_cache_config.tokens_per_block": value} if flags else {}, load("Qwen/Qwen3-0.6B"), 90)
    assert block == (value if value in (1, 5) and value is not True else 1 if value is True else 32)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ((2, 1, 1), ""), ((2, 1, 2), ""), ((2, 1, 4), "moe_tp_size"), ((4, 1, 3), "moe_tp_size"),
        ((3, 1, 1), "not divisible"),
        ((1, 28, 1), ""), ((1, 29, 1), "exceeds the 28 layers"),
    ],
)  # fmt: skip
def test_what_tensorrt_llm_refuses(sizes: tuple[int, int, int], words: str) -> None:
    said = trtllm.refusal({}, load("Qwen/Qwen3-0.6B"), sizes, 90, trtllm_at("1.2.1"))
    assert words in said and bool(said) is bool(words)


@pytest.mark.parametrize(
    ("sizes", "batch", "tokens", "drafts", "captured"),
    [
        ([1, 2, 4], 4, 100, 0, (1, 2, 4)), ([1, 2, 4], 3, 100, 0, (1, 2, 3)), ([1, 2, 4], 2, 100, 0, (1, 2)),
        ([2, 4], 1, 100, 0, (1,)), ([1, 2, 4], 4, 6, 1, (1, 2, 3)), ([1, 2], 4, 100, 0, (1, 2)), ([1, 2], 4, 0, 0, ()),
    ],
)  # fmt: skip
def test_which_graphs_are_captured(
    sizes: list[int], batch: int, tokens: int, drafts: int, captured: tuple[int, ...]
) -> None:
    assert trtllm._filtered(sizes, batch, tokens, drafts, True) == captured


def test_an_encoders_attention_and_the_rest_of_it_may_have_other_ranks() -> None:
    for name, ranks in (("blocks.attn.proj", 1), ("attention", 1), ("qkv", 1), ("mlp.fc1", 2)):
        module: Any = SimpleNamespace(name=name)
        assert shard.tower_module_ranks(module, (1, 2)) == ranks


@pytest.mark.parametrize(
    ("heads", "kind", "tp", "features"),
    [
        (8, "column", 2, 32),
        (8, "column", 8, 8),
        (8, "column", 16, 8),
        (0, "column", 2, 32),
        (8, "row", 2, 64),
        (8, "column", 1, 64),
    ],
)
def test_output_features_of_one_rank(heads: int, kind: Any, tp: int, features: int) -> None:
    part = Part("q", 64, heads)
    assert shard.part_out(part, Linear("q", (part,), 8, kind, "attention", "BF16"), tp) == features


@pytest.mark.parametrize("values", [{"total": 5}, {"free": 5}, {"total": 5, "free": 6}, {"total": 5, "free": "5"}])
def test_a_card_without_its_sizes_is_not_listed(values: dict[str, Any]) -> None:
    line = Observation(1, "lc_free", {"name": "NVIDIA L4", "buffer": "CUDA0", **values})
    whole = Observation(2, "lc_free", {"name": "NVIDIA L4", "buffer": "CUDA1", "total": 9, "free": 4})
    assert [device.used_bytes for device in printed_devices((line, whole))] == [5]


def test_packed_experts_that_a_backend_cannot_run() -> None:
    facts: Any = SimpleNamespace(packed_refusal=lambda backend, sm, method, zeros: f"{backend} {sm} {method} {zeros}")
    setting = ExpertSetting(facts, 90, "marlin")
    packed = Scheme("gptq", 4, "int", "group", symmetric=False)
    assert _packed_refusal(packed, setting) == "marlin 90 gptq True"
    assert _packed_refusal(replace(packed, symmetric=True), setting) == "marlin 90 gptq False"
    others = (None, Scheme("fp8", 8, "float", "tensor"), replace(packed, format="int-quantized"))
    assert not any(_packed_refusal(scheme, setting) for scheme in others)
    assert not _packed_refusal(packed, ExpertSetting(None, 90, "marlin"))


@pytest.mark.parametrize(
    ("change", "falls_back"),
    [
        ({}, False), ({"major": 11}, False), ({"major": 9}, True), ({"major": 12}, True), ({"sink": True}, True),
        ({"softcap": True}, True), ({"kv_dtype": "fp8"}, True), ({"mm_prefix": True}, True), ({"dcp": 2}, True),
    ],
)  # fmt: skip
def test_where_heads_of_256_need_another_kernel(change: dict[str, Any], falls_back: bool) -> None:
    usual = {"major": 10, "sink": False, "softcap": False, "kv_dtype": "auto", "mm_prefix": False, "dcp": 1}
    query: Any = SimpleNamespace(**{**usual, **change})
    for block, is_odd in ((None, False), (128, False), (256, False), (64, True), (129, True)):
        assert bool(_hd256_falls_back(query, block)) is (falls_back or is_odd)


@pytest.mark.parametrize(
    ("printed", "count", "model"),
    [
        ("model_path='a/b', tp_size=2, a=1", 1, "a/b"), ("model_path='a/b', tp_size=2, a=1", 0, None),
        ("tp_size=2, a=1", 1, None),
        ("model_path='', tp_size=2, a=1", 1, None), ("model_path=None, tp_size=2, a=1", 1, None),
    ],
)  # fmt: skip
def test_sglangs_own_arguments_name_the_model(printed: str, count: int, model: str | None) -> None:
    line = Observation(1, "sg_args", {"args": printed})
    deployment = from_arguments((line,), parse_gpus("L4") * count)
    assert (deployment and deployment.model) == model
    assert deployment is None or deployment.flags == {"tp_size": 2}


@pytest.mark.parametrize(
    ("name", "is_known"),
    [("qwen3:8b", True), ("someone/qwen3:8b", False), ("elsewhere.example/library/qwen3:8b", False)],
)
def test_only_ollamas_own_library_is_looked_up_by_name(name: str, is_known: bool, tmp_path: Path) -> None:
    environment = {"OLLAMA_MODELS": str(tmp_path)}
    if is_known:
        assert "Qwen3-8B" in resolve_name(name, environment)[0].name
    else:
        with pytest.raises(UnknownModel, match="is not in Ollama's store"):
            resolve_name(name, environment)


@pytest.mark.parametrize(("peak", "share"), [(895, 0.1), (905, 0.09), (795, 0.2), (995, None)])
def test_a_hundredth_of_a_card_is_the_least_that_is_offered(peak: int, share: float | None) -> None:
    whole = plan("vllm serve Qwen/Qwen3-0.6B --max-model-len 4096", gpu="RTX 4090", engine="vllm==0.21.0", advise=False)
    (rank,) = whole.ranks
    stages = (replace(rank.stages[0], peak_high=peak), *rank.stages[1:])
    verdict = replace(whole.verdict, fits=False, stage="startup_free_memory")
    tight = replace(whole, ranks=(replace(rank, total_bytes=1000, stages=stages),), verdict=verdict)
    levers = {lever.name: lever for lever in engine_named("vllm").levers(tight)}
    down = levers.get("gpu_memory_utilization_down")
    offered = [change.flags["gpu_memory_utilization"] for change in down.changes] if down is not None else []
    assert offered == ([share] if share is not None else [])
