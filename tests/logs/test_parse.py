"""Lines to figures: every line printed from known figures gives them back; real logs keep stage and cause."""

from __future__ import annotations

import json
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from oomph.doctor.explain import explain as full_explain
from oomph.facts.loglines import compiled, convert
from oomph.facts.titles import TITLES
from oomph.logs.clean import lines
from oomph.logs.parse import ALL, engine_of, observe
from oomph.logs.reader import read_text
from oomph.units import GIB, MIB

sys.path.insert(0, str(Path(__file__).parent))
from printed import PRINT, text_of

TRUTH = Path(__file__).parents[1] / "truth"
explain = partial(full_explain, plan=False)  # the rules alone; planning is tested in tests/doctor/test_verify.py
RECORDS = [json.loads(row) for row in (TRUTH / "field-logs.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("record", RECORDS, ids=[r["id"] for r in RECORDS])
def test_figures_come_back(record: dict[str, Any]) -> None:
    found = observe(lines(read_text(text_of(record)).lines))
    for number, entry in enumerate(record["lines"], 1):
        matches = [o for o in found if o.line == number and o.kind == entry["kind"]]
        assert matches, (entry, [o.kind for o in found if o.line == number])
        for name, value in entry["values"].items():
            if entry["kind"] == "ol_offload" and name in ("partial", "allocations", "graph"):
                continue
            got = matches[0].values[name]
            if isinstance(value, int) and value > MIB:
                assert abs(int(got) - value) <= value // 1000 + 6 * MIB, name
            else:
                assert got == pytest.approx(value, abs=0.005) if isinstance(value, float) else got == value, name


@pytest.mark.parametrize("record", RECORDS, ids=[r["id"] for r in RECORDS])
def test_stage_and_cause(record: dict[str, Any]) -> None:
    if record["id"] in UNDECIDABLE:
        pytest.skip("the excerpt does not hold the failure, or what tells its cause")
    result = explain(text_of(record))
    if record["failure"] == "none":
        assert not result.failed
    else:
        assert result.stage == record["failure"]
        if record["causes"]:
            assert result.cause.id in record["causes"]


# no error line at all, or a cause that only the GPU (unified memory) or the command (online quantisation) tells
UNDECIDABLE = {
    "club3090-pr96", "ollama-9791", "vllm-17469", "ollama-10341", "lmstudio-1836", "genesis-1", "backport-34",
    "sparkdocker-237", "sparkdocker-217", "fastchat-3177", "mlperf-2267", "file-58115376923-095", "unsloth-3542",
    "ollama-10739", "vllm-26328", "vllm-16712", "vllm-48140", "vllm-32773", "file-71378483694",
    "file-55529542778",  # ends behind the capture
    "vllm-54764", "club3090-58-diag",  # torch's line alone: that memory ran out, and not what of
    "vllm-15105",  # graphs exist: its warm-up is told from serving by nothing that is left
}  # fmt: skip


def test_every_row_compiles_and_has_its_literal() -> None:
    for row in (*ALL, *TITLES):
        assert row.kind and row.needle
        for pattern in (row.pattern, *row.more):
            re.compile(pattern)
            compiled(pattern)
        assert not (row.since and row.until and row.since == row.until)


@pytest.mark.parametrize(
    ("group", "text", "value", "half"),
    [
        ("x__GiB", "14.2474", round(14.2474 * GIB), int(GIB * 0.0001 / 2)),
        ("x__GiB", "8", 8 * GIB, GIB // 2),
        ("x__MiB", "62.25", round(62.25 * MIB), int(MIB * 0.01 / 2)),
        ("x__size", "758.67 MiB", round(758.67 * MIB), int(MIB * 0.01 / 2)),
        ("x__size", "0 bytes", 0, 0),
        ("x__B", "12917635953", 12917635953, 0),
    ],
)
def test_sizes_know_their_rounding(group: str, text: str, value: int, half: int) -> None:
    assert convert(group, text) == {"x": value, "x_half": half}


def test_numbers() -> None:
    assert convert("n__int", "1,563,739") == {"n": 1563739}
    assert convert("n__float", "0.88.") == {"n": 0.88}
    assert convert("n__int", "x") == {}
    assert convert("name", "text") == {"name": "text"}


def test_own_process_in_a_container() -> None:
    """Without "this process has", the own process is the numbered one that PyTorch's figure fits into."""
    text = (
        "CUDA out of memory. Tried to allocate 1.74 GiB. GPU 1 has a total capacity of 23.57 GiB of which 605.88 MiB is"
        " free. Process 133288 has 22.97 GiB memory in use. Of the allocated memory 20.21 GiB is allocated by "
        "PyTorch, and"
        " 185.98 MiB is reserved by PyTorch but unallocated."
    )
    (oom,) = [o for o in observe(lines(read_text(text).lines)) if o.kind == "torch_oom"]
    assert oom.values["in_use"] == round(22.97 * GIB) and "others" not in oom.values


def test_folded_messages() -> None:
    text = (
        "ValueError: The model's max seq len (32768) is larger than the maximum number of\n"
        "tokens that can be stored in KV cache (2048). Try increasing `gpu_memory_utilization`\n"
        "or decreasing `max_model_len` when initializing the engine.\n"
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
        "GPU 0 has a total capacity of 23.65 GiB of which 1.24 GiB is free.\n"
    )
    found = {o.kind: o.values for o in observe(lines(read_text(text).lines))}
    assert found["kv_need_v0"] == {"max_model_len": 32768, "tokens": 2048}
    assert found["torch_oom"]["total"] == round(23.65 * GIB) and found["torch_oom"]["free"] == round(1.24 * GIB)


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        ("Available KV cache memory: 3.10 GiB", "vllm"),
        ("[2026-01-01 00:00:00 TP0] Load weight end. avail mem=1.0 GB, mem usage=2.0 GB.", "sglang"),
        ("llama_kv_cache:      CUDA0 KV buffer size =  4096.00 MiB", "llamacpp"),
        ('time=2026 level=INFO source=server.go:1 msg="system memory" total="1 GiB" free="1 GiB"', "ollama"),
        ("[TensorRT-LLM] TensorRT-LLM version: 1.1.0", "trtllm"),
        ('  File "/x/site-packages/sglang/srt/server.py", line 3, in main', "sglang"),
        ("hello", ""),
    ],
)
def test_engines(text: str, engine: str) -> None:
    assert engine_of(observe(lines(read_text(text).lines))) == engine


def test_templates_are_for_rows() -> None:
    assert {row.kind for row in ALL} >= set(PRINT)
