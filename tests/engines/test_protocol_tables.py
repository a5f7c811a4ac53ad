"""What every engine answers to the whole protocol about random plans, as stored: also at stages that the plan does not
die at, where its levers, reasons and host parts are others.

`python tools/replay.py renew protocol_tables` stores them again, and a commit that does says why. Releases are named,
so that a new one changes no row; of sentences only the flags and figures count.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from stored_answers import check_table, plain

from oomph import plan
from oomph.answers.plan import load
from oomph.engines.registry import all_engines, engine_of
from oomph.errors import OomphError
from oomph.ir.plan import Plan
from oomph.ir.timeline import StageName
from oomph.search.request import Arm, Layout
from oomph.simulate.speed import speed_of

PLANS = 24  # of each engine
FIGURES = re.compile(r"--?[a-z][\w-]*|\d+(?:[.,]\d+)*")
Row = tuple[str, Any]

GPUS = ("{}x RTX 4090", "{}x H100", "{}x RTX 3060 12GB", "{}x B200", "{}x L40S", "{}x A100 40GB")
MODELS = (
    "Qwen/Qwen3-8B", "openai/gpt-oss-20b", "Qwen/Qwen3-30B-A3B-FP8", "google/gemma-3-27b-it", "Qwen/Qwen3-32B-AWQ",
    "deepseek-ai/DeepSeek-V2-Lite", "nvidia/Gemma-4-31B-IT-NVFP4", "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-0.6B",
)  # fmt: skip
# engine -> (release, command, the flag for GPUs, further flags)
ENGINES: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "vllm": ("vllm==0.21.0", "vllm serve {}", "-tp {}", (
        "--max-model-len 8192", "--max-num-seqs 512", "--enforce-eager", "--kv-cache-dtype fp8", "--swap-space 8",
        "--max-num-batched-tokens 16384", "--cpu-offload-gb 4", "--gpu-memory-utilization 0.97", "--enable-lora",
        "--no-enable-prefix-caching", "--enable-expert-parallel", "--quantization fp8", "--port 8001",
        "--gpu-memory-utilization 0.6",
        "--speculative-config.method ngram --speculative-config.num_speculative_tokens 3",
    )),
    "sglang": ("sglang==0.5.10", "sglang serve --model-path {}", "--tp {}", (
        "--context-length 8192", "--max-running-requests 64", "--disable-cuda-graph", "--kv-cache-dtype fp8_e5m2",
        "--mem-fraction-static 0.95", "--chunked-prefill-size 16384", "--cuda-graph-max-bs 256", "--dp-size 2",
        "--disable-radix-cache", "--mem-fraction-static 0.6", "--page-size 64", "--enable-mixed-chunk",
        "--cpu-offload-gb 4", "--swa-full-tokens-ratio 0.5", "--port 30001", "--quantization fp8",
    )),
    "trtllm": ("trtllm==1.2.1", "trtllm-serve {}", "--tp_size {}", (
        "--max_seq_len 8192", "--max_batch_size 512", "--max_num_tokens 16384", "--max_beam_width 2", "--pp_size 2",
        "--kv_cache_free_gpu_memory_fraction 0.97", "--kv_cache_free_gpu_memory_fraction 0.5", "--port 8001",
    )),
    "llamacpp": ("", "llama-server -m {}-Q4_K_M.gguf", "", (
        "-c 32768", "-ngl 20", "-fa off", "-ctk q8_0 -ctv q8_0", "--n-cpu-moe 12", "-ub 2048 -b 2048", "-np 4",
        "--no-mmap", "--mlock", "--swa-full", "--cache-ram 4096", "--fit off", "-sm row", "-ts 3,1", "--no-kv-offload",
    )),
    "ollama": ("", "ollama run {}", "", ("--num-ctx 32768", "--num-parallel 4", "--num-gpu 20", "--num-batch 1024")),
}  # fmt: skip
FILES = {"llamacpp": ("Qwen3-8B", "Qwen3-30B-A3B", "gemma-3-27b-it", "gpt-oss-20b"),
         "ollama": ("qwen3:8b", "qwen3:30b", "gemma3:27b", "gpt-oss:20b")}  # fmt: skip
VERDICTS: tuple[StageName | None, ...] = (
    None, "startup_free_memory", "weights_load", "profile_run", "kv_check", "cudagraph_capture", "runtime_request",
    "host_ram",
)  # fmt: skip


def commands(engine: str) -> Iterator[tuple[str, str]]:
    chance = random.Random(engine)
    _, start, parallel, flags = ENGINES[engine]
    for _ in range(PLANS):
        count = chance.choice((1, 1, 2, 4))
        words = [
            start.format(chance.choice(FILES.get(engine, MODELS))),
            *chance.sample(flags, chance.choice((0, 1, 2, 3))),
        ]
        yield " ".join([*words, *([parallel.format(count)] if parallel else [])]), chance.choice(GPUS).format(count)


def figures(value: Any) -> Any:
    """Of sentences their flags and figures: words may change freely."""
    if isinstance(value, str):
        return FIGURES.findall(value) if " " in value else value
    if isinstance(value, dict):
        return {str(name): figures(inner) for name, inner in sorted(value.items(), key=lambda pair: str(pair[0]))}
    if isinstance(value, list | tuple):
        return [figures(inner) for inner in value]
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    return round(value, 9) if isinstance(value, float) else value


def asked(question: Callable[[], Any]) -> Any:
    try:
        return figures(plain(question()))
    except OomphError as refused:
        return [type(refused).__name__, figures(refused.message)]


def _seconds(answer: Plan) -> Any:
    """How long some steps take: prompts, one request, many of them."""
    engine = engine_of(answer.deployment)
    model: Any = None if engine.layout == "placed" else load(answer.deployment.model)
    timing = engine.timing(answer, model) if answer.fits else None
    return None if timing is None else [speed_of(timing, users) for users in (1, 8, 64)]


def about(answer: Plan) -> Iterator[Any]:
    engine, deployment = engine_of(answer.deployment), answer.deployment
    yield engine.gpus_needed(deployment), asked(lambda: engine.memory_flags(deployment))
    yield asked(lambda: engine.write_command(deployment)), asked(lambda: engine.highest_share(deployment.gpus))
    yield asked(lambda: engine.container(deployment)), asked(lambda: engine.config_file(deployment))
    yield [asked(lambda: engine.at_release(deployment, version)) for version in engine.releases()[:20:5]]  # noqa: B023
    yield asked(lambda: tuple(engine.refusal_levers(answer)))
    if not answer.ranks:
        return
    yield asked(lambda: engine.safe_share(answer)), asked(lambda: engine.uncounted_share(answer))
    yield asked(lambda: engine.host_plan(answer)), asked(lambda: _seconds(answer))
    for nodes in (1, 2):
        yield asked(lambda: engine.host_needs(answer, nodes)), asked(lambda: engine.launch_lines(answer, nodes))  # noqa: B023
        yield asked(lambda: engine.node_commands(answer, nodes))  # noqa: B023
    for stage in VERDICTS:
        breaks = stage or "kv_check"
        verdict = replace(answer.verdict, fits=stage is None, stage=stage, first_to_break=breaks, sure=True)
        other = replace(answer, verdict=verdict)
        yield stage, asked(lambda: engine.reasons(other)), asked(lambda: tuple(engine.levers(other)))  # noqa: B023


def plans(engine: str) -> Iterator[Row]:
    for command, gpus in commands(engine):
        try:
            answer = plan(command, gpu=gpus, engine=ENGINES[engine][0], advise=False, ram="64 GiB")
        except OomphError as refused:
            yield f"{command} | {gpus}", figures(refused.message)
            continue
        yield f"{command} | {gpus}", [*about(answer)]


WORDS = (
    "vllm serve a/b", "vllm serve", "vllm bench serve", "vllm bench", "vllm", "vllm chat", "sglang generate",
    "sglang serve --model-path a/b", "sglang serve", "python -m vllm.entrypoints.openai.api_server --model a/b",
    "python -m sglang.launch_server --model-path a/b", "python -m", "python x.py", "trtllm-serve a/b", "trtllm-serve",
    "trtllm-serve serve a/b", "trtllm-serve disaggregated -c x", "trtllm-serve disaggregated", "llama-cli -m a.gguf",
    "llama-server -m a.gguf", "llama-bench", "ollama run a", "ollama pull a:b", "ollama", "ollama serve",
    "ollama create x -f y", "serve a/b", "--model a/b", "a/b",
)  # fmt: skip
IMAGES = (
    "vllm/vllm-openai:v0.21.0", "vllm/vllm-openai:latest", "lmsysorg/sglang:v0.5.10-cu126", "lmsysorg/sglang:dev",
    "nvcr.io/nvidia/tensorrt-llm/release:1.2.1", "ghcr.io/ggml-org/llama.cpp:server-cuda-b6000", "ollama/ollama:0.12.0",
)  # fmt: skip
ARMS = (
    Arm("a/b"), Arm("a/b", Layout(2, 1)), Arm("a/b", Layout(1, 2)), Arm("a/b", Layout(4, 2, True)),
    Arm("a/b", kv_dtype="fp8", eager=True), Arm("a/b", few_graphs=True, text_only=True, prefix_off=True),
    Arm("a/b", drafts=2, tokens=2048, offload_gib=4),
)  # fmt: skip


def words() -> Iterator[Row]:
    for engine in all_engines():
        for text in WORDS:
            split = text.split()
            program = split[0].rpartition("/")[2]
            yield f"{engine.name} {text}", [
                engine.recognises(program, split), asked(lambda: engine.starts_server(split)),  # noqa: B023
                asked(lambda: engine.implied_start(split)), asked(lambda: engine.calls_in(text)),  # noqa: B023
                [asked(lambda: engine.in_container(image, split)) for image in IMAGES],  # noqa: B023
                [asked(lambda: engine.container_refusal(image, split)) for image in IMAGES],  # noqa: B023
            ]  # fmt: skip
        yield f"{engine.name} images", [engine.image_release(image.rpartition(":")[2]) for image in IMAGES]
        for is_there in (False, True):
            case: Any = SimpleNamespace(has=lambda *_: is_there, engine=engine.name, observations=())  # noqa: B023
            rows = {name: plain(replace(row, below=None)) for name, row in engine.case_rows(case).items()}
            yield f"{engine.name} levers {is_there}", figures(rows)
        yield f"{engine.name} arms", [asked(lambda: engine.arm_flags(arm)) for arm in ARMS]  # noqa: B023
        yield f"{engine.name} file", [asked(lambda: engine.file_command("a/b:Q4_K_M", 4096, n)) for n in (1, 4)]  # noqa: B023


TABLES: dict[str, Callable[[], Iterator[Row]]] = {**{name: partial(plans, name) for name in ENGINES}, "words": words}


@pytest.mark.parametrize("name", TABLES)
def test_the_answers_are_as_stored(name: str) -> None:
    check_table("protocol_tables", name, TABLES[name]())
