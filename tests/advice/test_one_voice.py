"""Every command says the same of one deployment: random failing ones, their fixes read again as text.

ONE_VOICE=500 runs as many; the default is what a test run has time for. ONE_VOICE_SEED picks other deployments, so that
a large number can be run in parts.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterable, Sequence
from functools import cache

import pytest

from oomph import catalog
from oomph.answers.bare_plan import load
from oomph.answers.compare import compare
from oomph.answers.plan import plan, try_changes
from oomph.commands import parse_command, to_shell
from oomph.doctor.explain import explain
from oomph.errors import OomphError
from oomph.facts.gpus import rows as gpu_rows
from oomph.ir.advice import Judged
from oomph.ir.hardware import Device
from oomph.ir.plan import Plan
from oomph.search.cards import cards
from oomph.search.fit import fit
from oomph.search.request import Want

COUNT = int(os.environ.get("ONE_VOICE", "40"))
SEED = int(os.environ.get("ONE_VOICE_SEED", "7"))
PICKS = max(COUNT // 25, 2)  # of the deployments, those of which fit, gpus and compare are asked too
FLAGS = (
    "", "--max-model-len 32768", "--max-num-seqs 512", "--gpu-memory-utilization 0.8", "--enforce-eager",
    "--max-num-batched-tokens 16384", "--kv-cache-dtype fp8", "--max-model-len 131072 --max-num-seqs 64",
)  # fmt: skip
SGLANG_FLAGS = (
    "", "--mem-fraction-static 0.7", "--mem-fraction-static 0.95", "--context-length 131072",
    "--cuda-graph-max-bs 512", "--chunked-prefill-size 16384", "--max-running-requests 1024",
)  # fmt: skip
TRT_FLAGS = (
    "", "--max_batch_size 2048", "--max_num_tokens 32768", "--kv_cache_free_gpu_memory_fraction 0.98",
    "--max_seq_len 131072", "--max_batch_size 64 --max_num_tokens 16384",
)  # fmt: skip
FILES = (
    "-m {}-Q4_K_M.gguf", "-m /models/{}-Q8_0.gguf", "-hf unsloth/{}-GGUF:Q4_K_M", "-hf unsloth/{}-GGUF",
    "-m models/{0}/{0}-Q6_K.gguf",
)  # fmt: skip


def drawn_command(draw: random.Random, models: Sequence[str], width: int) -> str:
    kind = draw.random()
    if kind < 0.6:
        layout = f"-tp {width}" if width > 1 and draw.random() < 0.8 else ""
        return f"vllm serve {draw.choice(models)} {layout} {draw.choice(FLAGS)}"
    if kind < 0.72:
        model = draw.choice(("Qwen3-32B", "Qwen3-30B-A3B", "gemma-3-27b-it", "Qwen3-8B", "Qwen3-14B"))
        layers = draw.choice(("-ngl 99", "-ngl all", "-ngl 99 -fa off", "-ngl 99 -b 4096 -ub 4096", "--fit off"))
        return f"llama-server {draw.choice(FILES).format(model)} -c {draw.choice((16384, 65536))} {layers}"
    tp = f"{width}" if draw.random() < 0.8 else "1"
    if kind < 0.87:
        return (
            f"python -m sglang.launch_server --model-path {draw.choice(models)} --tp {tp} {draw.choice(SGLANG_FLAGS)}"
        )
    return f"trtllm-serve {draw.choice(models)} --tp_size {tp} {draw.choice(TRT_FLAGS)}"


@cache
def failing(number: int) -> tuple[str, str, Plan]:
    """(command, GPUs, plan) of a random deployment that does not fit for certain, of any engine."""
    draw = random.Random(f"{SEED} {number}")
    names = [row.name for row in gpu_rows() if row.total_bytes > 6 << 30]
    models = [name for name in catalog.ids() if not name.startswith("deepseek-ai/DeepSeek-V")]
    while True:
        width = draw.choice((1, 1, 2, 4))
        gpu = f"{width}x {draw.choice(names)}"
        command = drawn_command(draw, models, width)
        try:
            before = plan(command, gpu=gpu, advise=False)
            if before.ranks and before.verdict.outcome in ("fails", "close"):
                return command, gpu, plan(command, gpu=gpu)
        except OomphError:
            continue


@pytest.mark.parametrize("number", range(COUNT))
def test_one_voice(number: int) -> None:
    """What a plan advises and what what-if says of each change, then what explain says of the same failure."""
    command, gpu, before = failing(number)
    print(f"oomph plan --gpu {gpu!r} -- {command}")
    advice = before.advice
    assert advice is not None
    rows = [row.judged for row in try_changes(before).rows]
    table = {judged.change.label: judged for judged in rows}
    for fix in unique((*advice.fixes, *(judged for judged in rows if judged.effect == "fixes"))):
        assert outcome_of_text(fix, before) == "fits", f"{fix.change.label}: {fix.command}"
        assert not _in_force(fix.change.flags, before), fix.change.label
        alone = table.get(fix.change.label)
        assert alone is None or alone.effect == "fixes"
    useful = {j.change.label for j in (*advice.fixes, *advice.helps)}
    assert not useful & {j.change.label for j in advice.useless}
    for judged in (*advice.helps, *advice.useless):
        alone = table.get(judged.change.label)
        assert alone is None or alone.effect == judged.effect, judged.change.label
    if before.verdict.message:
        explain_has_the_same_voice(command, before, table)


def explain_has_the_same_voice(command: str, before: Plan, table: dict[str, Judged]) -> None:
    """The log is the command and what the engine prints at the end, which is what people paste."""
    engine = before.deployment.engine
    log = f"$ {command}\n{before.verdict.message}\n"
    answer = explain(
        log, gpus=before.deployment.gpus, command=command.split(), engine=f"{engine.name}=={engine.version}"
    )
    advice = answer.advice
    if advice is None:
        return
    observed = observed_pool(before)
    for fix in advice.fixes:
        assert outcome_of_text(fix, before, observed) == "fits", f"{fix.change.label}: {fix.command}"
        assert not _in_force(fix.change.flags, before), fix.change.label
    if answer.stage != before.verdict.stage:
        return  # the text shows another failure than the plan: other changes help there
    for judged in (*advice.fixes, *advice.helps, *advice.useless):
        alone = table.get(judged.change.label)
        assert alone is None or (alone.effect in ("fixes", "helps")) == (judged.effect in ("fixes", "helps")), judged


@pytest.mark.parametrize("number", range(0, COUNT, max(COUNT // PICKS, 1)))
def test_picks_are_what_plan_calls_fitting(number: int) -> None:
    command, gpu, before = failing(number)
    print(f"oomph plan --gpu {gpu!r} -- {command}")
    engine = before.deployment.engine.name
    name = re.sub(r":[A-Z0-9_]+$", "", before.model)
    length = min(4096, load(name).max_position or 4096)
    try:
        pick = fit(name, gpu, context=length, users=1, engine=engine).pick
    except OomphError:
        pick = None
    if pick is not None:
        assert plan(to_shell(pick.plan.deployment), gpu=gpu, engine=engine, advise=False).verdict.outcome == "fits"
    for row in compare(name, gpu=gpu, context=length).rows:
        if row.fits and "REPOSITORY" not in row.command:  # Ollama's library lacks it: the name is the user's to fill in
            assert plan(row.command, gpu=gpu, advise=False).verdict.outcome == "fits", row.command
        if row.engine == engine and pick is not None and engine in ("vllm", "sglang", "trtllm"):
            assert row.fits
    if engine in ("vllm", "llamacpp"):
        for card in cards(name, Want(length, 1), engine=engine, names=("RTX 4090", "A100 80GB", "H200")).cards:
            again = plan(card.command, gpu=f"{card.count}x {card.name}", engine=engine, advise=False)
            assert again.verdict.outcome == "fits", card.command


def observed_pool(before: Plan) -> int | None:
    """The KV memory that the engine's message names at the KV check: in the judgement it has no interval."""
    shown = re.search(r"available KV cache memory \(([\d.]+) GiB\)", before.verdict.message)
    return round(float(shown[1]) * 2**30) if shown and before.verdict.stage == "kv_check" else None


def outcome_of_text(fix: Judged, before: Plan, observed: int | None = None) -> str:
    """The printed command, read and planned again on the GPUs that it is for."""
    engine = before.deployment.engine
    release = fix.change.version or engine.version
    again = parse_command([fix.command], engine=f"{engine.name}=={release}")
    gpus = described(fix.change.gpus or before.deployment.gpus)
    after = plan(again, gpu=gpus, advise=False)
    if observed is not None and after.kv is not None and before.kv is not None:
        moved = after.kv.available_bytes - before.kv.available_bytes
        after = plan(again, gpu=gpus, advise=False, given={"available_kv": max(observed + moved, 0)})
    return after.verdict.outcome


def described(gpus: Sequence[Device]) -> list[dict[str, object]]:
    """What the system is thought to hold of a memory that it shares with the GPU is no reading: it is left out."""
    readings = [{"used_bytes": d.used_bytes} if d.reading == d.used_bytes else {} for d in gpus]
    cards = [{"name": d.name, "total_bytes": d.total_bytes} for d in gpus]
    return [{**card, **reading} for card, reading in zip(cards, readings, strict=True)]


def unique(fixes: Iterable[Judged]) -> list[Judged]:
    """Each printed command once."""
    return list({(fix.command, fix.change.gpus): fix for fix in fixes}.values())


def _in_force(flags: dict[str, object], before: Plan) -> bool:
    """What the change sets is what the engine has already; to take away a flag is a change if it was set."""
    present = before.deployment.flags
    return bool(flags) and all(
        name not in present if value is None else before.resolved.get(name) == value for name, value in flags.items()
    )
