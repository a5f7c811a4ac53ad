"""How far the time model is from speeds that people posted: python tools/accuracy_speed.py

Each row is a post: card, release, command, load, and milliseconds per token (tpot) or to the first token (ttft). Speeds
that were given as tokens/s of one stream are turned into milliseconds; what a post leaves out is in its note.
Nothing is fitted to these rows.
"""

from __future__ import annotations

import sys
from statistics import median

from msgspec import Struct

from oomph.errors import OomphError
from oomph.simulate.api import Load, prepare, simulate, spread
from oomph.simulate.workloads import Arrivals, Shape


class Post(Struct, frozen=True):
    gpu: str
    engine: str
    command: str
    users: int
    prompt: int
    output: int
    what: str
    ms: float
    source: str
    note: str = ""


_WMX = "ai.wmx.dev/benchmarks"
_YOBITEL = "yobitelcomm.github.io/bench concurrency-sweep"
_INFERENCEX = "SemiAnalysisAI/InferenceX issue 828"
_SWEEP = "johnmusgrave.com vllm-throughput-latency-sweep"
_MUSHFIQ = "mushfiqrahman.dev ?p=1668"
_A40 = "databasemart.com vllm-gpu-benchmark-a40"
_AWQ = "vllm-project/vllm issue 20469"
_SMALL = "Qwen/Qwen2.5-0.5B-Instruct --max-model-len 8192"
_LLAMA = "meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192"
_MISTRAL = "mistralai/Mistral-7B-Instruct-v0.3 --max-model-len 8192"
_GPT_OSS = "openai/gpt-oss-120b -tp 8 --max-model-len 10240"
_EAGER = "Qwen/Qwen3-14B-AWQ --max-model-len 16384 --enforce-eager --gpu-memory-utilization 0.95"
_QWEN_4B = "Qwen/Qwen3-4B-Instruct-2507 --quantization fp8 --kv-cache-dtype fp8 --max-num-seqs 4 --max-model-len 131072"
_LENGTHS, _RELEASE = "lengths not given", "release not given; from tokens/s and first token"
_LONGEST = "release not given; duration / longest answer"

POSTS = (
    Post("L4", "0.23.0", _SMALL, 1, 256, 128, "tpot", 5.1, _WMX),
    Post("L4", "0.23.0", _SMALL, 8, 256, 128, "tpot", 5.5, _WMX),
    Post("L4", "0.23.0", _SMALL, 32, 256, 128, "tpot", 7.1, _WMX),
    Post("H100", "0.21.0", _LLAMA, 1, 100, 150, "tpot", 6.48, _YOBITEL, _LENGTHS),
    Post("H100", "0.21.0", _LLAMA, 4, 100, 150, "tpot", 6.59, _YOBITEL, _LENGTHS),
    Post("A100 40GB", "0.23.0", _LLAMA, 1, 1024, 128, "tpot", 13.3, _SWEEP),
    Post("RTX 4090", "0.21.0", "Qwen/Qwen3-8B --max-model-len 8192", 1, 100, 300, "tpot", 17.0,
         "AlexsJones/llmfit pull 1046", "release not given"),
    Post("RTX 4090", "0.19.1", _QWEN_4B, 1, 30, 1000, "tpot", 7.22, "noonghunna/club-3090 issue 697", "at 250 W"),
    Post("RTX 4090", "0.15.1", _MISTRAL, 4, 256, 100, "tpot", 18.4, _MUSHFIQ, _RELEASE),
    Post("RTX 4090", "0.15.1", _MISTRAL, 16, 256, 100, "tpot", 23.3, _MUSHFIQ, _RELEASE),
    Post("A40", "0.8.5", _LLAMA, 50, 100, 600, "tpot", 36.0, _A40, _LONGEST),
    Post("A40", "0.8.5", "Qwen/Qwen2.5-14B-Instruct --max-model-len 8192", 50, 100, 600, "tpot", 78.6, _A40, _LONGEST),
    Post("8x H100", "0.14.1", _GPT_OSS, 4, 1024, 1024, "tpot", 3.72, _INFERENCEX, "release not given"),
    Post("8x H100", "0.14.1", _GPT_OSS, 16, 1024, 1024, "tpot", 4.83, _INFERENCEX, "release not given"),
    Post("8x H100", "0.14.1", _GPT_OSS, 64, 1024, 1024, "tpot", 7.36, _INFERENCEX, "release not given"),
    Post("A100 80GB", "0.9.2", _EAGER, 1, 16000, 200, "tpot", 20.63, _AWQ),
    Post("A100 80GB", "0.9.2", _EAGER, 1, 16000, 200, "ttft", 3345.0, _AWQ),
    Post("RTX 5090", "0.15.1", "Qwen/Qwen3-30B-A3B-GPTQ-Int4 --max-model-len 32768", 4, 1000, 1000, "tpot", 7.06,
         "r/LocalLLaMA, Qwen3 Coder on 5090", "posted of the Coder in AWQ; users and lengths from tokens/s"),
    Post("2x B200", "0.9.2", "meta-llama/Llama-3.3-70B-Instruct --quantization fp8 -tp 2 --max-model-len 8192",
         16, 512, 512, "tpot", 20.0, "vllm-project/vllm issue 20710", "posted as unexpectedly slow"),
)  # fmt: skip


def ratio(post: Post) -> float:
    """Ours over theirs: below 1 we promise more than they saw."""
    setup = prepare(f"vllm serve {post.command}", gpu=post.gpu, engine=f"vllm=={post.engine}")
    load = Load(Shape(post.prompt, post.output), Arrivals(users=post.users), post.users * 6)
    result = simulate(setup, spread(setup, load))
    spreads = {"tpot": result.tpot, "ttft": result.ttft}
    return spreads[post.what].p50 * 1000 / post.ms


def main() -> int:
    ratios = []
    for post in POSTS:
        model = post.command.split()[0]
        try:
            r = ratio(post)
        except OomphError as e:
            print(f"  cannot: {post.gpu} {model}: {e}")
            continue
        ratios.append(r)
        print(f"{post.gpu:<13} {model:<44} {post.users:>3} users {post.what} {post.ms:>7} ms   x{r:.2f}  {post.note}")
    off = sorted(max(r, 1 / r) for r in ratios)
    print(
        f"{len(ratios)} posts: median ours/theirs {median(ratios):.2f}; off by a factor of {median(off):.2f} (median), "
        f"{off[round(0.9 * (len(off) - 1))]:.2f} (nine of ten), {off[-1]:.2f} (worst)"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
