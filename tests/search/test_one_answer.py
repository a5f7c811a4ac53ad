"""One deployment, one answer: what fit prints for an engine is the row that compare has of it, met or not, and a plan's
advice keeps the context that was asked for exactly where fit finds it.

Drawn questions of every engine; OOMPH_ONE_ANSWER=60 asks as many, OOMPH_ONE_ANSWER_FROM=N others.
"""

from __future__ import annotations

import os
import random

import pytest
from regret import MACHINES, MODELS

from oomph.answers.compare import compare
from oomph.answers.plan import plan
from oomph.commands import parse_command
from oomph.errors import OomphError
from oomph.ir.objective import READING
from oomph.search.fit import fit
from oomph.search.request import Want

COUNT = int(os.environ.get("OOMPH_ONE_ANSWER", "6"))
FROM = int(os.environ.get("OOMPH_ONE_ANSWER_FROM", "0"))
ENGINES = ("vllm", "sglang", "trtllm", "llamacpp")


@pytest.mark.parametrize("seed", range(FROM, FROM + COUNT))
def test_fit_and_a_row_of_compare_are_one_answer(seed: int) -> None:
    rng = random.Random(f"one answer {seed}")
    model, gpu, engine = rng.choice(MODELS), rng.choice(MACHINES), ENGINES[seed % len(ENGINES)]
    context, users = rng.choice((4096, 8192, 16384, 32768)), rng.choice((0, 0, 4, 32, 100))
    print(f"oomph fit {model} --gpu {gpu!r} --engine {engine} --context {context} --users {users}")
    row = compare(model, gpu=gpu, context=context, users=users or 1, engines=(engine,)).rows[0]
    try:
        answer = fit(model, gpu, Want(context, users), engine=engine)
    except OomphError:
        assert not row.fits
        return
    assert row.fits is answer.met
    if answer.pick is None or (not answer.met and engine == "llamacpp"):
        return
    assert row.command == answer.pick.command and row.checkpoint == answer.pick.plan.model
    if answer.met:
        assert plan(parse_command(row.command.split()), gpu=gpu, advise=False).verdict.outcome == "fits"


SERVE = {
    "vllm": "vllm serve {} --max-model-len {} -tp {}",
    "sglang": "python -m sglang.launch_server --model-path {} --context-length {} --tp-size {}",
    "trtllm": "trtllm-serve {} --max_seq_len {} --tp_size {}",
}


@pytest.mark.parametrize("seed", range(FROM, FROM + COUNT))
def test_advice_keeps_the_context_that_fit_serves(seed: int) -> None:
    """On the GPUs that are there, by flags, a layout or another checkpoint; slower than people read counts for none."""
    rng = random.Random(f"advice {seed}")
    engine = (*SERVE,)[seed % 3]
    while True:
        model, gpu, context = rng.choice(MODELS), rng.choice(MACHINES), rng.choice((8192, 16384, 32768))
        width = int(gpu.partition("x ")[0]) if "x " in gpu else 1
        command = SERVE[engine].format(model, context, width)
        try:
            before = plan(command, gpu=gpu)
        except OomphError:
            continue
        if before.verdict.outcome == "fails" and before.ranks:
            break
    print(f"oomph plan --gpu {gpu!r} -- {command}")
    assert before.advice is not None
    here = [fix for fix in before.advice.fixes if not fix.change.gpus]
    keeping = [fix for fix in here if not {"max_model_len", "context_length", "max_seq_len"} & fix.change.flags.keys()]
    answer = fit(model, gpu, Want(context), engine=engine, headless=True)
    reads = answer.pick is None or answer.pick.speed is None or answer.pick.speed.one_user >= READING
    if answer.met and reads:
        assert keeping, f"fit: {answer.pick.command if answer.pick else None}"
    elif not answer.met and not answer.close:
        assert not [fix for fix in keeping if fix.change.kind != "offload"]
