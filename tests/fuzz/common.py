# ruff: noqa: E501 - tables of words
"""What the fuzz targets share: run one input, let only our own errors pass, and each of them in one sentence.

    python tests/fuzz/fuzz_gguf.py -max_total_time=60 [a folder of further seeds]

`make fuzz` runs them all, SECONDS=60 each. They need the package atheris. What a target found stays as a seed in its
file, where it is small.
"""

from __future__ import annotations

import copy
import json
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import atheris

from oomph.errors import OomphError

WEIRD: list[Any] = [
    None, True, False, 0, -1, 1, 2, 3, 7, 64, 255, 1 << 31, 1 << 40, 1 << 62, -(1 << 63), 0.5, -0.0, 1e-300, 1e308,
    "", "x", "auto", "bfloat16", "float8_e4m3fn", "re:.*", "\\", "[", "model.layers.0", "full_attention", [], [0], [-1],
    [1, 2, 3], [[]], ["x"], [None], {}, {"x": 1}, {"0": {}}, [{}], "9" * 400, ["re:(" * 9],
]  # fmt: skip


def check(target: Callable[[bytes], object]) -> Callable[[bytes], None]:
    """One input in thirty runs a second time, nested very deep or made very long: beyond what libFuzzer would write."""

    def one(data: bytes) -> None:
        once(data)
        chance = random.Random(data)
        if chance.random() < 1 / 30:
            once(deepened(data, chance))

    def once(data: bytes) -> None:
        try:
            target(data)
        except OomphError as e:
            assert e.message, "a refusal without a sentence"
            assert "\n" not in e.message, e.message
            assert len(e.message) < 1000, e.message
            e.message.encode()  # can be printed

    return one


def run(target: Callable[[bytes], object], seeds: list[bytes], mutate: Callable[..., bytes] | None = None) -> None:
    with tempfile.TemporaryDirectory() as corpus:
        for n, seed in enumerate(seeds):
            Path(corpus, str(n)).write_bytes(seed)
        crashes = f"-artifact_prefix={tempfile.gettempdir()}/"
        options = [sys.argv[0], corpus, "-rss_limit_mb=2048", "-timeout=120", crashes, *sys.argv[1:]]
        atheris.Setup(options, check(target), **({"custom_mutator": mutate} if mutate else {}))
        atheris.Fuzz()


def mutate_json(data: bytes, max_size: int, seed: int) -> bytes:
    """Changes values, not letters: what is still JSON reaches the code behind the parser."""
    chance = random.Random(seed)
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return atheris.Mutate(data, max_size)
    if not isinstance(value, dict) or not value or chance.random() < 0.05:
        return atheris.Mutate(data, max_size)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        _change(value, chance)
    return json.dumps(value).encode()[:max_size]


def mutate_text(data: bytes, max_size: int, seed: int) -> bytes:
    """Words and lines moved, doubled and replaced: what is still nearly a command reaches the code behind the reader."""
    chance = random.Random(seed)
    if chance.random() < 0.2:
        return bytes(atheris.Mutate(data, max_size))
    lines = data.split(b"\n")
    for _ in range(chance.choice((1, 1, 2, 5))):
        at, action = chance.randrange(len(lines)), chance.random()
        if action < 0.2:
            lines.insert(at, chance.choice(lines))
        elif action < 0.3 and len(lines) > 1:
            del lines[at]
        else:
            words = lines[at].split(b" ")
            place = chance.randrange(len(words))
            words[place] = chance.choice(WORDS) if action < 0.7 else words[place] + chance.choice(WORDS)
            lines[at] = b" ".join(words)
    return b"\n".join(lines)[:max_size]


# What opens a level and what closes it, in every language that a reader knows; the last rows chain without closing.
NESTS = (
    (b"[", b"]"), (b"{", b"}"), (b'{"a":', b"}"), (b"(", b")"), (b"[[],", b"]"), (b"$(", b")"), (b"${A:-", b"}"), (b"$((", b"))"), (b"`", b"`"),
    (b"{{", b"}}"), (b"{% if a %}", b"{% endif %}"), (b'"', b'"'), (b"if a; then ", b"; fi"), (b"for x in a; do ", b"; done"), (b"- ", b""),
    (b"? ", b""), (b"a: ", b""), (b"not ", b""), (b"-", b""), (b"f(", b")"), (b"lambda:", b""), (b"1+", b""), (b".a", b""), (b"!!python ", b""),
    (b"&a [*a,", b"]"), (b"bash -c '", b"'"), (b"> ", b""), (b"\\", b""), (b"ifdef A\n", b"endif\n"), (b"([{", b"}])"),
)  # fmt: skip


def deepened(data: bytes, chance: random.Random) -> bytes:
    """One place nested very deep, or made very long."""
    at, count = chance.randrange(len(data) + 1), chance.choice((65, 300, 1100, 5000, 40_000))
    if chance.random() < 0.3:  # size: a word, a line or the whole again and again
        part = chance.choice((data[at : at + 20], data[at:].split(b"\n")[0], b"x", b"9", b" ", b"\n", data))
        return data[:at] + part * min(count, (1 << 18) // max(1, len(part))) + data[at:]
    opening, closing = chance.choice(NESTS)
    levels = opening * count, closing * chance.choice((count, count, 0))
    if chance.random() < 0.3:  # block nesting: each line further in
        levels = b"".join(b" " * n + b"a:\n" for n in range(min(count, 1100))), b""
    return data[:at] + levels[0] + levels[1] + data[at:]


WORDS = (
    b"--model", b"-tp", b"--config", b"--hf-overrides", b"{", b"}", b'{"a":', b"[", b"'", b'"', b"\\", b"$", b"${A:-", b"$(", b"`", b"$((", b"))",
    b"8k", b"-1", b"1e9", b"9" * 30, b"*a", b"&a", b"<<: *a", b": |", b"- ", b"\t", b"|", b"&&", b";", b"for x in", b"done", b"<<EOF", b"EOF", b"$(A0)",
    b"A0=$(A0)$(A0)", b"\x1b[2J", b"\xe2\x80\xae", b"\xff", b"vllm", b"serve", b"docker", b"run", b"-e", b"=", b"#",
)  # fmt: skip


def _change(value: dict[str, Any], chance: random.Random) -> None:
    place: Any = value
    while True:
        if not place:
            return
        key = chance.choice(list(place)) if isinstance(place, dict) else chance.randrange(len(place))
        inner = place[key]
        if isinstance(inner, (dict, list)) and inner and chance.random() < 0.7:
            place = inner
            continue
        action = chance.random()
        if action < 0.15:
            del place[key]
        elif action < 0.3 and type(inner) is int:
            place[key] = inner * chance.choice((2, 3, -1, 1000)) + chance.choice((0, 1))
        elif action < 0.4:
            place[key] = [inner]
        else:
            place[key] = copy.deepcopy(chance.choice(WEIRD))
        return
