"""Every command says the same of one deployment: random failing ones, their fixes read again as text.

ONE_VOICE=500 runs as many; the default is what a test run has time for.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

from oomph import catalog
from oomph.commands import parse_command
from oomph.errors import OomphError
from oomph.facts.gpus import rows as gpu_rows
from oomph.ir.plan import Plan
from oomph.plan import plan, try_changes

COUNT = int(os.environ.get("ONE_VOICE", "40"))
FLAGS = (
    "", "--max-model-len 32768", "--max-num-seqs 512", "--gpu-memory-utilization 0.8", "--enforce-eager",
    "--max-num-batched-tokens 16384", "--kv-cache-dtype fp8", "--max-model-len 131072 --max-num-seqs 64",
)  # fmt: skip


def failing() -> Iterator[tuple[str, str, Plan]]:
    """(command, GPUs, plan) of random deployments that do not fit for certain, all engines."""
    draw = random.Random(7)
    cards = [row.name for row in gpu_rows() if row.total_bytes > 6 << 30]
    models = [name for name in catalog.ids() if not name.startswith("deepseek-ai/DeepSeek-V")]
    drawn = 0
    while drawn < COUNT:
        width = draw.choice((1, 1, 2, 4))
        gpu = f"{width}x {draw.choice(cards)}"
        kind = draw.random()
        if kind < 0.8:
            layout = f"-tp {width}" if width > 1 and draw.random() < 0.8 else ""
            command = f"vllm serve {draw.choice(models)} {layout} {draw.choice(FLAGS)}"
        elif kind < 0.92:
            model = draw.choice(("Qwen3-32B", "Qwen3-30B-A3B", "gemma-3-27b-it", "Qwen3-8B")) + "-Q4_K_M.gguf"
            command = f"llama-server -m {model} -c {draw.choice((16384, 65536))} -ngl 99"
        else:
            command = f"python -m sglang.launch_server --model-path {draw.choice(models)}"
        try:
            before = plan(command, gpu=gpu)
        except OomphError:
            continue
        if before.ranks and before.verdict.outcome in ("fails", "close"):
            drawn += 1
            yield command, gpu, before


@pytest.mark.parametrize(
    ("command", "gpu", "before"), list(failing()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_one_voice(command: str, gpu: str, before: Plan) -> None:
    advice = before.advice
    assert advice is not None
    table = {row.label: row.judged for row in try_changes(before).rows}
    for fix in advice.fixes:
        engine = before.deployment.engine
        release = fix.change.version or engine.version
        again = parse_command([fix.command], engine=f"{engine.name}=={release}")
        gpus = fix.change.gpus or before.deployment.gpus
        described = [{"name": d.name, "total_bytes": d.total_bytes, "used_bytes": d.used_bytes} for d in gpus]
        after = plan(again, gpu=described, advise=False)
        assert after.verdict.outcome == "fits", f"{fix.change.label}: {fix.command}"
        assert not _in_force(fix.change.flags, before), fix.change.label
        alone = table.get(fix.change.label)
        assert alone is None or alone.effect == "fixes"
    useful = {j.change.label for j in (*advice.fixes, *advice.helps)}
    assert not useful & {j.change.label for j in advice.useless}
    for judged in (*advice.helps, *advice.useless):
        alone = table.get(judged.change.label)
        assert alone is None or alone.effect == judged.effect, judged.change.label


def _in_force(flags: dict[str, object], before: Plan) -> bool:
    """What the change sets is what the engine has already; to take away a flag is a change if it was set."""
    given = before.deployment.flags
    return bool(flags) and all(
        name not in given if value is None else before.resolved.get(name) == value for name, value in flags.items()
    )
