"""YAML that anybody may have written: plain values only, and one sentence for what cannot be read."""

from typing import Any

from oomph.commands.call import short
from oomph.errors import CommandError
from oomph.text.nesting import TooDeep, TooMany, bounded_yaml


def load(text: str, name: str) -> list[Any]:
    """Every document of a file that is not empty."""
    import yaml  # 20 ms: only for files

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        bounded_yaml(text, loader)
        return [document for document in yaml.load_all(text, Loader=loader) if document is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark is not None else ""
        what = getattr(error, "problem", None) or "it is broken"
        raise CommandError(f"{short(name)} is not YAML{where}: {what}") from None
    except (TooDeep, TooMany) as error:
        raise CommandError(f"{short(name)} cannot be read: {error}") from None
    except (ValueError, RecursionError, OverflowError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise CommandError(f"{short(name)} is not YAML that can be read: {str(error)[:80]}") from None
