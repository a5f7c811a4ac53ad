"""What every `--json` prints: one JSON object, indented for people who look at it, bytes as integers."""

from typing import Any

import msgspec


def dumps(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
