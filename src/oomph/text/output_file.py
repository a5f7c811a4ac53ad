"""What oomph writes into files: without secrets and control characters, as on its streams."""

import re

from oomph.errors import InputError
from oomph.text.nesting import bounded
from oomph.text.printable import printable
from oomph.text.redaction import Secrets, session


def write_output(path: str, text: str, *, is_markup: bool = False) -> None:
    """`is_markup`: its texts were looked at one by one, and only what is known to be secret is taken out."""
    secrets = session()
    hidden = secrets.hide_known(text) if is_markup else hidden_json(text, secrets) or secrets.hide(text)
    try:
        with open(path, "w", encoding="utf-8", errors="replace") as file:
            file.write(printable(hidden))
    except (OSError, ValueError) as error:
        raise InputError(f"{path[:200]!r} cannot be written: {getattr(error, 'strerror', None) or error}") from None


def hidden_json(text: str, secrets: Secrets) -> str | None:
    """JSON stays JSON: its texts are looked at one by one. None: it is not JSON."""
    if not text.startswith(("{", "[")):
        return None
    import msgspec

    try:
        value = msgspec.json.decode(bounded(text))
    except (msgspec.DecodeError, RecursionError):
        return None
    hidden = secrets.hide_fields(value)
    if hidden == value:
        return text
    indent = re.match(r"[\[{]\n( {1,8})", text)
    encoded = msgspec.json.encode(hidden)
    return (msgspec.json.format(encoded, indent=len(indent[1])) if indent else encoded).decode() + "\n"
