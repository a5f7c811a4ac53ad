"""Text of strangers as a terminal may show it.

Names come from config files and logs that anybody can write. A terminal acts on control characters, C0 and C1: an
escape sequence retitles the window, moves the cursor, fills the clipboard. Marks of writing direction show another
command than the one that is pasted. None of them is printed.
"""

import re

from oomph.text.late import late_pattern

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_UNUSUAL = late_pattern(r"[^\x20-\x7e\n]")
_COMMAND = late_pattern(r"^([^\S\n]*)::", re.MULTILINE)
_SEQUENCE = late_pattern(  # what a terminal would act on as a whole: CSI, OSC and their like, in 7 and 8 bits
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,16}[@-~]"
    r"|(?:\x1b[\]P_^X]|[\x9d\x90\x9f\x9e\x98])[^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]{0,4}[0-~]"
)


def printable(text: str, *, lines: bool = True) -> str:
    """Without control characters, marks of direction and invisible characters. `lines`: line breaks stay."""
    plain = text.replace("\n", "") if lines else text
    if plain.isascii() and plain.isprintable():
        return text
    return "".join(
        character
        if character.isprintable() or (character == "\n" and lines)
        else " "
        if character in "\t\xa0\u202f"
        else REPLACEMENT
        for character in text
    )


def quoted(text: str, most: int = 120) -> str:
    """In quotes, with every odd character spelt out, at most so long."""
    return repr(text if len(text) <= most else text[: most - 3] + "...")


def visible(text: str) -> str:
    """One line of a log: its escape sequences and whatever else is not seen taken out, so that what is left is what a
    person sees. Sequences that only appear once others are taken out go too."""
    if _UNUSUAL.search(text) is None:
        return text
    for _ in range(8):
        shorter = _SEQUENCE.sub("", text)
        if shorter == text:
            break
        text = shorter
    return "".join(c if c.isprintable() else " " if c in "\t\n\xa0\u202f" else "" for c in text)


def without_commands(text: str) -> str:
    """What GitHub's runner would act on made harmless: it reads `::command::` behind blanks at the start of a line, and
    `##[command]` anywhere (actions/runner, src/Runner.Common/ActionCommand.cs, TryParseV2 and TryParse)."""
    if "::" not in text and "##[" not in text:
        return text
    return _COMMAND.sub(r"\1: :", text).replace("##[", "## [")


def encodable(text: str) -> str:
    """The name of a file as far as it is UTF-8: other bytes are halves of characters, which nothing can write."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
