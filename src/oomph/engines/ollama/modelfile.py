"""An Ollama Modelfile to the command that serves what it describes."""

import re

from oomph.engines.ollama.command import OPTIONS
from oomph.text.late import late_pattern

_FROM = late_pattern(r"\A(?:[ \t]*(?:#[^\n]*)?\r?\n)*[ \t]*FROM[ \t]+(\S+)[ \t]*(?:\r?\n|\Z)", re.IGNORECASE)
# What only a Modelfile has behind its FROM line; a Dockerfile has none of these.
_INSTRUCTION = late_pattern(
    r"^[ \t]*(?:PARAMETER|TEMPLATE|SYSTEM|ADAPTER|MESSAGE|LICENSE|REQUIRES)[ \t]", re.MULTILINE | re.IGNORECASE
)
_PARAMETER = late_pattern(r"^[ \t]*PARAMETER[ \t]+(\w+)[ \t]+(-?\d{1,18})[ \t\r]*$", re.MULTILINE | re.IGNORECASE)


def modelfile_words(text: str, name: str) -> tuple[str, ...]:
    """() where the text is no Modelfile; `name` is the file's, "" where it has none."""
    start = _FROM.match(text)
    if start is None or not (_INSTRUCTION.search(text) or "modelfile" in name.lower()):
        return ()
    values = {field.lower(): value for field, value in _PARAMETER.findall(text)}
    options = [f"--{field.replace('_', '-')}={values[field]}" for field in OPTIONS if field in values]
    return ("ollama", "run", *options, start[1])
