"""`oomph explain`: files, standard input, JSON, what is given beside the log, and refusals in one sentence."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from test_explain import GEMMA, QWEN

from oomph.cli.main import main
from oomph.report.terminal import command_lines

FIXTURES = Path(__file__).parent / "fixtures"


class Program(click.Command):
    """The whole command line: a refusal is worded and numbered in main()."""

    def main(self, args: Sequence[str] | None = None, **options: object) -> None:  # type: ignore[override]
        main(["explain", *(args or ())])


def run(*args: str, stdin: bytes | str | None = None) -> tuple[int, str, str]:
    result = CliRunner().invoke(Program("oomph"), list(args), input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def test_json_from_standard_input() -> None:
    code, out, _ = run("--json", "--no-plan", "-", stdin=GEMMA)
    built = json.loads(out)
    assert code == 0 and built["schema"] == 1
    assert (built["stage"], built["cause"]["id"], built["failed"]) == ("weights_load", "L02", True)


def test_no_file_is_standard_input() -> None:
    assert json.loads(run("--json", "--no-plan", stdin=QWEN)[1])["cause"]["id"] == "P05"


def test_report_fits_the_screen() -> None:
    code, out, _ = run("-", stdin=QWEN)
    assert code == 0 and "FAILED" in out and "Works" in out and "Useless" in out
    assert max(len(line) for line in out.splitlines()) <= 110
    assert "--max-num-seqs" in out


def test_gzip_and_several_files(tmp_path: Path) -> None:
    first, second = tmp_path / "a.log", tmp_path / "b.log.gz"
    first.write_text("INFO starting\n")
    second.write_bytes(gzip.compress(QWEN.encode()))
    assert json.loads(run("--json", "--no-plan", str(first), str(second))[1])["cause"]["id"] == "P05"


def test_what_the_log_does_not_say() -> None:
    log = str(FIXTURES / "K01.log")
    code, out, _ = run(
        "--json", log, "--gpu", "H100", "--", "vllm", "serve", "openai/gpt-oss-120b", "--max-num-seqs", "64"
    )
    built = json.loads(out)
    assert code == 0 and built["total_bytes"] > 70 << 30
    assert "--max-num-seqs 64" in built["command"] and built["model"] == "openai/gpt-oss-120b"


def test_rule_pages() -> None:
    code, out, _ = run("--rule", "p05")
    assert code == 0 and out.startswith("P05: ")
    assert run("--rule", "zz")[0] == 2


@pytest.mark.parametrize(
    ("args", "stdin"),
    [
        (["missing.log"], None),
        (["-"], b"hello\n"),
        (["-"], b""),
        (["-"], bytes(range(256)) * 400),
        ([str(FIXTURES)], None),
    ],
)
def test_refusals_are_one_sentence(args: list[str], stdin: bytes | None) -> None:
    code, out, err = run(*args, stdin=stdin)
    assert code == 2 and not out
    assert err.startswith("oomph: ") and "Traceback" not in err and len(err.splitlines()) <= 3


def test_commands_can_be_pasted() -> None:
    import shlex

    command = (
        'vllm serve a/b --speculative-config \'{"method": "mtp", "n": 2}\' --max-model-len 16384 --kv-cache-dtype fp8'
    )
    rows = command_lines(command, 60, 0)
    assert len(rows) > 1 and shlex.split("\n".join(rows).replace("\\\n", " ")) == shlex.split(command)


@pytest.mark.parametrize(
    "more",
    [
        ["--gpu", "RTX 9999999"],
        ["--gpu", "A100"],
        ["--gpu", "Radeon RX 7900 XTX gfx1100"],
        ["--gpu", "Ascend 910B 64GB"],
        ["--engine", "no such engine 7"],
        ["--", "vllm", "serve", "m", "--no-such-flag-at-all"],
        ["--", "vllm", "serve", "m", "--swap-space", "4", "--num-scheduler-steps", "8"],
        ["--", "python", "-m", "sglang.launch_server", "--model-path", "m", "--mem-fraction-static", "0.8"],
        ["--", "trtllm-serve", "m", "--max_num_tokens", "8192"],
        ["--", "hello", "world"],
    ],
)
def test_telling_it_more_never_makes_it_refuse(more: list[str]) -> None:
    log = str(FIXTURES / "K01.log")
    alone = json.loads(run("--json", "--no-plan", log)[1])
    code, out, err = run("--json", "--no-plan", log, *more)
    told = json.loads(out)
    assert code == 0 and not err
    assert (told["failed"], told["stage"], told["cause"]["id"]) == (
        alone["failed"],
        alone["stage"],
        alone["cause"]["id"],
    )


def test_a_file_that_cannot_be_read_beside_one_that_can_is_a_note() -> None:
    built = json.loads(run("--json", "--no-plan", str(FIXTURES / "K01.log"), "missing.log")[1])
    assert built["cause"]["id"] == "K01" and any("missing.log" in note for note in built["notes"])


def test_json_is_an_object_also_where_nothing_can_be_said() -> None:
    code, out, _ = run("--json", "-", stdin=b"hello\n")
    built = json.loads(out)
    assert code == 2 and built["schema"] == 1 and built["failed"] is None and built["error"]["message"]


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0.",
        "triton.compiler.errors.CompilationError: type fp8e4nv not supported in this architecture",
        "(raylet) 1 Workers (tasks / actors) killed due to memory pressure (OOM)",
        "OSError: [Errno 98] address already in use",
        "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 60.97 GiB total capacity; 1 GiB free)",
    ],
)
def test_a_paste_of_one_line_is_a_log(line: str) -> None:
    built = json.loads(run("--json", "-", stdin=line + "\n")[1])
    assert built["failed"] is True and built["cause"]["id"] not in ("unknown", "none")
