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
from oomph.report.explain_text import command_lines

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
    assert "--max-num-seqs 8" in out


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
        ([str(FIXTURES / "K01.log"), "--gpu", "RTX 9999999"], None),
        ([str(FIXTURES / "K01.log"), "--", "vllm", "serve", "m", "--no-such-flag-at-all"], None),
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
    rows = command_lines(command, 60)
    assert len(rows) > 1 and shlex.split("\n".join(rows).replace("\\\n", " ")) == shlex.split(command)
