"""The stage of an exception by its words alone: which functions of the engines' sources raise such a message.

raised.json holds hashes of groups of words, written by tools/raised_messages.py from the sources of vLLM (0.4.2, 0.6.6,
0.8.5, 0.11.0, 0.15.0, 0.19.0, 0.21.0, 0.25.0, 0.28.0, 0.32.0) and of SGLang (0.4.1, 0.4.6, 0.5.2, 0.5.9, 0.5.15,
0.5.23); a group is there only if functions of one stage alone use it.
"""

import base64
import json
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from oomph.doctor.reading.meanings import ORDER
from oomph.ir import StageName

GROUP = 5  # words
LONGEST = 300  # words of a line that are looked at
_WORD = re.compile(r"[A-Za-z_][A-Za-z_']{1,60}")


def words(text: str) -> list[str]:
    return _WORD.findall(text)


def hashed(group: Sequence[str]) -> int:
    return zlib.crc32(" ".join(group).encode())


@cache
def _stages() -> dict[int, StageName]:
    packed = json.loads(files("oomph.doctor.reading").joinpath("raised.json").read_text(encoding="utf-8"))
    stages: dict[int, StageName] = {}
    for name, text in packed.items():
        stage = next(stage for stage in ORDER if stage == name)
        numbers = base64.b85decode(text)
        stages |= {int.from_bytes(numbers[at : at + 4], "big"): stage for at in range(0, len(numbers), 4)}
    return stages


def raised_stage(text: str) -> StageName | None:
    """Of most groups of its words; None where no group is known."""
    line = words(text[:4000])[:LONGEST]
    groups = (hashed(line[start : start + GROUP]) for start in range(len(line) - GROUP + 1))
    stages = Counter(stage for number in groups if (stage := _stages().get(number)))
    return stages.most_common(1)[0][0] if stages else None
