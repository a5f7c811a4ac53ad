"""YAML that anybody may have written: plain values only, and one sentence for what cannot be read."""

from typing import Any

from oomph.commands.call import short
from oomph.errors import CommandError

_MOST = 100_000  # values after aliases are written out: a few lines of aliases can stand for gigabytes


def load(text: str, name: str) -> list[Any]:
    """Every document of a file that is not empty."""
    import yaml  # 20 ms: only for files

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        documents = [document for document in yaml.load_all(text, Loader=loader) if document is not None]
        too_many = _size(documents, {}) > _MOST
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark is not None else ""
        what = getattr(error, "problem", None) or "it is broken"
        raise CommandError(f"{short(name)} is not YAML{where}: {what}") from None
    except (ValueError, RecursionError, OverflowError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise CommandError(f"{short(name)} is not YAML that can be read: {str(error)[:80]}") from None
    if too_many:
        raise CommandError(f"{short(name)} holds more than {_MOST} values")
    return documents


def _size(value: Any, seen: dict[int, int]) -> int:
    """How many values `value` stands for, shared ones counted each time; a value inside itself is refused."""
    if not isinstance(value, dict | list):
        return 1
    known = seen.get(id(value))
    if known is not None:
        if known < 0:
            raise ValueError("a value contains itself")
        return known
    seen[id(value)] = -1
    children = value.values() if isinstance(value, dict) else value
    size = min(1 + sum(_size(child, seen) for child in children), _MOST + 1)
    seen[id(value)] = size
    return size
