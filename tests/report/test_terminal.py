import io

from hypothesis import given, strategies as st

from oomph.report.answer import Column, Row, Table
from oomph.report.bars import bar
from oomph.report.parts import PARTS
from oomph.report.table import table_lines
from oomph.report.terminal import Style, clean, command_lines, folded, length, title, wrap


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


PAINTED = Style(Terminal())
PAINTED.on = True
PLAIN = Style(io.StringIO())


def test_a_flag_is_never_broken_at_its_hyphens():
    lines = wrap("Useless --gpu-memory-utilization, --kv-cache-dtype: do not move it", 30, "  ", " " * 4)
    assert lines == ["  Useless", "    --gpu-memory-utilization,", "    --kv-cache-dtype: do not", "    move it"]


def test_colours_do_not_count():
    line = f"  {PAINTED.bold('Weights')}  one two three four five"
    assert [length(part) for part in folded(line, 30).split("\n")] == [29, 15]
    assert folded(line, 34) == line


@given(st.lists(st.text("ab-", min_size=1, max_size=12), min_size=1, max_size=20), st.integers(20, 60))
def test_every_word_stays_and_no_line_is_wider(words, width):
    lines = wrap(" ".join(words), width, "  ", "    ")
    assert " ".join(line.strip() for line in lines) == " ".join(words)
    assert all(len(line) <= width for line in lines)


def test_a_title_is_broken_between_its_parts():
    assert title(["a" * 20, "b" * 10, "c" * 30], 40) == [f"  {'a' * 20}   {'b' * 10}", f"  {'c' * 30}"]


def test_names_from_strangers():
    assert "\033" not in clean("a\033[31mb\n\u202ec") and "\n" not in clean("a\nb")


def test_a_bar_is_as_wide_as_it_may_be():
    gib = 1 << 30
    for style in (PLAIN, PAINTED):
        made = bar([("context", gib // 2), ("weights", 15 * gib), ("KV", 5 * gib)], 24 * gib, style, 70)
        assert length(made) == 70 and "weights 15.0" in made and "20.5 of 24.0 GiB" in made
        over = bar([("weights", 30 * gib)], 24 * gib, style, 70)
        assert "!!" in over and "." not in over.partition("]")[0].replace("30.0", "")
    assert len({part.sign for part in PARTS.values()}) >= 6


@given(st.lists(st.integers(0, 1 << 40), min_size=5, max_size=5), st.integers(1 << 30, 1 << 38), st.integers(60, 110))
def test_no_bar_is_wider_than_the_screen(parts, total, width):
    names = ("context", "weights", "activations", "graphs", "KV")
    assert length(bar(list(zip(names, parts, strict=True)), total, PLAIN, width)) <= width


def test_variables_before_a_command_are_torn_and_a_flag_keeps_its_value():
    command = "OLLAMA_NUM_PARALLEL=8 OLLAMA_CONTEXT_LENGTH=8192 ollama run hf.co/owner/model:Q4 --verbose"
    lines = command_lines(command, 50, 4)
    assert all(len(line) <= 50 for line in lines) and lines[0].endswith(" \\")
    assert " ".join(line.strip().removesuffix(" \\") for line in lines) == command
    kept = command_lines("vllm serve m --speculative-config {...} --max-model-len 4096", 40, 4)
    assert [line.strip() for line in kept][1:] == ["--speculative-config {...} \\", "--max-model-len 4096"]


def test_words_that_do_not_fit_beside_their_figures_stand_below_them():
    columns = (Column("free", 8, is_number=True), Column("model", gap="  "), Column("kept", gap=" "))
    rows = (Row(("1", "short", "Q8")), Row(("2", "a-model-of-a-long-name", "Q8")), Row(("3", "x" * 36, "Q8")))
    lines = table_lines(Table("t", columns, rows), PLAIN, 40, everything=True)
    assert lines[1:] == [
        "         1  short Q8", "         2  a-model-of-a-long-name Q8", "         3", f"    {'x' * 36}", "    Q8",
    ]  # fmt: skip
    narrow = table_lines(Table("t", columns, rows[1:2]), PLAIN, 35, everything=True)
    assert narrow[1:] == ["         2  a-model-of-a-long-name", "            Q8"]
