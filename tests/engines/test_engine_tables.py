"""Decisions of the engines over many random questions, as stored: what a plan shows is only the one that was taken.

`python tools/replay.py renew engine_tables` stores them again, and a commit that does says why. Releases are named, so
that a new one changes no row.
"""

from __future__ import annotations

import random
import re
import shlex
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from msgspec.structs import asdict
from stored_answers import check_table

from oomph.answers.plan import load, parse
from oomph.engines.llamacpp.convert import about, to_gguf
from oomph.engines.llamacpp.measure import measure, subject
from oomph.engines.llamacpp.settings import resolve as resolve_llamacpp
from oomph.engines.llamacpp.tensors import tensors_of
from oomph.engines.registry import engine_of
from oomph.engines.sglang.graphs import decode_batches, largest_decode_batch
from oomph.engines.sglang.resolve.steps import resolve as resolve_sglang
from oomph.engines.trtllm.resolve import graph_batch_sizes, resolve as resolve_trtllm
from oomph.engines.vllm.graphs.modes import capture_sizes, cudagraph_mode
from oomph.engines.vllm.kv.specs import Refused
from oomph.engines.vllm.resolve import kernels as resolve_kernels
from oomph.engines.vllm.resolve.backend_query import Query, fa_version, kernel_blocks
from oomph.engines.vllm.resolve.backends import choose, choose_diff_kv, order, reasons
from oomph.engines.vllm.resolve.kernels import Case, _verify_awq
from oomph.engines.vllm.resolve.modes import in_flight_batches, pipeline_stages
from oomph.engines.vllm.resolve.steps import resolve as resolve_vllm
from oomph.errors import OomphError
from oomph.facts.llamacpp.backends import CUDA, RPC
from oomph.facts.llamacpp.flags import BY_NAME as LLAMACPP_FLAGS
from oomph.facts.llamacpp.quantize import MIXTURES
from oomph.facts.sglang.facts import at as sglang_at
from oomph.facts.sglang.flags import options_of as sglang_options
from oomph.facts.trtllm.facts import at as trtllm_at
from oomph.facts.trtllm.flags import BY_NAME as TRTLLM_FLAGS
from oomph.facts.vllm.facts import at
from oomph.facts.vllm.flags import options_of as vllm_options
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.model import Scheme
from oomph.sources.gpu import parse_gpus

Row = tuple[str, Any]

KV_DTYPES = ("auto", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2", "fp8_ds_mla", "nvfp4", "nvfp4_ds_mla")


def queries(release: str) -> Iterator[Query]:
    """Questions for an attention backend: heads and cards of real models, and those just beside them."""
    chance = random.Random(release)
    pick = chance.choice
    for _ in range(450):
        mla = chance.random() < 0.4
        yield Query(
            at(release).attention, pick((70, 75, 80, 86, 89, 90, 100, 103, 110, 120)),
            pick((512, 576) if mla else (16, 31, 32, 40, 64, 80, 96, 128, 129, 192, 256, 264, 512, 576)),
            pick(("bfloat16", "bfloat16", "float16", "float32")), pick(KV_DTYPES),
            pick((None, None, 8, 16, 32, 64, 128)), mla, pick((False, False, True)), mla and pick((False, True)),
            pick((False, False, True)), pick((False, False, True)), pick((0, 1, 8, 16, 17, 32)), pick((1, 2, 8)),
            pick((0, 64, 128, 192)), pick((0, 64)), pick((64, 128)), pick((256, 512)), pick((0, 1024, 2048)),
            pick((1, 1, 2)), pick((1, 1, 2)), pick((0, 0, 2, 3, 4)), pick((False, False, True)),
            pick(("decoder", "decoder", "encoder_only", "encoder_decoder")), pick((16, 64, 128)),
        )  # fmt: skip


def backends() -> Iterator[Row]:
    for release in ("0.9.1", "0.11.0", "0.14.0", "0.21.0", "0.27.0", "0.32.0"):
        for number, query in enumerate(queries(release)):
            yield f"{release} {number}", [*_backend(query)]


def _backend(query: Query) -> Iterator[Any]:
    yield fa_version(query, query.head_size), fa_version(query, None, block_size=query.block_size)
    table = query.attention.backends
    yield order(query) if query.attention.asks else ()
    yield [(name, reasons(backend, query), kernel_blocks(backend, query)) for name, backend in table.items()]
    for selected in ("", *list(table)[:2]):
        yield _asked(lambda: choose(query, selected).name)  # noqa: B023
    if "FLASH_ATTN_DIFFKV" in table and "TRITON_ATTN_DIFFKV" in table:
        yield [_asked(lambda: choose_diff_kv(query, rule).name) for rule in ("flash", "")]  # noqa: B023


def _asked(question: Any) -> Any:
    """The answer, an engine's own words, or of a sentence of ours its flags and figures."""
    try:
        return question()
    except Refused as refused:
        return refused.message
    except OomphError as refused:
        return type(refused).__name__, re.findall(r"--?[a-z][\w-]*|\d+(?:[.,]\d+)*|'[^']*'", refused.message)


GGUF = (
    "Qwen/Qwen3-0.6B", "meta-llama/Llama-3.3-70B-Instruct", "openai/gpt-oss-20b", "microsoft/Phi-3.5-mini-instruct",
    "mistralai/Mixtral-8x7B-Instruct-v0.1",
)  # fmt: skip


def quantisations() -> Iterator[Row]:
    for name in GGUF:
        model = load(name)
        yield f"{name} about", about(model)
        for mixture in MIXTURES:
            converted = to_gguf(model, mixture)
            tensors = tensors_of(converted)
            yield f"{name} {mixture}", [(tensor.name, tensor.dtype, tensor.unit) for tensor in tensors]


PLACED = (
    "ai21labs/Jamba-v0.1", "ibm-ai-platform/Bamba-9B-v1", "Qwen/Qwen3-Next-80B-A3B-Instruct", "google/gemma-3-27b-it",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct", "deepseek-ai/DeepSeek-V2-Lite", "Qwen/Qwen3-8B", "openai/gpt-oss-20b",
    "Qwen/Qwen3-30B-A3B", "microsoft/Phi-3.5-mini-instruct", "Qwen/Qwen2.5-72B-Instruct",
)  # fmt: skip


def placements() -> Iterator[Row]:
    """Widths of compute buffers, and what lies on each device: layers, caches, states."""
    chance = random.Random(11)
    for name in PLACED:
        converted = to_gguf(load(name), "Q4_K_M")
        yield f"{name} stored", converted.stored
        about_it = subject(converted)
        for number in range(12):
            flags = {"ctx_size": chance.choice((1000, 16384)), **some(chance, LLAMACPP)}
            free = [chance.choice((4, 12, 24, 80)) << 30 for _ in range(chance.choice((1, 1, 2)))]
            backend = CUDA if chance.random() < 0.8 else RPC
            yield (
                f"{name} {number}",
                _asked(lambda: measure(about_it, resolve_llamacpp(flags, 40960), free, backend=backend)),  # noqa: B023
            )


VALUES = (
    "0", "1", "-1", "2", "16", "4096", "4k", "4K", "1.5M", "0.5", "1.0", "1.5", "-0.1", "1e3", "nan", "auto", "fp8",
    "bf16", "q8_0", "true", "false", "True", "none", "{}", "[1,2]", '{"a": 1}', "1,2", "x" * 130, "", "on", "off",
    '{"method": "mtp", "num_speculative_tokens": 2}', "99999999999999999999", "2147483647", "2147483648",
)  # fmt: skip
STARTS = {
    "vllm==0.9.1": "vllm serve a/b", "vllm==0.21.0": "vllm serve a/b", "vllm==0.32.0": "vllm serve a/b",
    "sglang==0.5.10": "python -m sglang.launch_server --model-path a/b",
    "sglang==0.5.22": "sglang serve --model-path a/b", "trtllm==1.2.1": "trtllm-serve a/b",
    "llamacpp": "llama-server -m a.gguf", "ollama": "ollama run a:b",
}  # fmt: skip


def _flags(engine: str) -> list[str]:
    name, _, release = engine.partition("==")
    if name == "vllm":
        return sorted(vllm_options(release).by_name)
    if name == "sglang":
        return sorted(sglang_options(release).by_name)
    if name == "trtllm":
        return sorted(TRTLLM_FLAGS)
    if name == "llamacpp":
        return sorted(LLAMACPP_FLAGS)
    return ["--num-ctx", "--num-parallel", "--num-gpu", "--num-batch", "--keepalive", "--format", "--verbose"]


def commands() -> Iterator[Row]:
    for engine, start in STARTS.items():
        chance = random.Random(engine)
        names = _flags(engine)
        for number in range(250):
            words = shlex.split(start)
            for _ in range(chance.choice((1, 1, 1, 2, 3))):
                name, value = chance.choice(names), chance.choice(VALUES)
                shape = chance.random()
                if shape < 0.1:
                    words.append(name[: -chance.choice((1, 2))])
                elif shape < 0.25:
                    words.append(name)
                elif shape < 0.45:
                    words.append(f"{name}={value}")
                else:
                    words += [name, value]
            yield f"{engine} {number}", _asked(lambda: _read(words, engine))  # noqa: B023


def _read(words: list[str], engine: str) -> Any:
    deployment = parse(words, engine if "==" in engine else "")
    flags = sorted((name, repr(value)) for name, value in deployment.flags.items())
    return deployment.model, flags, deployment.notes


PACKED = tuple(
    Scheme("gptq", bits, "int", "group", group_size=group, symmetric=symmetric, desc_act=ordered)
    for bits in (4, 8)
    for group in (-1, 32, 64, 128)
    for symmetric in (True, False)
    for ordered in (False, True)
)


def kernels() -> Iterator[Row]:
    """Packed linear layers that are cut into odd pieces."""
    chance = random.Random(4)
    for number in range(500):
        k = chance.choice((64, 96, 128, 192, 256, 1000, 1024))
        case = Case(
            chance.choice((8, 16, 24, 32, 60, 64, 96, 128, 192)), k, k * chance.choice((1, 2)), chance.choice(PACKED),
            chance.random() < 0.5, chance.choice((70, 75, 80, 89, 90, 100, 120)), chance.random() < 0.3,
        )  # fmt: skip
        troubles = [(name, trouble(case)) for name, trouble in resolve_kernels._TROUBLE.items()]
        yield f"{number}", (case.kind, case.group, case.cut, troubles, _asked(lambda: _verify_awq(case)))  # noqa: B023


def some(chance: random.Random, choices: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    """A few flags, each with one of its values."""
    names = chance.sample(sorted(choices), chance.choice((1, 2, 2, 3, 4)))
    return {name: chance.choice(choices[name]) for name in names}


SERVED = (
    "Qwen/Qwen3-8B", "openai/gpt-oss-20b", "Qwen/Qwen3-30B-A3B", "google/gemma-3-27b-it", "Qwen/Qwen3-8B-FP8",
    "Qwen/Qwen3-Next-80B-A3B-Instruct", "deepseek-ai/DeepSeek-V3.2", "Qwen/Qwen3-VL-8B-Instruct",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct", "deepseek-ai/DeepSeek-V2-Lite",
)  # fmt: skip
CARDS = ("RTX 4090", "H100", "H200", "B200", "A100 40GB", "RTX PRO 6000")
SGLANG: dict[str, tuple[Any, ...]] = {
    "tp_size": (1, 2, 4, 8), "pp_size": (1, 2), "dp_size": (1, 2), "enable_dp_attention": (True,), "ep_size": (1, 2),
    "context_length": (2048, 8192), "page_size": (1, 16, 64, 128), "chunked_prefill_size": (-1, 0, 1024, 8192),
    "max_prefill_tokens": (4096, 32768), "max_running_requests": (1, 16, 400), "cuda_graph_max_bs": (1, 8, 24, 512),
    "disable_cuda_graph": (True,), "kv_cache_dtype": ("auto", "fp8_e5m2", "fp8_e4m3", "bf16"),
    "speculative_algorithm": ("EAGLE", "NGRAM", "STANDALONE", "NEXTN"), "speculative_num_steps": (1, 3),
    "speculative_eagle_topk": (1, 4), "speculative_num_draft_tokens": (2, 8), "disable_radix_cache": (True,),
    "disaggregation_mode": ("prefill", "decode"), "moe_a2a_backend": ("deepep",), "swa_full_tokens_ratio": (0.2, 1.0),
    "mamba_full_memory_ratio": (0.5, 1.5), "attention_backend": ("fa3", "flashinfer", "triton", "trtllm_mla"),
    "mamba_ssm_dtype": ("bfloat16",), "max_total_tokens": (10000,), "disable_overlap_schedule": (True,),
    "enable_multimodal": (True,), "dtype": ("float16", "half"), "max_mamba_cache_size": (10,), "is_embedding": (True,),
}  # fmt: skip
TRTLLM: dict[str, tuple[Any, ...]] = {
    "tensor_parallel_size": (1, 2, 4), "pipeline_parallel_size": (1, 2), "moe_expert_parallel_size": (1, 2),
    "max_batch_size": (1, 8, 512), "max_num_tokens": (256, 4096), "max_seq_len": (1024, 8192), "max_beam_width": (1, 4),
    "kv_cache_config.free_gpu_memory_fraction": (0.3, 0.95), "kv_cache_config.max_tokens": (4096,),
    "kv_cache_config.dtype": ("fp8", "nvfp4", "auto"), "kv_cache_config.tokens_per_block": (16, 64, 128),
    "kv_cache_config.enable_block_reuse": (False, True), "kv_cache_config.max_attention_window": ([512], [512, 4096]),
    "kv_cache_config.use_kv_cache_manager_v2": (True, False), "kv_cache_config.max_util_for_resume": (0.5, 1),
    "kv_cache_config.max_gpu_total_bytes": (1 << 30,), "kv_cache_config.host_cache_size": (0, 1 << 30),
    "enable_attention_dp": (True,), "disable_overlap_scheduler": (True,), "enable_chunked_prefill": (True,),
    "cuda_graph_config": (None,), "cuda_graph_config.max_batch_size": (4, 300),
    "cuda_graph_config.enable_padding": (True,), "cuda_graph_config.batch_sizes": ([1, 2, 48],),
    "speculative_config.decoding_type": ("MTP", "Eagle", "NGram", "DraftTarget"),
    "speculative_config.max_draft_len": (1, 4), "speculative_config.num_nextn_predict_layers": (1, 2),
    "moe_config.backend": ("CUTLASS", "DEEPGEMM", "TRTLLM"), "pp_partition": ([10, 26], [20, 16]),
    "dtype": ("float16",),
    "scheduler_config.capacity_scheduler_policy": ("MAX_UTILIZATION", "STATIC_BATCH"), "attn_backend": ("FLASHINFER",),
}  # fmt: skip
VLLM: dict[str, tuple[Any, ...]] = {
    "tensor_parallel_size": (1, 2, 4, 8), "pipeline_parallel_size": (1, 2, 3), "enable_expert_parallel": (True,),
    "max_model_len": (1024, 8192, 1 << 20), "max_num_seqs": (1, 128, 1024), "max_num_batched_tokens": (64, 2048, 16384),
    "gpu_memory_utilization": (0.5, 1.0, 1.1), "kv_cache_dtype": ("auto", "fp8", "fp8_e5m2", "bfloat16"),
    "block_size": (8, 16, 64, 128), "enforce_eager": (True,), "enable_chunked_prefill": (False, True),
    "enable_prefix_caching": (False, True), "disable_sliding_window": (True,), "max_cudagraph_capture_size": (8, 100),
    "cudagraph_capture_sizes": ([1, 2, 300],), "quantization": ("fp8", "awq", "bitsandbytes"),
    "dtype": ("float16", "float32"), "num_gpu_blocks_override": (100,), "kv_cache_memory_bytes": (1 << 30,),
    "disable_hybrid_kv_cache_manager": (True,), "decode_context_parallel_size": (2,), "async_scheduling": (True, False),
    "mamba_block_size": (1024,), "mamba_cache_mode": ("align", "all"), "cpu_offload_gb": (2,), "enable_lora": (True,),
    "speculative_config": (
        {"method": "mtp", "num_speculative_tokens": 2}, {"method": "ngram", "num_speculative_tokens": 3},
    ),
    "compilation_config": ({"cudagraph_mode": "FULL"}, {"cudagraph_mode": "NONE"}, {"level": 0}),
    "attention_config": ({"backend": "TRITON_ATTN"}, {"backend": "FLASHINFER"}), "max_num_partial_prefills": (2,),
    "limit_mm_per_prompt": ({"image": 0}, {"image": 3}), "linear_backend": ("marlin",), "enable_eplb": (True,),
}  # fmt: skip
LLAMACPP: dict[str, tuple[Any, ...]] = {
    "ctx_size": (0, 1000, 4096, 100000), "parallel": (-1, 0, 1, 3, 4), "kv_unified_per_slot": (0, 1024),
    "kv_unified": (True, False), "batch_size": (64, 4096), "ubatch_size": (32, 2048), "fit": (False,),
    "flash_attn": ("on", "off", "auto"), "cache_type_k": ("f16", "q8_0", "q3_0"), "cache_type_v": ("f16", "q4_0"),
    "n_gpu_layers": (-1, 0, 20, 999), "swa_full": (True,), "kv_offload": (False,), "split_mode": ("row", "none"),
    "main_gpu": (1,), "fit_target": ((512,), (256, 512)), "fit_ctx": (8192,), "mmap": (False,),
    "spec_type": ("draft-mtp",), "tensor_split": ((3.0, 1.0),), "override_tensor": ([("x", "CPU")],),
}  # fmt: skip


def settings() -> Iterator[Row]:
    """What the flags come to, or the engine's refusal: more than a plan prints."""
    for release in ("0.5.10", "0.5.22"):
        chance = random.Random(release)
        for number in range(200):
            model, deployment = _started(chance, "sglang", release, SGLANG)
            answer = _asked(lambda: resolve_sglang(model, deployment)[0])  # noqa: B023
            yield f"sglang {release} {number}", answer
    for release in ("1.0.0", "1.2.1"):
        chance = random.Random(release)
        for number in range(200):
            model, deployment = _started(chance, "trtllm", release, TRTLLM)
            answer = _asked(lambda: resolve_trtllm(model, deployment, trtllm_at(release)))  # noqa: B023
            yield f"trtllm {release} {number}", answer
    for release in ("0.9.1", "0.14.0", "0.21.0", "0.32.0"):
        chance = random.Random(release)
        for number in range(100):
            model, deployment = _started(chance, "vllm", release, VLLM)
            resolved = resolve_vllm(model, deployment)
            parts = [(name, value) for name, value in asdict(resolved).items() if name not in ("facts", "kv_layers")]
            yield f"vllm {release} {number}", (parts, len(resolved.kv_layers))
    chance = random.Random(7)
    for number in range(300):
        flags = some(chance, LLAMACPP)
        about_it = (chance.choice((0, 2048, 40960)), chance.choice((5000, 6000, 7000)))
        program, flash = chance.choice(("server", "cli")), chance.random() < 0.8
        yield (
            f"llamacpp {number}",
            _asked(lambda: resolve_llamacpp(flags, *about_it, program=program, flash=flash)),  # noqa: B023
        )


GRAPHS: dict[str, tuple[Any, ...]] = {
    "enforce_eager": (True,), "optimization_level": (0, 1, 2, 3), "cudagraph_mode": ("FULL", "PIECEWISE"),
    "compilation_config": (
        {"cudagraph_mode": "FULL_AND_PIECEWISE", "level": 0}, {"mode": 0}, {"cudagraph_capture_sizes": [1, 8, 700]},
        {"max_cudagraph_capture_size": 24}, {"level": 3}, {"cudagraph_mode": "full_decode_only"},
        {"cudagraph_capture_sizes": [1, "x"]}, {"max_cudagraph_capture_size": 0},
    ),
    "decode_context_parallel_size": (1, 2), "cudagraph_capture_sizes": ([1], [4, 2]), "cuda_graph_sizes": ([20],),
    "max_cudagraph_capture_size": (2, 4, 7, 8, 100, 255, 256, 300),
    "cuda_graph_bs": ([4, 1],), "cuda_graph_max_bs": (1, 5, 160, 161, 300), "tp_size": (1, 3, 4, 8),
    "max_running_requests": (1, 20, 1000), "speculative_algorithm": ("EAGLE",), "disable_cuda_graph_padding": (True,),
    "cuda_graph_config": (None,), "cuda_graph_config.max_batch_size": (1, 3, 100, 256, 300),
    "cuda_graph_config.enable_padding": (True,), "cuda_graph_config.batch_sizes": ([1, 2, 48],),
    "use_cuda_graph": (True, False),
}  # fmt: skip


def graphs() -> Iterator[Row]:
    """Which CUDA graphs are captured, and how layers and batches are divided."""
    chance = random.Random(21)
    captures = [at(release).capture for release in ("0.9.1", "0.11.0", "0.14.0", "0.21.0", "0.32.0")]
    memories = [sglang_at(release) for release in ("0.5.7", "0.5.16", "0.5.23")]
    for number in range(500):
        flags, capture, facts = some(chance, GRAPHS), chance.choice(captures), chance.choice(memories)
        seqs, tokens, drafts = chance.choice((1, 7, 128, 300)), chance.choice((16, 100, 8192)), chance.choice((0, 0, 3))
        name, sm = chance.choice(("A", "GptOssForCausalLM")), chance.choice((80, 90, 100, 103, 120))
        pools, pairs = chance.random() < 0.3, chance.random() < 0.2
        mib, largest = chance.choice((16000, 24000, 40000, 80000, 150000, 200000)), chance.choice((1, 8, 30, 160, 513))
        yield f"{number}", [
            _asked(lambda: cudagraph_mode(flags, capture, pooling=pools, encoder_decoder=pairs)),  # noqa: B023
            _asked(
                lambda: capture_sizes(
                    flags, capture, architecture=name, sm=sm, seqs=seqs, tokens=tokens, drafts=drafts  # noqa: B023
                )
            ),
            largest_decode_batch(facts, flags, mib), decode_batches(facts, flags, largest),
            graph_batch_sizes(flags, pools, seqs, tokens, drafts),
        ]  # fmt: skip
    for layers, stages, partition in product((1, 7, 12, 36), (1, 2, 3, 5), ("", "6,6", "4,4,4", "x", "12", "7,5")):
        yield f"{layers} {stages} {partition}", _asked(lambda: pipeline_stages(layers, stages, partition))  # noqa: B023
    for asynchronous, runner, stages in product((False, True), ("v1", "v2"), (1, 2, 4)):
        yield f"{asynchronous} {runner} {stages}", in_flight_batches(asynchronous, runner, stages)


PLANS = {"sglang": 80, "trtllm": 70, "vllm": 35}  # of each release


def plans() -> Iterator[Row]:
    """Whole plans with flags that are rarely named."""
    choices = {"sglang": SGLANG, "trtllm": TRTLLM, "vllm": VLLM}
    releases = {
        "sglang": ("0.5.7", "0.5.10", "0.5.16", "0.5.23"), "trtllm": ("0.21.0", "1.0.0", "1.2.1", "1.3.0rc10"),
        "vllm": ("0.9.1", "0.14.0", "0.20.0", "0.27.0"),
    }  # fmt: skip
    for engine, known in releases.items():
        for release in known:
            chance = random.Random(f"{engine} {release}")
            for number in range(PLANS[engine]):
                model, deployment = _started(chance, engine, release, choices[engine])
                yield f"{engine} {release} {number}", _asked(lambda: _figures(model, deployment))  # noqa: B023


def _figures(model: Any, deployment: Deployment) -> Any:
    answer = engine_of(deployment).plan(deployment, model)
    return answer.verdict, answer.ranks, answer.kv, sorted((name, repr(x)) for name, x in answer.resolved.items())


def _started(chance: random.Random, engine: str, release: str, choices: dict[str, tuple[Any, ...]]) -> tuple[Any, Any]:
    name = chance.choice(SERVED)
    flags = some(chance, choices)
    count = 8 if chance.random() < 0.5 else 1
    gpus = parse_gpus(f"{count}x {chance.choice(CARDS)}")
    return load(name), Deployment(Engine(engine, release), name, flags, gpus)


TABLES = {
    table.__name__: table for table in (backends, quantisations, placements, commands, kernels, settings, graphs, plans)
}


@pytest.mark.parametrize("name", TABLES)
def test_a_decision_is_as_stored(name: str) -> None:
    check_table("engine_tables", name, TABLES[name]())
