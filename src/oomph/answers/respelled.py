"""A command with a word that no release has: what was meant, planned, beside the engine's refusal of it."""

import re
from collections.abc import Callable, Sequence

from oomph.commands import to_shell
from oomph.errors import CommandError, OomphError
from oomph.ir import Plan
from oomph.text.late import late_pattern

# "has no flag --max-modle-len; did you mean --max-model-len", "invalid choice: 'bf16' (...); did you mean bfloat16?"
_FLAG = late_pattern(r"has no (?:flag|option) '?(--?[\w-]+)'?; did you mean (--?[\w-]+)")
_VALUE = late_pattern(r"invalid choice: '([^'\s]+)' .*; did you mean ([\w.-]+)\?", re.DOTALL)


def with_right_spelling(
    error: CommandError, words: Sequence[str], planner: Callable[[list[str]], Plan]
) -> CommandError:
    """The error, its hint with the outcome of the command as it was meant; itself where nothing near it is known."""
    match = _FLAG.search(error.message) or _VALUE.search(error.message)
    corrected = [_respelled(word, match[1], match[2]) for word in words] if match is not None else []
    if match is None or corrected == list(words):
        return error
    try:
        answer = planner(corrected)
    except OomphError:
        return error
    outcome = {"fits": "it fits", "at_risk": "it starts, at risk", "close": "it is too close to call"}
    words_of = outcome.get(answer.verdict.outcome, "it does not start either")
    error.hint = "; ".join(filter(None, (error.hint, f"with {match[2]} {words_of}: {to_shell(answer.deployment)}")))
    return error


def _respelled(word: str, typed: str, meant: str) -> str:
    flag, equals, value = word.partition("=")
    if flag == typed:
        return f"{meant}{equals}{value}"
    return f"{flag}={meant}" if equals and value == typed else word
