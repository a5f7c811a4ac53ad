"""Further small choices of the engines by tables: kernels of experts, sizes of states, words of a command."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from oomph.engines.llamacpp.cache import state_bytes
from oomph.engines.registry import engine_named
from oomph.engines.sglang import controls as sglang_controls
from oomph.engines.vllm import controls as vllm_controls, terms
from oomph.engines.vllm.allocator import ROUND, Allocator
from oomph.engines.vllm.arguments import _spelled
from oomph.engines.vllm.expert_kernel import expert_setting, routing_method, scheme_family
from oomph.engines.vllm.kv_specs import Refused
from oomph.engines.vllm.resolve_build import verify_config
from oomph.errors import UnknownCache
from oomph.facts.vllm.expert_kernels import DEEPGEMM, MARLIN, MXFP4_CUTLASS, MXFP4_TRTLLM
from oomph.facts.vllm.facts import at
from oomph.facts.vllm.flags import options_of
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.model import Routing, Scheme, State
from oomph.plan import load
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
