"""`oomph plan`, `oomph diff` and the batch as people call them: output, exit codes, one sentence for what is wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from oomph.cli.main import main
from oomph.report.contract.batch import BatchError
from oomph.report.many import answer_case

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def call(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as done:
        main(list(args))
    out, err = capsys.readouterr()
    return int(done.value.code or 0), out, err


def test_fits(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "plan", "--gpu", "H100", "--engine", "vllm==0.21.0", "--", "vllm", "serve", LLAMA)
    assert code == 0
    assert "FITS" in out and "vLLM 0.21.0" in out and "tokens of KV cache" in out
    assert all(len(line) <= 110 for line in out.splitlines())


def test_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "--gpu", "RTX 3060 12GB", "vllm", "serve", LLAMA)
    assert code == 1
    assert "WILL NOT START" in out and "Useless" in out


def test_json_and_the_whole_ledger(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "plan", "--json", "--gpu", "2x H100", "--", "vllm", "serve", LLAMA, "-tp", "2")
    assert code == 0 and len(json.loads(out)["ranks"]) == 2
    code, out, _ = call(capsys, "plan", "--all", "--gpu", "H100", "--", "vllm", "serve", LLAMA)
    assert code == 0 and "Ledger" in out and "kv_alloc" in out


def test_page(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    code, _, _ = call(capsys, "plan", "--html", str(page), "--gpu", "H100", "--", "vllm", "serve", LLAMA)
    text = page.read_text()
    assert code == 0 and text.startswith("<!doctype html>") and "http://" not in text and "<script" not in text


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["plan"], "no command to plan"),
        (["plan", "--gpu", "RTX 5070 Tee", "--", "vllm", "serve", LLAMA], "RTX 5070 Ti"),
        (["plan", "--gpu", "H100", "--given", "kv=1GiB", "--", "vllm", "serve", LLAMA], "available_kv"),
        (["plan", "--gpu", "H100", "--given", "available_kv", "--", "vllm", "serve", LLAMA], "TERM=SIZE"),
        (["plan", "--gpu", "H100", "--", "vllm", "serve", LLAMA, "--max-modle-len", "4096"], "--max-model-len"),
        (["plan", "--batch", "/nowhere/at/all.jsonl"], "/nowhere/at/all.jsonl"),
    ],
)
def test_one_sentence(capsys: pytest.CaptureFixture[str], args: list[str], words: str) -> None:
    code, out, err = call(capsys, *args)
    assert code == 2 and out == ""
    assert err.startswith("oomph: error:") and words in err and "Traceback" not in err


def test_batch(capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> None:
    good = {"id": "a", "gpu": "H100", "engine": "vllm==0.21.0", "args": ["vllm", "serve", LLAMA]}
    pinned = {**good, "id": "b", "given": {"available_kv": "11.54GiB"}, "compile_cache": "warm"}
    wrong = {**good, "id": "c", "args": ["vllm", "serve", LLAMA, "--max-modle-len", "1"]}
    file = tmp_path / "cases.jsonl"
    file.write_text("\n".join([*(json.dumps(c) for c in (good, pinned, wrong)), "{", "[1]", ""]))
    with pytest.raises(SystemExit) as done:
        main(["plan", "--batch", str(file)])
    rows = [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]
    assert done.value.code == 1, "the worst line decides"
    assert [r["id"] for r in rows] == ["a", "b", "c", None, None]
    assert rows[0]["verdict"]["fits"] and rows[1]["kv"]["available_bytes"] == round(11.54 * 2**30)
    assert all("error" in r for r in rows[2:])


@pytest.mark.parametrize(
    "line", [b"null", b'{"args": 3}', b'{"args": ["x"], "gpu": 7}', b'{"args": ["vllm"], "given": [1]}', b"\xff\xfe"]
)
def test_a_broken_case_is_a_line(line: bytes) -> None:
    answer, outcome = answer_case(line)
    assert isinstance(answer, BatchError) and answer.error and answer.kind and outcome == "unread"


def test_diff(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(
        capsys,
        "diff",
        "--gpu",
        "H100",
        "--from",
        "vllm==0.17.1",
        "--to",
        "vllm==0.21.0",
        "--",
        "vllm",
        "serve",
        LLAMA,
        "--swap-space",
        "4",
    )
    assert code == 1
    assert re.search(r"0\.20\.0 +gpu_memory_utilization +0\.9 +0\.92", out)
    assert (
        "does not start" in out
        and "No such flag in vLLM 0.21.0" in out
        and "--swap-space is gone since vLLM 0.18.0" in out
    )
    code, out, _ = call(
        capsys, "diff", "--json", "--gpu", "H100", "--with", "--kv-cache-dtype fp8", "--", "vllm", "serve", LLAMA
    )
    made = json.loads(out)
    assert code == 0 and made["after"]["kv"]["logged_tokens"] > 1.9 * made["before"]["kv"]["logged_tokens"]
