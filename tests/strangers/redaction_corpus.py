"""Lines with a secret, and ordinary lines of logs and help. Half of each (`_after`) was written when the rules stood.

`{}` in a line is a secret of one of several kinds, `{b64}` one in base64: random, of no service and no account;
`{=word=}` is one that a person would think of. `_classes` has three further sets, each judged once when it was written:
135 of 141 and 101 of 107 hidden by these rules at first sight, 71 of 102 by those before them. `_third` was written by
somebody who had not read the rules, and judged once: 156 of 156 hidden, 0 of 284 ordinary lines changed. So was
`_fourth` (builds, Terraform, Ansible, Java, PHP, registries, JDBC): 39 of 40 and 0 of 60; lines that call a database
came after it. `_fifth`, likewise by a newcomer: 38 of 40 and 0 of 60, then 44 of 56 and 0 of 51 of forms
that are rare on purpose; what is a word or stands behind no name stays out of it (`Using token abc12x`).
`_sixth`: passwords that are words, 64 of 75 and 1 of 262 by somebody who had not read the rules; 73 of 75 and 3 of 264
when the rules were finished.
`_seventh`, by somebody who had not read them: 71 of 75, and 4 of 264 ordinary lines (public certificates in base64).
`_eighth`, of the same hand and rarer on purpose: 64 of 75, and 0 of 260.
`_ninth`, by another who had not read them: 224 of 230 hidden, 1 of 301 ordinary lines changed (an annotated type).
`_tenth`, of that hand when the rules had been read and mended: 118 of 124, and 2 of 148, then 80 of 90, and 1 of
105, of forms that are rare on purpose.
`_eleventh`, by a newcomer from the class alone: 180 of 184, and 2 of 254 ordinary lines changed; `_twelfth`, of that
hand when the misses were mended: 181 of 187, and 3 of 241. One miss of each was the test's own (a folder cut in two).
"""

from __future__ import annotations

import base64
import random
import re
import string
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus"
LETTERS = string.ascii_letters + string.digits


def secret(chance: random.Random) -> str:
    """Letters and digits, hexadecimal, base64 for addresses, small letters and digits, or with signs inside."""
    kind = chance.choice(("mixed", "hexadecimal", "address", "small", "signs"))
    letters = {"hexadecimal": "0123456789abcdef", "small": string.ascii_lowercase + string.digits}.get(kind, LETTERS)
    body = "".join(chance.choices(letters, k=chance.choice((12, 20, 32, 40))))
    middle = {"address": "-_", "signs": "!.~*+"}.get(kind)
    return (
        f"k7{body[: len(body) // 2]}{chance.choice(middle) if middle else ''}{body[len(body) // 2 :]}Q"
        if middle
        else f"k7{body}"
    )


def filled(name: str) -> list[tuple[str, str]]:
    """(line, secret) for each line of a file."""
    chance, out = random.Random(name), []
    for line in (FOLDER / f"secrets_{name}.txt").read_text().splitlines():
        value = secret(chance)
        if own := re.search(r"\{=(.+?)=\}", line):
            value, line = own[1], line.replace(own[0], "{}")
        if "{b64}" in line:
            value = base64.b64encode(chance.randbytes(chance.choice((33, 45, 60)))).decode()
        assert "{}" in line or "{b64}" in line, line
        out.append((line.replace("\\n", "\n").replace("{b64}", value).replace("{}", value), value))
    return out


def is_seen(value: str, text: str, line: str = "") -> bool:
    """The secret, or a half of it that does not stand elsewhere in its line: `password: mypassword`."""
    rest = line.replace(value, "")
    halves = value[: len(value) // 2], value[(len(value) + 1) // 2 :]
    return any(half in text and half not in rest for half in halves)


def ordinary(name: str) -> list[str]:
    return (FOLDER / f"ordinary_{name}.txt").read_text().splitlines()
