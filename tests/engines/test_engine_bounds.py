"""Bounds of the engines that no other test noticed when one was moved (`make mutants`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from oomph import plan
from oomph.answers.plan import load
from oomph.engines.common.ranks import ranks_on
from oomph.engines.llamacpp.command import _integer
from oomph.engines.llamacpp.settings import resolve
from oomph.engines.ollama.planner import choose
from oomph.engines.registry import engine_of
from oomph.engines.sglang.command.serve import check as sglang_check
from oomph.engines.sglang.resolve.kernels import _decodes_with_flashinfer
from oomph.engines.trtllm.command.options_file import read_file
from oomph.engines.trtllm.command.serve import check as trtllm_check
from oomph.engines.trtllm.levers import reasons
from oomph.engines.vllm.resolve.attention import largest_item
from oomph.engines.vllm.resolve.limits import requests_of_class
from oomph.errors import OomphError
from oomph.sources.gpu import parse_gpus
from oomph.units import GIB

GPUS = parse_gpus("2x RTX 4070")


@pytest.mark.parametrize(
    ("text", "is_number"),
    [("0", True), ("-1", True), (str(1 << 31), True), (str((1 << 31) + 1), False), (str(-(1 << 31) - 1), False)],
)
def test_a_whole_number_of_llamacpp_has_32_bits(text: str, is_number: bool) -> None:
    if is_number:
        assert _integer("-ngl", text) == int(text)
    else:
        with pytest.raises(OomphError):
            _integer("-ngl", text)


@pytest.mark.parametrize("busy", [0, 1])
def test_ollama_takes_the_gpu_with_more_free_memory(busy: int) -> None:
    cards = [replace(card, used_bytes=4 * GIB if number == busy else 0) for number, card in enumerate(GPUS)]
    assert choose(load("Qwen/Qwen3-4B"), {"num_ctx": 4096}, cards, vision=False).gpus == (1 - busy,)


def test_what_ollama_leaves_free_is_not_there() -> None:
    """OLLAMA_GPU_OVERHEAD is taken off each GPU: the prediction no longer fits one, and the default context shrinks."""
    model = load("Qwen/Qwen3-4B")
    assert len(choose(model, {"num_ctx": 4096}, GPUS, vision=False).gpus) == 1
    left = choose(model, {"num_ctx": 4096, "gpu_overhead": 11 * GIB}, GPUS, vision=False)
    assert len(left.gpus) == 2
    large = parse_gpus("RTX 5090")
    contexts = [choose(model, {"gpu_overhead": size * GIB}, large, vision=False).num_ctx for size in (0, 20)]
    assert contexts[0] > contexts[1]


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_an_options_file_has_at_most_a_mebibyte(more: int, tmp_path: Path) -> None:
    file = tmp_path / "options.yaml"
    file.write_text("#" * ((1 << 20) + more))
    if more <= 0:
        assert read_file(str(file)) == {}
    else:
        with pytest.raises(OomphError, match="is over"):
            read_file(str(file))


def test_a_model_whose_images_are_seen_whole_needs_a_batch_for_the_largest() -> None:
    model = load("google/gemma-3-27b-it")
    assert largest_item(model, {}) == max(one.max_tokens for one in model.modalities) > 0
    assert largest_item(replace(model, model_type="qwen3_vl"), {}) == 0


def test_llamacpp_leaves_a_gibibyte_free_unless_it_is_told() -> None:
    assert resolve({}, 40960).fit_target == (1024,)
    assert resolve({"fit_target": (512, 256)}, 40960).fit_target == (512, 256)


@pytest.mark.parametrize(("now", "smaller"), [("Q8_0", "Q6_K"), ("Q4_K_M", "IQ4_XS"), ("IQ3_XS", "")])
def test_llamacpp_offers_the_quantisations_below_the_one_at_hand(now: str, smaller: str) -> None:
    answer = plan(f"llama-server -m Qwen3-32B-{now}.gguf -c 8192", gpu="RTX 3060 12GB", advise=False)
    tables = [lever for lever in engine_of(answer.deployment).levers(answer) if lever.name == "checkpoint"]
    labels = [change.label for lever in tables for change in lever.changes]
    assert labels[:1] == ([f"{smaller} instead of {now}"] if smaller else [])
    assert not any(label.startswith(f"{now} ") for label in labels)


@pytest.mark.parametrize(
    ("major", "size", "kind", "decodes"),
    [
        (9, 80 * GIB, "a_vision_model", True), (9, 60 * GIB, "a_vision_model", True), (9, 80 * GIB, "another", False),
        (9, 60 * GIB - 1, "a_vision_model", False), (10, 80 * GIB, "a_vision_model", False),
        (8, 80 * GIB, "a_vision_model", False),
    ],
)  # fmt: skip
def test_sglang_decodes_with_flashinfer_on_a_large_hopper(major: int, size: int, kind: str, decodes: bool) -> None:
    model: Any = SimpleNamespace(model_type=kind)
    facts: Any = SimpleNamespace(kernels=SimpleNamespace(vision_decode=("a_vision_model",)))
    device: Any = SimpleNamespace(capability=(major, 0), total_bytes=size)
    for sees in (True, False):
        shape: Any = SimpleNamespace(is_multimodal=sees)
        assert _decodes_with_flashinfer(model, shape, facts, device) is (decodes and sees)


@pytest.mark.parametrize(("own", "seqs", "now"), [(4, 127, 127), (4, 128, 4), (4, 129, 4), (0, 128, 128)])
def test_a_class_with_a_number_of_requests_of_its_own(own: int, seqs: int, now: int) -> None:
    model: Any = SimpleNamespace(param=lambda name, default: own if name == "most_requests" else default)
    assert requests_of_class(model, seqs) == now


def test_transformers_keeps_its_frequencies_on_every_stage() -> None:
    command = "vllm serve Qwen/Qwen3-8B --model-impl transformers -pp 3 --max-model-len 4096"
    ranks = plan(command, gpu="3x RTX 4090", advise=False).ranks
    assert [rank.terms["weights"].parts.get("other") for rank in ranks] == [512, 512, 512]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize(("tensor", "replicas"), [(1, 2), (2, 1)])
def test_sglang_plans_the_replica_with_the_least_memory(order: tuple[int, ...], tensor: int, replicas: int) -> None:
    large, small = parse_gpus("RTX 4090")[0], parse_gpus("RTX 4070")[0]
    gpus = [(large, small)[number] for number in order]
    ranks = ranks_on(tuple(gpus), tensor, 1, replicas)
    assert [rank.device for rank in ranks] == ([small] if replicas == 2 else gpus)


def test_what_is_close_has_the_reason_of_the_stage_with_the_least_room() -> None:
    answer = plan("trtllm-serve Qwen/Qwen3-32B", gpu="RTX 4090", advise=False)
    assert answer.verdict.stage == "weights_load" and len(reasons(answer)) == 1
    verdict = replace(answer.verdict, fits=True, stage=None, sure=False)
    assert reasons(replace(answer, verdict=replace(verdict, first_to_break="weights_load"))) == reasons(answer)


FAILING = {
    "vllm": "vllm serve Qwen/Qwen3-32B",
    "sglang": "sglang serve --model-path Qwen/Qwen3-32B",
    "trtllm": "trtllm-serve Qwen/Qwen3-32B",
    "llamacpp": "llama-server -m Qwen3-32B-Q8_0.gguf -ngl 99 --fit off",
}


@pytest.mark.parametrize("engine", FAILING)
def test_a_plan_that_fits_or_has_no_ranks_needs_no_reason(engine: str) -> None:
    answer = plan(FAILING[engine], gpu="RTX 4090", advise=False)
    tell = engine_of(answer.deployment).reasons
    assert answer.verdict.outcome == "fails"
    assert not tell(replace(answer, ranks=()))
    fitting = replace(answer.verdict, fits=True, stage=None, margin=None)
    assert not tell(replace(answer, verdict=fitting))
    if engine != "sglang":  # whose plans carry their reasons in the message
        assert len(tell(answer)) == 1
        assert tell(replace(answer, verdict=replace(answer.verdict, rank=7))) == tell(answer)


SIZES = ("tensor_parallel_size", "pipeline_parallel_size", "moe_expert_parallel_size", "context_parallel_size")
LENGTHS = ("max_batch_size", "max_num_tokens", "max_seq_len", "max_beam_width")
SERVERS = ("tp_size", "pp_size", "dp_size", "ep_size", "page_size", "attn_dp_size")


def _takes(check: Callable[[dict[str, Any]], None], field: str, value: object) -> bool:
    try:
        check({field: value})
    except OomphError:
        return False
    return True


@pytest.mark.parametrize(
    ("check", "fields", "least", "most"),
    [
        (trtllm_check, SIZES, 1, 4096), (trtllm_check, LENGTHS, 1, 1 << 31), (sglang_check, SERVERS, 1, 4096),
        (trtllm_check, ("kv_cache_config.tokens_per_block",), 1, 1 << 16),
    ],
)  # fmt: skip
def test_numbers_that_no_server_has(check: Any, fields: tuple[str, ...], least: int, most: int) -> None:
    for field in fields:
        taken = [_takes(check, field, value) for value in (least - 1, least, most, most + 1, None)]
        assert taken == [False, True, True, False, True], field


@pytest.mark.parametrize(
    ("check", "field"),
    [(trtllm_check, "kv_cache_config.free_gpu_memory_fraction"), (sglang_check, "mem_fraction_static")],
)
def test_a_fraction_lies_between_nothing_and_everything(check: Any, field: str) -> None:
    taken = [_takes(check, field, value) for value in (-0.5, 0.0, 0.001, 0.999, 1.0, 1.5)]
    assert taken == [False, False, True, True, False, False]
