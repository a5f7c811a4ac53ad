import random
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["oomph"]):
    import io

    from oomph.doctor.explain import case_of, explain_case
    from oomph.doctor.rules import rules
    from oomph.logs.parse import ALL
    from oomph.logs.reader import read_stream

    rules()  # imported now, so that they are instrumented too

from common import run

FIXTURES = Path(__file__).parents[1] / "doctor" / "fixtures"
SEEDS = [path.read_bytes() for path in sorted(FIXTURES.glob("*.log"))]
WORDS = [row.needle.encode() for row in ALL]
WORDS += [b"0", b"-1", b"1e9", b"9" * 30, b"GiB", b"0.00 GiB", b"\n", b"{", b"'", b"\x1b["]


def one(data: bytes) -> None:
    result = explain_case(case_of(read_stream(io.BytesIO(data), "a log")))
    result.to_json()
    result.text(everything=True)


def mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """Lines swapped, figures and the engines' own words put in: what is still a log reaches the rules."""
    chance = random.Random(seed)
    if chance.random() < 0.2:
        return bytes(atheris.Mutate(data, max_size))
    lines = data.split(b"\n")
    other = chance.choice(SEEDS).split(b"\n")
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(lines))
        action = chance.random()
        if action < 0.4:
            lines.insert(at, chance.choice(other))
        elif action < 0.6:
            words = lines[at].split(b" ")
            words[chance.randrange(len(words))] = chance.choice(WORDS)
            lines[at] = b" ".join(words)
        elif action < 0.8 and len(lines) > 1:
            del lines[at]
        else:
            lines[at] = lines[at][: chance.randrange(len(lines[at]) + 1)]
    return b"\n".join(lines)[:max_size]


if __name__ == "__main__":
    run(one, SEEDS, mutate)
