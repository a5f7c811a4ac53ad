"""Draws the cases of tests/replay once: serve commands of every engine on many cards and releases, and the rest.

The cases are stored with their answers (tools/replay.py), so that a new card or model does not shift the others.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from oomph import catalog
from oomph.facts.gpus import rows as gpu_rows
from oomph.facts.vllm.versions import RELEASES

Case = list[str]
FIXTURES = Path(__file__).parents[1] / "tests" / "doctor" / "fixtures"

VLLM_FLAGS: tuple[tuple[str, ...], ...] = (
    ("--max-model-len", "4096"), ("--max-model-len", "16384"), ("--max-model-len", "131072"), ("--max-num-seqs", "8"),
    ("--max-num-seqs", "512"), ("--max-num-batched-tokens", "2048"), ("--max-num-batched-tokens", "16384"),
    ("--gpu-memory-utilization", "0.8"), ("--gpu-memory-utilization", "0.95"), ("--enforce-eager",),
    ("--kv-cache-dtype", "fp8"), ("--block-size", "32"), ("--cpu-offload-gb", "4"), ("--quantization", "fp8"),
    ("--dtype", "float16"), ("--language-model-only",), ("--limit-mm-per-prompt", '{"image":0,"video":0}'),
    ("--no-enable-prefix-caching",), ("--max-cudagraph-capture-size", "64"), ("--enable-expert-parallel",),
    ("--speculative-config", '{"method":"mtp","num_speculative_tokens":2}'), ("--enable-lora", "--max-loras", "4"),
    ("--swap-space", "4"), ("--kv-cache-memory-bytes", "4G"), ("--num-gpu-blocks-override", "500"),
    ("--data-parallel-size", "2"),
)  # fmt: skip
LLAMACPP_FLAGS: tuple[tuple[str, ...], ...] = (
    ("-c", "8192"), ("-c", "65536"), ("-np", "1"), ("-np", "8"), ("-ngl", "99"), ("-ngl", "20"), ("-fa", "on"),
    ("-fa", "off"), ("-ctk", "q8_0", "-ctv", "q8_0"), ("-ub", "2048"), ("--swa-full",), ("--cpu-moe",), ("-sm", "row"),
)  # fmt: skip
TRTLLM_FLAGS: tuple[tuple[str, ...], ...] = (
    ("--max_batch_size", "64"), ("--max_batch_size", "8"), ("--max_num_tokens", "2048"), ("--max_seq_len", "8192"),
    ("--max_seq_len", "65536"), ("--kv_cache_free_gpu_memory_fraction", "0.8"), ("--enable_chunked_prefill",),
    ("--max_beam_width", "4"), ("--config", "{kv_cache_config: {dtype: fp8}}"),
    ("--config", "{cuda_graph_config: null}"),
    ("--config", "{cuda_graph_config: {enable_padding: true, max_batch_size: 256}, disable_overlap_scheduler: true}"),
    ("--config", "{kv_cache_config: {max_attention_window: [1024, 131072]}}"),
    ("--config", "{enable_attention_dp: true}"), ("--config", "{moe_config: {backend: TRTLLM}}"),
    ("--config", "{kv_cache_config: {max_tokens: 200000, tokens_per_block: 64}}"),
)  # fmt: skip
SGLANG_FLAGS: tuple[tuple[str, ...], ...] = (
    ("--context-length", "8192"), ("--context-length", "131072"), ("--mem-fraction-static", "0.8"),
    ("--mem-fraction-static", "0.92"), ("--max-running-requests", "8"), ("--max-running-requests", "512"),
    ("--max-total-tokens", "100000"), ("--chunked-prefill-size", "2048"), ("--chunked-prefill-size", "-1"),
    ("--kv-cache-dtype", "fp8_e5m2"), ("--kv-cache-dtype", "fp8_e4m3"), ("--quantization", "fp8"),
    ("--page-size", "64"), ("--disable-radix-cache",), ("--disable-cuda-graph",), ("--cuda-graph-max-bs", "32"),
    ("--dtype", "float16"),
    ("--attention-backend", "triton"), ("--attention-backend", "flashinfer"), ("--disable-overlap-schedule",),
    ("--swa-full-tokens-ratio", "0.5"), ("--mamba-full-memory-ratio", "0.5"), ("--cpu-offload-gb", "4"),
    ("--speculative-algorithm", "EAGLE", "--speculative-num-steps", "3", "--speculative-eagle-topk", "1",
     "--speculative-num-draft-tokens", "4"), ("--max-prefill-tokens", "4096"), ("--enable-mixed-chunk",),
)  # fmt: skip
GGUF_TYPES = ("Q4_K_M", "Q8_0", "Q5_K_M", "IQ4_XS", "F16")


def plan_cases(count: int, seed: int) -> Iterator[Case]:
    draw = random.Random(seed)
    cards = [row.name for row in gpu_rows()]
    models = list(catalog.ids())
    for number in range(count):
        width = draw.choice((1, 1, 1, 2, 4, 8))
        gpu = f"{width}x {draw.choice(cards)}"
        if number % 10 == 8:
            yield ["--gpu", gpu, "--", *_llamacpp(draw, models)]
        elif number % 20 == 9:
            environment = draw.choice(((), ("OLLAMA_NUM_PARALLEL=4",), ("OLLAMA_KV_CACHE_TYPE=q8_0",)))
            tag = draw.choice(("qwen3:8b", "llama3.1:8b", "gemma3:27b", "gpt-oss:20b", "qwen3:32b", "mistral:7b"))
            context = draw.choice(((), ("--num-ctx", "8192"), ("--num-ctx", "32768")))
            yield ["--gpu", gpu, "--", *environment, "ollama", "run", tag, *context]
        else:
            layout = _layout(draw, width)
            flags = [word for flag in draw.sample(VLLM_FLAGS, draw.choice((0, 1, 2, 3))) for word in flag]
            engine = f"vllm=={draw.choice(RELEASES)}"
            yield ["--gpu", gpu, "--engine", engine, "--", "vllm", "serve", draw.choice(models), *layout, *flags]


def trtllm_cases(count: int, seed: int) -> Iterator[Case]:
    """TensorRT-LLM's plans, apart from the others: those were drawn before it was planned."""
    from oomph.facts.trtllm.versions import RELEASES as TRTLLM_RELEASES

    draw = random.Random(seed)
    cards = [row.name for row in gpu_rows() if row.capability >= (8, 0)]
    models = list(catalog.ids())
    for _ in range(count):
        width = draw.choice((1, 1, 1, 2, 4, 8))
        tensor, stages, experts = (["--tp_size", str(width)], ["--pp_size", str(width)], ["--ep_size", str(width)])
        layout = draw.choice((tensor, [*tensor, *experts], stages)) if width > 1 else []
        flags = [word for flag in draw.sample(TRTLLM_FLAGS, draw.choice((0, 1, 1, 2))) for word in flag]
        engine = f"trtllm=={draw.choice(TRTLLM_RELEASES)}"
        gpu = f"{width}x {draw.choice(cards)}"
        yield ["--gpu", gpu, "--engine", engine, "--", "trtllm-serve", draw.choice(models), *layout, *flags]


def sglang_cases(count: int, seed: int) -> Iterator[Case]:
    from oomph.facts.sglang.versions import RELEASES as SGLANG_RELEASES

    draw = random.Random(seed)
    cards = [row.name for row in gpu_rows() if row.capability >= (7, 5)]
    models = list(catalog.ids())
    for _ in range(count):
        width = draw.choice((1, 1, 1, 2, 4, 8))
        tensor, stages, experts = ["--tp", str(width)], ["--pp-size", str(width)], ["--ep-size", str(width)]
        attention = [*tensor, "--dp-size", str(width), "--enable-dp-attention"]
        layout = draw.choice((tensor, tensor, [*tensor, *experts], attention, stages)) if width > 1 else []
        flags = [word for flag in draw.sample(SGLANG_FLAGS, draw.choice((0, 1, 2, 3))) for word in flag]
        options = ["--gpu", f"{width}x {draw.choice(cards)}", "--engine", f"sglang=={draw.choice(SGLANG_RELEASES)}"]
        serve = ["python", "-m", "sglang.launch_server", "--model-path", draw.choice(models)]
        yield [*options, "--", *serve, *layout, *flags]


def whole_plan_cases(count: int, seed: int) -> Iterator[Case]:
    """Half of SGLang's, a quarter each of TensorRT-LLM's and of the others'."""
    yield from sglang_cases(count // 2, seed)
    yield from trtllm_cases(count // 4, seed + 1)
    yield from plan_cases(count // 4, seed + 1)


def _layout(draw: random.Random, width: int) -> Case:
    if width == 1:
        return []
    return draw.choice((["-tp", str(width)], ["-tp", str(width)], ["-pp", str(width)], ["-tp", str(width // 2)]))


def _llamacpp(draw: random.Random, models: list[str]) -> Case:
    dense = [m for m in models if not any(word in m for word in ("FP8", "AWQ", "NVFP4", "GPTQ", "INT", "W4", "w4"))]
    name = draw.choice(dense).rpartition("/")[2]
    flags = [word for flag in draw.sample(LLAMACPP_FLAGS, draw.choice((1, 2, 3))) for word in flag]
    return ["llama-server", "-m", f"{name}-{draw.choice(GGUF_TYPES)}.gguf", *flags]


def explain_cases() -> Iterator[Case]:
    """Each rule's own log, alone and with what a user may add."""
    for path in sorted(FIXTURES.glob("*.log")):
        yield [path.name]
        yield ["--gpu", "RTX 4090", path.name]
        yield ["--gpu", "H100", path.name, "--", "vllm", "serve", "Qwen/Qwen3-32B", "--max-model-len", "32768"]


def fit_cases(count: int, seed: int) -> Iterator[Case]:
    draw = random.Random(seed)
    cards = ("RTX 4090", "RTX 3060 12GB", "2x RTX 5070 Ti", "H100", "L4", "A100 80GB", "RTX 5090", "2x RTX 3090")
    names = (
        "Qwen/Qwen3-8B", "Qwen/Qwen3-14B", "meta-llama/Llama-3.1-8B-Instruct", "google/gemma-3-27b-it",
        "openai/gpt-oss-20b", "Qwen/Qwen3-30B-A3B", "Qwen/Qwen3.6-27B", "google/gemma-4-31B-it",
    )  # fmt: skip
    for _ in range(count):
        want = draw.choice(((), ("--context", "16k"), ("--context", "32k", "--users", "4"), ("--prefer", "speed")))
        yield [draw.choice(names), "--gpu", draw.choice(cards), *want, *draw.choice(((), ("--only",)))]


def simulate_cases(count: int, seed: int) -> Iterator[Case]:
    draw = random.Random(seed)
    names = ("Qwen/Qwen3-8B", "Qwen/Qwen3-32B", "google/gemma-3-27b-it", "Qwen/Qwen3-30B-A3B", "openai/gpt-oss-20b")
    for _ in range(count):
        users = draw.choice(("8", "32", "128"))
        load = ["--users", users, "--requests", "200", "--prompt", draw.choice(("500", "4000", "12000"))]
        load += ["--output", draw.choice(("50", "400")), *draw.choice(((), ("--steps",)))]
        engine = draw.choice(("0.11.0", "0.21.0", "0.32.0"))
        command = ["vllm", "serve", draw.choice(names), "--max-model-len", "16384"]
        yield ["--gpu", draw.choice(("H100", "H200", "B200")), "--engine", f"vllm=={engine}", *load, "--", *command]


def inspect_cases(count: int, seed: int) -> Iterator[Case]:
    for name in random.Random(seed).sample(list(catalog.ids()), count):
        yield [name]
