"""Random cases for the rules: observations of the kinds that a rule speaks of, with values out of a small grid, so that
equal sizes and values on a bound are common. A rule looks at a case and nothing else: thousands take seconds."""

from __future__ import annotations

import inspect
import json
import random
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

from oomph.doctor.case import Case
from oomph.doctor.diagnose import explain_case
from oomph.doctor.ledger import Account, Entry
from oomph.doctor.reading.stages import Death
from oomph.doctor.rule import Rule
from oomph.ir.observation import Observation
from oomph.ir.timeline import STAGES
from oomph.logs.deployment import Rebuilt
from oomph.sources.gpu import parse_gpus
from oomph.units import GIB

KINDS = Path(__file__).parent / "toy_kinds.json"
EXAMPLES = Path(__file__).parent / "toy_examples.json"
WORDS = Path(__file__).parent / "toy_words.json"
SIZES = [
    0, 1, GIB // 8, GIB // 4, GIB // 2, GIB, 3 * GIB // 2, 2 * GIB, 3 * GIB, 4 * GIB, 6 * GIB, 8 * GIB, 12 * GIB,
    16 * GIB, 20 * GIB, 24 * GIB, 80 * GIB, 110 * GIB, 120 * GIB, 130 * GIB,
]  # fmt: skip
NUMBERS = [0, 1, 2, 3, 8, 16, 17, 64, 256, 257, 300, 512, 1024, 2048, 4096, 4097, 8192]
SHARES = [0.0, 0.5, 0.8, 0.9, 0.92, 0.95, 0.97, 0.98, 1.0, 5.0, 60.0, 80.0, 97.0]
FLAGS: dict[str, list[Any]] = {
    "tensor_parallel_size": [1, 2, 4], "gpu_memory_utilization": [0.5, 0.9, 0.95, 0.97], "max_model_len": NUMBERS,
    "max_num_seqs": NUMBERS, "max_num_batched_tokens": NUMBERS, "kv_cache_dtype": ["auto", "fp8", "fp8_e5m2"],
    "enforce_eager": [True, False], "speculative_config": [{"method": "mtp"}], "max_loras": [1, 2, 4],
    "max_lora_rank": [8, 16, 64], "enable_lora": [True], "cpu_offload_gb": [0, 1, 4], "quantization": ["fp8", "awq"],
    "mem_fraction_static": [0.8, 0.88, 0.95], "context_length": NUMBERS, "chunked_prefill_size": [-1, 2048, 8192],
    "max_running_requests": [1, 8, 64], "kv_transfer_config": [{"kv_connector": "x"}], "dtype": ["auto", "float16"],
    "max_cudagraph_capture_size": [8, 64], "n_gpu_layers": [0, 20, 99], "ctx_size": NUMBERS, "parallel": [1, 4],
}  # fmt: skip


@cache
def values_by_kind() -> dict[str, dict[str, list[Any]]]:
    """Of each kind that a fixture showed when the cases were first drawn: its values by name."""
    kinds: dict[str, dict[str, list[Any]]] = json.loads(KINDS.read_text())
    return kinds


@cache
def examples() -> dict[str, list[tuple[dict[str, Any], str, str]]]:
    """Of each kind, values, process and text of a few lines (test_toy_deaths.py)."""
    known: dict[str, list[tuple[dict[str, Any], str, str]]] = json.loads(EXAMPLES.read_text(encoding="utf-8"))[
        "examples"
    ]
    return known


@cache
def known_values() -> dict[str, dict[str, list[Any]]]:
    kinds = dict(values_by_kind())
    for kind, lines in examples().items():
        names = {name for values, _, _ in lines for name in values}
        kinds.setdefault(
            kind, {name: [values[name] for values, _, _ in lines if name in values] for name in sorted(names)}
        )
    return kinds


@cache
def every_kind() -> list[str]:
    return sorted(known_values())


@cache
def vocabulary() -> dict[str, tuple[list[str], list[str]]]:
    """Of each rule the kinds and words that its file named when the cases were first drawn: another text of it, or one
    in another file, draws the same cases."""
    known: dict[str, tuple[list[str], list[str]]] = json.loads(WORDS.read_text(encoding="utf-8"))
    return known


@cache
def kinds_of(rule: Rule) -> tuple[str, ...]:
    """The kinds that the rule's file names, or that the row is about of which it is made."""
    if rule.id in vocabulary():
        return tuple(vocabulary()[rule.id][0])
    source = inspect.getsource(sys.modules[rule.match.__module__])
    rows = [cell.cell_contents for cell in getattr(rule.match, "__closure__", None) or ()]
    named = {*re.findall(r'"(\w+)"', source), *(getattr(row, "kind", "") for row in rows)}
    return tuple(sorted(named & known_values().keys()))


@cache
def words_of(rule: Rule) -> tuple[str, ...]:
    """What the rule's file may look for in a text."""
    if rule.id in vocabulary():
        return tuple(vocabulary()[rule.id][1])
    source = inspect.getsource(sys.modules[rule.match.__module__])
    return tuple(sorted(set(re.findall(r'"([^"\n{}]{3,40})"', source))))


def value(draw: random.Random, name: str, seen: list[Any]) -> Any:
    one = draw.choice(seen)
    if isinstance(one, str | bool) or draw.random() < 0.2:
        return one
    if isinstance(one, float):
        return draw.choice(SHARES)
    return draw.choice(SIZES if max(seen) > 1 << 20 else NUMBERS)


def case(rule: Rule, seed: int) -> Case:
    draw = random.Random(f"{rule.id} {seed}")
    own, every = kinds_of(rule), every_kind()
    chosen = [kind for kind in own if draw.random() < 0.5] + draw.sample(every, draw.choice((0, 1, 3)))
    if draw.random() < 0.5:
        chosen.append("torch_oom")
    chosen += draw.sample(chosen, min(len(chosen), draw.choice((0, 0, 2))))
    chosen += draw.choice((0, 0, 0, 2, 3)) * draw.sample(chosen, min(len(chosen), 1))
    observations = [
        Observation(
            line, kind,
            {name: value(draw, name, seen) for name, seen in known_values()[kind].items() if draw.random() < 0.85},
            text=_text(draw, kind, line),
        )
        for line, kind in enumerate(chosen, 1)
    ]  # fmt: skip
    stage = draw.choice((*rule.stages, *rule.stages, *STAGES))
    failed = draw.choice((True, True, True, False, None))
    line = draw.randint(1, len(chosen)) if chosen else 0
    death = Death(
        failed, stage, "message", line, chosen[line - 1] if line else None,
        tuple(_some(draw, words_of(rule))), tuple(_some(draw, words_of(rule))),
        frozenset(chosen[: max(0, line - 1)]),
    )  # fmt: skip
    total = draw.choice((0, 24, 24, 80, 80, 110, 120, 130)) * GIB
    terms = ("weights", "kv", "others", "context", "activation", "graphs", "free", "non_torch", "in_use")
    entries = [Entry(term, draw.choice(SIZES), "a line") for term in terms if draw.random() < 0.5]
    util = draw.choice((0.0, 0.5, 0.9, 0.95, 0.97))
    account = Account(total, tuple(entries), draw.choice((None, 0, GIB, 6 * GIB)), round(total * util), util)
    flags = {name: draw.choice(settings) for name, settings in FLAGS.items() if draw.random() < 0.25}
    engine = draw.choice(sorted(rule.engines))
    release = draw.choice(("0.32.0", "0.9.2", "0.21.0", "0.32.0")) if engine == "vllm" else "0.32.0"
    gpus = parse_gpus(draw.choice(("RTX 4090", "T4", "A100 80GB", "DGX Spark"))) if draw.random() < 0.3 else ()
    rebuilt = Rebuilt(engine=engine, version=release, flags=flags, model="a/model")
    return Case(
        tuple(observations), rebuilt, death, account, gpus,
        kv_heads=draw.choice((0, 1, 2, 4)), text=" ".join(_some(draw, (*words_of(rule), "HIP out of memory", "NPU "))),
    )  # fmt: skip


def _text(draw: random.Random, kind: str, line: int) -> str:
    if kind not in examples() or draw.random() < 0.4:
        return f"{kind} of line {line}"
    return draw.choice(examples()[kind])[2]


def _some(draw: random.Random, words: tuple[str, ...]) -> list[str]:
    return draw.sample(words, min(len(words), draw.choice((0, 0, 1, 3))))


FIGURES = re.compile(r"--[a-z][\w-]+|\d+(?:[.,]\d+)*")


def explained(one: Case) -> Any:
    """What an explanation says, of its sentences only the figures and flags."""
    told = explain_case(one)
    changes = [remedy.change for remedy in told.remedies]
    sentences = (told.cause.text, told.inferred_reason, told.settle, *told.notes)
    return (
        told.engine.name, told.engine.version, told.failed, told.stage, told.stage_basis, told.cause.id,
        told.cause.tier, told.cause.sure, told.inferred_stage,
        [FIGURES.findall(sentence) for sentence in sentences], [line.line for line in told.evidence],
        [(entry.term, entry.bytes) for entry in told.ledger], told.unaccounted_bytes, told.command, told.gpu,
        told.total_bytes,
        [(one.lever, one.kind, one.flags, one.rank, FIGURES.findall(one.label)) for one in changes],
        [rejected.change.lever for rejected in told.rejected], [(other.id, other.tier) for other in told.candidates],
    )  # fmt: skip
