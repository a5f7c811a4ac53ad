"""What an attack on oomph found, tried again: files, names, sizes, commands to a runner (see also test_nesting and
test_redaction_corpus)."""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from pathlib import Path

import pytest

from calling import call
from oomph import diff
from oomph.commands import parse_command
from oomph.errors import CommandError
from oomph.logs.reader import LONGEST, read_paths, read_text
from oomph.text.printable import encodable, without_commands

ROOT = Path(__file__).parents[2]
SERVE = "vllm serve Qwen/Qwen3-0.6B\n"
COMPOSE = """services:
  "::stop-commands::pwned":
    image: vllm/vllm-openai:v0.21.0
    command: --model Qwen/Qwen3-32B
  "a##[error]b":
    image: vllm/vllm-openai:v0.21.0
    command: --model Qwen/Qwen3-32B
"""
FORMATS = ("text", "json", "junit", "sarif", "github")


def test_the_hooks_files_are_no_options(tmp_path: Path) -> None:
    entry = re.search(r"^  entry: (.*)$", (ROOT / ".pre-commit-hooks.yaml").read_text(), re.MULTILINE)
    assert entry is not None and entry[1].endswith(" --")
    (tmp_path / "--output=src").mkdir()
    (tmp_path / "src").mkdir()
    for name in ("--output=src/main.py", "--json.sh"):
        (tmp_path / name).write_text(SERVE)
    (tmp_path / "src" / "main.py").write_text("kept\n")
    words = [*shlex.split(entry[1])[1:], "--output=src/main.py", "--json.sh"]
    answer = call(*words[:1], "--gpu", "H100", *words[1:], folder=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert (tmp_path / "src" / "main.py").read_text() == "kept\n"


@pytest.mark.parametrize("form", FORMATS)
def test_odd_names_and_commands_to_a_runner(tmp_path: Path, form: str) -> None:
    folder = os.fsencode(tmp_path)
    try:
        with open(os.path.join(folder, b"bad\xff.sh"), "w") as file:
            file.write("vllm serve Qwen/Qwen3-32B\n")
    except OSError:
        pytest.skip("this system has no such names")
    with open(os.path.join(folder, b"broken\xff.yaml"), "w") as file:
        file.write("image: vllm/vllm-openai\nx: [\n")
    (tmp_path / "compose.yaml").write_text(COMPOSE)
    written = tmp_path.parent / f"out.{form}"
    words = ["check", "--gpu", "RTX 4090", "--format", form]
    for answer in (call(*words, ".", folder=tmp_path), call(*words, "--output", str(written), ".", folder=tmp_path)):
        assert answer.returncode == 2 or answer.returncode == 1, answer.stderr
        assert "bug" not in answer.stderr
    printed = call(*words, ".", folder=tmp_path).stdout
    for text in (printed, written.read_text()):
        assert "##[" not in text
        own = [line for line in text.splitlines() if line.lstrip().startswith("::")]
        assert all(re.match(r"::(?:error|warning) file=[^:]*,line=\d+,title=", line) for line in own)
        assert bool(own) == (form == "github")
        text.encode()


def test_lines_that_a_runner_obeys_are_broken() -> None:
    assert without_commands("  ::set-env::x\nstd::bad_alloc ::\na ##[add-mask]x") == (
        "  : :set-env::x\nstd::bad_alloc ::\na ## [add-mask]x"
    )
    assert encodable("bad\udcff.sh") == "bad\N{REPLACEMENT CHARACTER}.sh"
    answer = call("inspect", "::stop-commands::x")
    assert not any(line.lstrip().startswith("::") for line in (answer.stdout + answer.stderr).splitlines())


def test_equal_commands_are_planned_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a text of thousands of them is looked at once: 15,000 took more than a minute, and take 3 s."""
    from oomph.answers import check

    plans: list[object] = []
    once = check.plan
    monkeypatch.setattr(check, "plan", lambda *words, **more: plans.append(words) or once(*words, **more))
    (tmp_path / "many.sh").write_text(SERVE * 1000 + SERVE.replace("0.6B", "1.7B"))
    answer = call("check", "--gpu", "H100", str(tmp_path / "many.sh"))
    assert "1001 deployments: all fit" in answer.stdout
    assert len(plans) == 2


def test_links_that_leave_the_tree_are_not_read(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tmp_path / "outside.yaml").write_text(COMPOSE.replace("::stop-commands::pwned", "secretservice"))
    (tree / "serve.sh").write_text(SERVE)
    (tree / "link.yaml").symlink_to(tmp_path / "outside.yaml")
    answer = call("check", "--gpu", "H100", ".", folder=tree)
    assert "1 deployment: it fits" in answer.stdout and "secretservice" not in answer.stdout
    named = call("check", "--gpu", "H100", "link.yaml", folder=tree)
    assert "secretservice" in named.stdout  # who names it means it


def test_too_many_files_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from oomph.commands import repository

    monkeypatch.setattr(repository, "_MOST_FILES", 3)
    for number in range(5):
        (tmp_path / f"{number}.py").write_text("vllm\n")
    assert "--exclude" in call("check", "--gpu", "H100", str(tmp_path)).stderr


@pytest.mark.parametrize(
    "flags",
    [
        "vllm serve Qwen/Qwen3-0.6B --cpu-offload-gb 1e308",
        "vllm serve Qwen/Qwen3-0.6B --swap-space 1e300",
        'vllm serve Qwen/Qwen3-0.6B --hf-overrides {"max_position_embeddings":' + "9" * 40 + "}",
        "python -m sglang.launch_server --model-path Qwen/Qwen3-0.6B --cpu-offload-gb 1" + "0" * 40,
        "python -m sglang.launch_server --model-path Qwen/Qwen3-0.6B --max-total-tokens 9" + "9" * 40,
        "trtllm-serve Qwen/Qwen3-0.6B --max_num_tokens 9" + "9" * 40,
        "llama-server -hf unsloth/Qwen3-0.6B-GGUF:Q4_K_M -c 9" + "9" * 40,
    ],
)
def test_numbers_are_bounded_where_they_are_read(flags: str) -> None:
    answer = call("plan", "--gpu", "H100", "--", *flags.split())
    assert answer.returncode in (1, 2, 3), (answer.returncode, answer.stdout)
    assert "bug in oomph" not in answer.stderr and "inf" not in answer.stdout


def test_an_endless_number_in_a_log_is_cut() -> None:
    log = read_text(f"(EngineCore pid={'9' * 40_000}) out of memory\n")
    assert "9" * 41 not in log.lines[0].text


def test_the_end_of_a_very_long_line_is_read(tmp_path: Path) -> None:
    end = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB."
    (tmp_path / "a.log").write_text(
        "first\n" + "x" * (LONGEST * 9) + end + "\nlast\n" + "y" * (LONGEST * 5) + " the end"
    )
    log = read_paths([str(tmp_path / "a.log")])
    assert [line.text[-len(end) :] for line in log.lines if end in line.text] == [end]
    assert log.lines[-1].text.endswith("the end")
    assert log.total_lines == 4 and [line.number for line in log.lines if line.text == "last"] == [3]


def test_a_log_has_the_lines_that_it_has(tmp_path: Path) -> None:
    for text, lines in (("a\nb\n", 2), ("a\nb", 2), ("a\n\n", 2), ("a", 1)):
        (tmp_path / "a.log").write_text(text)
        assert read_paths([str(tmp_path / "a.log")]).total_lines == lines, repr(text)


def test_the_page_sends_nobody_elsewhere() -> None:
    from oomph.web.guard import _place

    for path in ("//evil.com/", "/\\evil.com", "///evil.com", "\\\\evil.com"):
        place = _place(path).decode()
        assert place.startswith("/") and not place.startswith(("//", "/\\")), place
    assert _place("/fit") == b"/fit" and b"\n" not in _place("/a\r\nset-cookie: x")


def test_short_commands_are_read_as_before() -> None:
    assert parse_command(SERVE.split()).model == "Qwen/Qwen3-0.6B"
    assert json.loads(call("plan", "--json", "--gpu", "H100", "--", *SERVE.split()).stdout)["verdict"]["fits"]


def test_a_word_of_a_megabyte_is_not_split() -> None:
    """shlex takes the square of its length; the fuzzer waited three minutes."""
    began = time.process_time()
    with pytest.raises(CommandError, match="131,072"):
        diff(["vllm", "serve", "Qwen/Qwen3-8B"], gpu="H100", flags="x" * (1 << 20))
    assert time.process_time() - began < 8
