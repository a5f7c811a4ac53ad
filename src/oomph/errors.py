"""Everything oomph refuses, as one tree. Each error is one sentence, has an exit code, and may carry a hint.

OomphError              1
├── InputError          2   what was typed or read is wrong: the sentence says what and where
│   ├── HeaderError     2   a weight file's header lies (safetensors, GGUF)
│   ├── ConfigError     2   a model's config.json lies
│   └── CommandError    2   a serve command, flag or GPU that cannot be meant
└── CannotPlan          3   nothing is wrong, but something needed is not known
    ├── UnknownModel    3   no catalogue entry, folder or hub repository of that name
    ├── HubError        3   the hub did not give it: gated, missing, offline, failing
    └── UnknownCache    3   a cache kind that we do not know: refused, never guessed
"""

from functools import cached_property

LONGEST = 990  # characters of a sentence


class OomphError(Exception):
    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint if len(hint) <= LONGEST else f"{hint[:600]} [...]"

    @cached_property
    def message(self) -> str:
        """What is quoted may be of any length: the middle of a long sentence is left out."""
        text = str(self)
        return text if len(text) <= LONGEST else f"{text[:600]} [...] {text[-200:]}"

    @property
    def kind(self) -> str:
        """The class of this tree in the words of JSON: "unknown_model"."""
        own = next(c for c in type(self).__mro__ if c.__module__ == __name__)
        return "".join(f"_{c.lower()}" if c.isupper() else c for c in own.__name__).lstrip("_")

    def to_dict(self) -> dict[str, object]:
        """What a command prints with --json instead of its answer."""
        return error_fields(self.kind, self.message, self.hint)


def error_fields(kind: str, message: str, hint: str) -> dict[str, object]:
    return {"schema": 1, "error": {"kind": kind, "message": message, "hint": hint}}


class InputError(OomphError):
    exit_code = 2


class HeaderError(InputError):
    pass


class ConfigError(InputError):
    pass


class CommandError(InputError):
    pass


class CannotPlan(OomphError):
    exit_code = 3


class NoKernels(CannotPlan):
    """The engine does not run on these cards."""


class UnknownModel(CannotPlan):
    pass


class HubError(CannotPlan):
    pass


class UnknownCache(CannotPlan):
    pass
