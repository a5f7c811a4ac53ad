from shlex import quote as shell_quote

import pytest
from hypothesis import given, strategies as st

from oomph.commands import parse_text
from oomph.commands.call import assignment, quote
from oomph.commands.pasted import plain
from oomph.commands.shell import commands
from oomph.errors import CommandError


def words(text, **environment):
    return [list(command.words) for command in commands(text, environment)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b  c", [["a", "b", "c"]]),
        ("a \\\n  b", [["a", "b"]]),
        ("a \\  \n  b", [["a", "b"]]),  # a space behind the backslash, as forums add it
        ("a b # c\nd", [["a", "b"], ["d"]]),
        ("a #b\\\nc", [["a"], ["c"]]),
        ("a 'b c' \"d e\" f\\ g", [["a", "b c", "d e", "f g"]]),
        ('a \'{"x": "y z"}\'', [["a", '{"x": "y z"}']]),
        ('a "{\\"x\\": 1}"', [["a", '{"x": 1}']]),
        ("a; b && c | d & e", [["a"], ["b"], ["c"], ["d"], ["e"]]),
        ("a > log 2>&1 < in b", [["a", "b"]]),
        ("a &> log", [["a"]]),
        ("X=1; a $X ${X} \"$X\" '$X'", [["a", "1", "1", "1", "$X"]]),
        ("A='1 2'; a $A \"$A\"", [["a", "1", "2", "1 2"]]),
        ("a ${N:-5} ${N-x}", [["a", "5", "x"]]),
        ("A=(1 '2 3' # no\n 4); A+=(5); a \"${A[@]}\"", [["a", "1", "2 3", "4", "5"]]),
        ("A=1; A+=2; a $A", [["a", "12"]]),
        ("a $NOBODY", [["a", "$NOBODY"]]),
        ("a $(b c) `d`", [["a", "$(b c)", "`d`"]]),
        ("N=2; a $((1950 * 1310720)) $(( (1 + $N) * N - 7/2 ))", [["a", "2555904000", "3"]]),
        ("a $((1 +)) $((x ** 2))", [["a", "$((1 +))", "$((x ** 2))"]]),
        ("cat <<EOF > f\nx y\nEOF\na", [["cat"], ["a"]]),
        ("a ''", [["a", ""]]),
        ("$ a b\n> c", [["a", "b"]]),
        ("(venv) me@box:~$ a b", [["a", "b"]]),
        ("```bash\na b\n```", [["a", "b"]]),
        ("a x\n  --b 1\n  --c", [["a", "x", "--b", "1", "--c"]]),  # the backslashes were lost
        ("a ^\n b `\n c", [["a", "b", "c"]]),
        ("a “b c” ‘d’ —long-flag –tp 2", [["a", "b c", "d", "--long-flag", "-tp", "2"]]),
    ],
)
def test_words(text, expected):
    assert words(text) == expected


def test_exports_and_prefixes():
    found = commands("export A=1 B=2\nC=3\nD=4 x\nunset\n", {"E": "5"})
    assert found[0].environment == {"A": "1", "B": "2", "D": "4", "E": "5"}
    assert "C" not in found[1].environment


def test_variables_nobody_set():
    assert commands("a $X ${Y}")[0].unset == ("X", "Y")
    assert commands("a $(x)")[0].run


@pytest.mark.parametrize("text", ["a 'b", 'a "b', 'x="${"'])
def test_quotes_that_do_not_close(text):
    try:
        commands(text)
    except CommandError as error:
        assert "not closed" in str(error)


SCRIPT = r"""#!/bin/bash
# start the server
set -euo pipefail
export CUDA_VISIBLE_DEVICES=0,1
MODEL=${MODEL:-Qwen/Qwen3-8B}
ARGS=(--max-model-len 32k
      --limit-mm-per-prompt '{"image": 0}')
mkdir -p logs
if [ -n "$X" ]; then echo "it's on"; fi
VLLM_USE_V2_MODEL_RUNNER=1 exec vllm serve "$MODEL" \
    --port "${PORT:-8000}" \
    -tp 2 "${ARGS[@]}" "$@" 2>&1 | tee logs/server.log
"""


def test_a_script():
    (d,) = parse_text(SCRIPT, engine="0.21.0").values()
    assert d.model == "Qwen/Qwen3-8B"
    assert d.flags == {
        "port": 8000,
        "tensor_parallel_size": 2,
        "max_model_len": 32000,
        "limit_mm_per_prompt": {"image": 0},
    }
    assert d.environment == {"CUDA_VISIBLE_DEVICES": "0,1", "VLLM_USE_V2_MODEL_RUNNER": "1"}
    assert d.gpu_count == 2


def test_a_systemd_unit():
    text = """[Unit]
Description=vllm serve for all
[Service]
Environment="CUDA_VISIBLE_DEVICES=0,1" VLLM_KV_CACHE_LAYOUT=HND
ExecStart=-/opt/venv/bin/vllm serve org/m \\
    -tp 2
Restart=always
"""
    (d,) = parse_text(text, name="vllm.service", engine="0.21.0").values()
    assert (d.model, d.flags) == ("org/m", {"tensor_parallel_size": 2})
    assert d.environment == {"CUDA_VISIBLE_DEVICES": "0,1", "VLLM_KV_CACHE_LAYOUT": "HND"}


def test_a_post_with_prose_around_the_command():
    text = (
        "Here’s what I run:\n\nvllm serve org/m \\\n  —max-model-len 8192 \\\n"
        "  --limit-mm-per-prompt ‘{“image”: 0}’\n\nand it doesn't start"
    )
    (d,) = parse_text(text, engine="0.21.0").values()
    assert d.flags == {"max_model_len": 8192, "limit_mm_per_prompt": {"image": 0}}
    assert "curly quotes" in d.notes[0]


def test_a_model_that_nobody_names():
    with pytest.raises(CommandError, match=r"the model is '\$MODEL'"):
        parse_text("vllm serve $MODEL -tp 2", engine="0.21.0")


def test_a_secret_from_elsewhere_does_not_stop_the_plan():
    (d,) = parse_text("vllm serve org/m --api-key $API_KEY", engine="0.21.0").values()
    assert d.flags == {"api_key": ["$API_KEY"]} and "$API_KEY is set nowhere" in d.notes[0]


def test_two_servers_in_a_script():
    found = parse_text("vllm serve a/m --port 8000 &\nvllm serve b/m --port 8001 &\nwait", engine="0.21.0")
    assert [d.model for d in found.values()] == ["a/m", "b/m"]


@given(st.lists(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0\r"), max_size=12), min_size=1))
def test_a_quoted_command_is_read_back(line):
    kept = [word for word in line if plain(word) == word and "=" not in word]
    if kept and kept[0] not in ("export", "declare", "local", "readonly", "typeset", "set"):
        (command,) = commands(" ".join(quote(word) for word in ["x", *kept]))
        assert list(command.words) == ["x", *kept]


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text):
    try:
        commands(text)
    except CommandError as error:
        assert str(error)


@given(st.text("ab $\"'\\`(){}<>&|;#\n-=@[]*:", max_size=60))
def test_any_punctuation_is_read_or_refused(text):
    try:
        commands(text)
    except CommandError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("${M##*/}", "Qwen3-8B.Q4.gguf"),
        ("${M#*/}", "b/Qwen3-8B.Q4.gguf"),
        ("${M%.*}", "a/b/Qwen3-8B.Q4"),
        ("${M%%.*}", "a/b/Qwen3-8B"),
        ("${M%.bin}", "a/b/Qwen3-8B.Q4.gguf"),
        ("${M/b/c}", "a/c/Qwen3-8B.Q4.gguf"),
        ("${M,,}", "a/b/qwen3-8b.q4.gguf"),
    ],
)
def test_a_variable_may_be_edited(expression: str, value: str) -> None:
    from oomph.commands import shell

    assert shell.commands(f"M=a/b/Qwen3-8B.Q4.gguf\nx {expression}")[0].words == ("x", value)


@given(st.text(max_size=12))
def test_plain_words_are_quoted_as_shlex_quotes_them(text: str) -> None:
    for word in (text, f"--flag={text}", f"a/b.c-{text}"):
        assert quote(word) == shell_quote(word) or assignment(word)


def test_an_empty_value_keeps_its_quotes() -> None:
    assert quote("NAME=") == "NAME=''" and quote("NAME=1") == "NAME=1"
