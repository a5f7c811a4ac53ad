"""Draws cases for drive.py: python tools/real_scheduler/cases.py RELEASE COUNT [SEED] > CASES.jsonl

Deployments of the catalogue under random flags, planned by oomph with a KV cache that is short, and random requests:
some together, some one after the other, some with prefixes in common, some longer than a chunk.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import msgspec

from oomph.answers.plan import load
from oomph.engines.vllm.scheduler.build import planned_cache
from oomph.errors import OomphError
from oomph.simulate.build import prepare
from oomph.simulate.timing import MILLISECOND

PLAIN = (
    "Qwen/Qwen3-8B", "meta-llama/Llama-3.1-8B-Instruct", "deepseek-ai/DeepSeek-V2-Lite-Chat", "google/gemma-3-27b-it",
    "openai/gpt-oss-20b", "meta-llama/Llama-4-Scout-17B-16E-Instruct", "google/gemma-3-12b-it", "Qwen/Qwen3-14B",
)  # fmt: skip
RECURRENT = (
    "nvidia/NVIDIA-Nemotron-Nano-9B-v2", "ibm-granite/granite-4.0-h-micro", "ibm-granite/granite-4.0-h-tiny",
    "tiiuae/Falcon-H1-7B-Instruct", "tiiuae/Falcon-H1-0.5B-Base", "ibm-ai-platform/Bamba-9B-v1",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "Qwen/Qwen3.6-27B", "Qwen/Qwen3.5-35B-A3B",
    "ai21labs/AI21-Jamba-Mini-1.5", "ibm-granite/granite-4.0-h-small", "nvidia/Nemotron-H-56B-Base-8K",
)  # fmt: skip
DRAFTERS = {
    "Qwen/Qwen3-8B": ("draft_model", "Qwen/Qwen3-0.6B"),
    "Qwen/Qwen3-14B": ("draft_model", "Qwen/Qwen3-0.6B"),
    "Qwen/Qwen3.6-27B": ("mtp", ""),
    "Qwen/Qwen3.5-35B-A3B": ("mtp", ""),
}


def command(r: random.Random) -> list[str]:
    model = r.choice(PLAIN + RECURRENT + RECURRENT)
    words = ["vllm", "serve", model, "--max-model-len", str(r.choice([2048, 4096, 8192]))]
    words += ["--max-num-seqs", str(r.choice([2, 4, 8, 16, 64]))]
    words += ["--max-num-batched-tokens", str(r.choice([2048, 2048, 3000, 4096, 8192]))]
    if r.random() < 0.3:
        words.append("--no-async-scheduling")
    if r.random() < 0.85:
        words.append("--enable-prefix-caching")
    else:
        words.append("--no-enable-prefix-caching")
    if r.random() < 0.15:
        words += ["--scheduling-policy", "priority"]
    if r.random() < 0.1:
        words += ["--long-prefill-token-threshold", "700"]
    if r.random() < 0.35 and model in PLAIN:
        words += ["--pipeline-parallel-size", str(r.choice([2, 4]))]
    elif r.random() < 0.25:
        method, draft = DRAFTERS.get(model, ("ngram", ""))
        spec: dict[str, Any] = {"method": method, "num_speculative_tokens": r.choice([1, 2, 3])}
        if draft:
            spec["model"] = draft
        if method == "ngram":
            spec["prompt_lookup_max"] = 3
        if model in DRAFTERS or model in PLAIN:
            words += ["--speculative-config", json.dumps(spec)]
    return words


def requests(r: random.Random, longest: int) -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = []
    shared = r.random() < 0.5
    gap = r.choice([0, 3, 20, 80])
    at = 0
    for i in range(r.randint(4, 40)):
        at += r.randint(0, gap) * MILLISECOND + r.choice([0, MILLISECOND // 3]) if gap else 0
        prompt = min(longest - 2, round(2 ** r.uniform(3, 13)))
        chain: list[tuple[int, int]] = []
        if shared and r.random() < 0.8:
            chain = [(r.randint(1, 3), r.choice([16, 200, 700, 1500, 2600])) for _ in range(r.randint(1, 3))]
        jobs.append(
            {"id": i, "at": at, "prompt": prompt, "output": round(2 ** r.uniform(0, 8)), "chain": chain,
             "priority": r.randint(0, 2)}
        )  # fmt: skip
    return jobs


def draw(release: str, seed: int) -> dict[str, Any]:
    r = random.Random(seed)
    for _ in range(200):
        words = command(r)
        gpu = r.choice(["8x H100", "8x H200"])
        try:
            whole = prepare(words, gpu=gpu, engine=f"vllm=={release}", timed=False)
            least = planned_cache(whole.deployment, load(whole.deployment.model), whole.plan)[1].need_bytes
            pinned = {"available_kv": round(least * r.choice([1.05, 1.3, 2.0, 4.0]))}
            setup = prepare(words, gpu=gpu, engine=f"vllm=={release}", timed=False, given=pinned)
        except OomphError:
            continue
        config = msgspec.to_builtins(setup.built.config)
        run, _ = planned_cache(setup.deployment, load(setup.deployment.model), setup.plan)
        config["method"] = run.settings.speculative_method
        jobs = requests(r, setup.built.config.max_model_len)
        room = setup.built.config
        if room.gate != "chunk":  # one that can never start blocks the real engine for ever
            jobs = [job for job in jobs if room.need(job["prompt"]) <= room.usable]
        return {"id": f"{release}/{seed}", "release": release, "command": words, "config": config, "jobs": jobs}
    raise SystemExit(f"no deployment of {release} for seed {seed}")


def main() -> int:
    release, count = sys.argv[1], int(sys.argv[2])
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    for seed in range(first, first + count):
        print(json.dumps(draw(release, seed), separators=(",", ":")), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
