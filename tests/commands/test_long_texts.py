"""Texts that are long rather than clever: a stray backtick, a word without an end, thousands of empty lines."""

from __future__ import annotations

import time

import pytest

from oomph.commands import parse_text
from oomph.commands.pasted import inline_code
from oomph.errors import OomphError

LINES = "".join(f"  --flag{number} {number} \\\n" for number in range(40))


def test_a_stray_backtick_before_a_long_command_takes_no_time() -> None:
    begin = time.thread_time()
    assert inline_code(f"see ` there\nvllm serve m/m \\\n{LINES}\n\nend") == []
    assert inline_code(f"`vllm serve m/m \\\n{LINES}`")[0].startswith("vllm serve m/m")
    assert time.thread_time() - begin < 3


@pytest.mark.parametrize("text", ["run '" + "x" * 400_000, "<<: run '\n" + "\n" * 40_000, "`" + "a \\\n" * 4000])
def test_what_is_long_is_read_or_refused_in_time(text: str) -> None:
    begin = time.thread_time()
    with pytest.raises(OomphError) as error:
        parse_text(text)
    assert "\n" not in error.value.message
    assert time.thread_time() - begin < 12
