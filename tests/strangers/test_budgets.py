"""Every reader has a budget: what a stranger sends ends soon, in one sentence."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from oomph.commands import parse_command
from oomph.doctor.explain import explain
from oomph.errors import CommandError, OomphError


def test_variables_of_a_makefile_do_not_grow_without_end(tmp_path: Path) -> None:
    doubled = "\n".join(f"A{n + 1}={f'$(A{n})' * 8}" for n in range(11))
    (tmp_path / "Makefile").write_text(f"A0=x\n{doubled}\nserve:\n\tvllm serve Qwen/Qwen3-8B --seed $(A11)\n")
    begin = time.process_time()
    with pytest.raises(CommandError, match="grow without end"):
        parse_command([str(tmp_path / "Makefile")])
    assert time.process_time() - begin < 2


def test_comments_of_a_makefile_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("M = Qwen/Qwen3-8B  # the model\nserve : dep\n\tvllm serve $(M)\n")
    assert parse_command([str(tmp_path / "Makefile")]).model == "Qwen/Qwen3-8B"


def test_a_line_of_digits_is_read_in_time() -> None:
    line = "Free memory on device (1.0/2.0 GiB) on startup. " + "1." * 120_000
    begin = time.process_time()
    try:
        explain(line + "\n")
    except OomphError as refused:
        assert "\n" not in refused.message
    assert time.process_time() - begin < 5
