"""Inputs made to hurt: each ends quickly, in a deployment or a sentence."""

import time

import pytest

from oomph.commands import parse_command, parse_text
from oomph.errors import OomphError

N = 60_000

TEXTS = {
    "open braces": "vllm serve ${" * (N // 14),
    "open substitutions": "vllm serve " + "$(" * (N // 2),
    "here documents": "x <<a\n" * (N // 6),
    "backslashes": "vllm serve " + "\\ " * (N // 2),
    "continuations": "vllm serve m \\\n" + "--x \\\n" * (N // 6),
    "quotes": "vllm serve " + "'\"" * (N // 2),
    "prompts": "$ " * (N // 2),
    "array": "A=(" + "x " * (N // 2) + "); vllm serve ${A[@]}",
    "doubling": "A=x; " + "A=$A$A; " * 40 + "vllm serve m $A",
    "sum": "vllm serve m --seed $((" + "(" * 90 + "1" + ")" * 90 + "))",
    "nested python": "LLM(" + "dict(a=" * 500 + "1" + ")" * 500 + ")",
    "long python sum": "LLM('m', seed=" + "1+" * 20000 + "1)",
    "python brackets": "LLM(" + "[" * 5000,
    "python power": "LLM('m', seed=9**9**9**9)",
    "python repeat": "LLM('m', tokenizer='x'*10**10)",
    "yaml brackets": "services: " + "[" * 20000,
    "yaml anchors": "services:\n" + "".join(f"  a{i}: &a{i} [{f'*a{i - 1},' * 9}]\n" for i in range(1, 30)),
    "manifest brackets": "apiVersion: v1\nkind: Pod\nspec: " + "{a: " * 3000,
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name):
    start = time.process_time()
    try:
        parse_text(TEXTS[name], engine="0.21.0")
    except OomphError as error:
        assert len(str(error)) < 1000
    assert time.process_time() - start < 12


WORDS = {
    "long flag": ["--" + "x" * N],
    "long value": ["--seed", "9" * N],
    "long human": ["--max-model-len", "9" * N + "k"],
    "many flags": ["--enforce-eager"] * 5000,
    "dotted": ["-cc." + ".".join("a" * 10000), "1"],
    "deep json": ["-cc", '{"a":' * 5000],
    "escaped quotes": ["-cc", '{"a": ' + '\\"' * 30000],
    "long json": ["-cc", '{"a": "' + "x" * 10**6 + '"}'],
    "wide json": ["--hf-overrides", '{"a": [' + "1," * 20000 + "1]}"],
    "json numbers": ["-cc", "{" + "1k" * 30000 + "}"],
    "big exponent": ["--gpu-memory-utilization", "1e" + "9" * 1000],
    "nul": ["--tokenizer", "a\0b"],
    "list": ["--cudagraph-capture-sizes", *map(str, range(5000))],
}


@pytest.mark.parametrize("name", WORDS)
def test_words(name):
    start = time.process_time()
    try:
        parse_command(["vllm", "serve", "m", *WORDS[name]], engine="0.21.0")
    except OomphError as error:
        assert len(str(error)) < 1000 and "\n" not in str(error)
    assert time.process_time() - start < 12


def test_shells_in_shells():
    text = "vllm serve m"
    for _ in range(4):
        text = "sh -c " + repr(text)
    try:
        parse_text(text, name="x.sh", engine="0.21.0")
    except OomphError as error:
        assert str(error)
    with pytest.raises(OomphError, match=r"too deeply|serve command"):
        parse_command(["sudo", *["sh", "-c"] * 20, "vllm serve m"])
