"""Words that look like the name of a model or a card that nobody knows: they are asked back, not passed over."""

from oomph.commands.questions import words
from oomph.errors import CommandError
from oomph.text.late import late_pattern

_NAMED = late_pattern(r"(?=.*[a-z])(?=.*\d)[a-z][\w./:+-]{2,}")  # grok-2, v5e
_SIZE = late_pattern(r"\d+(?:\.\d+)?b")  # behind a word that nobody knows it makes it a model: "falcon 180b"


def require_known(model: str, gpu: str, rest: "list[str]") -> None:
    """`rest`: words that decided nothing. Where a model and GPUs are known, they are only said."""
    if model and gpu:
        return
    low = [word.lower() for word in rest]
    for at, word in enumerate(low):
        before = low[at - 1] if at else ""
        is_card = bool(words.BRANDS.fullmatch(before)) and any(char.isdigit() for char in word)
        is_sized = bool(_SIZE.fullmatch(word)) and before.isalpha() and not words.BRANDS.fullmatch(before)
        if is_card or (gpu and is_sized) or (_NAMED.fullmatch(word) and not _decides_nothing(word)):
            name = f"{rest[at - 1]} {rest[at]}" if is_card or is_sized else rest[at]
            raise _unknown(name, is_model=not model and not is_card)


def _decides_nothing(word: str) -> bool:
    """How weights are stored, and parts of a machine."""
    from oomph.catalog import names

    return bool(words.PARTS.fullmatch(word)) or not names.distinct(word)


def _unknown(name: str, *, is_model: bool) -> CommandError:
    from oomph import catalog
    from oomph.sources.gpu import parse_gpus

    if is_model:
        near = catalog.suggest(name)
        hint = f"did you mean {', '.join(near[:4])}?" if near else "a model of the hub is named as owner/name"
        return CommandError(f"{name[:60]!r} is neither a model nor a GPU that is known", hint=hint)
    try:
        parse_gpus(name)
    except CommandError as refused:
        return refused
    return CommandError(f"{name[:60]!r} is no GPU that is known")
