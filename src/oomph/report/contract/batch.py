"""The shapes of an error, and of the lines that `oomph plan --batch` reads and writes."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from oomph.errors import OomphError
from oomph.report.contract.plan import SCHEMA, PlanOutput


class ErrorDetail(Struct, frozen=True):
    kind: str  # command_error, unknown_model, hub_error, ...: the class of the exception
    message: str  # one sentence
    hint: str = ""


class ErrorOutput(Struct, frozen=True):
    """What every command prints with --json where it refuses; the exit code says it too."""

    error: ErrorDetail
    schema: int = SCHEMA
    failed: UnsetType | None = UNSET  # of explain: nobody can tell


class BatchCase(Struct, frozen=True):
    """One line that `oomph plan --batch` reads."""

    args: list[str]  # the whole command: ["vllm", "serve", "MODEL", ...]
    id: Any = None  # anything; it comes back with the answer
    gpu: str | dict[str, Any] | list[Any] | None = None  # as --gpu takes it, or an object; null: live
    engine: str | None = None  # vllm==0.21.0
    given: dict[str, int | str] | list[str] | None = None  # terms that are pinned: {"available_kv": "11.54GiB"}
    compile_cache: str | None = None  # cold or warm
    margin: int | str | None = None  # room to be left: bytes, "1GiB", "5%"


class BatchPlan(PlanOutput, frozen=True, kw_only=True):
    """A line that `oomph plan --batch` writes: a plan, without advice."""

    id: Any  # that of the case


class BatchError(Struct, frozen=True):
    """A line that `oomph plan --batch` writes for a case that cannot be planned."""

    id: Any  # that of the case
    error: str  # one sentence
    kind: str  # of the error
    hint: str = ""


def error_output(error: OomphError) -> ErrorDetail:
    """As every command prints its errors with --json."""
    return ErrorDetail(error.kind, error.message, error.hint)
