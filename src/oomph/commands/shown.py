"""The user's own text inside a sentence of ours."""

from __future__ import annotations

from oomph.printable import quoted


def short(text: str) -> str:
    """Quoted, printable, at most 60 characters."""
    return quoted(text, 60)


def shown(text: str) -> str:
    """The same without quotes, for words that stand for themselves: file names, flags."""
    return text if text.isprintable() and len(text) <= 120 else short(text)
