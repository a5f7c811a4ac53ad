"""One job of the page in a process of its own (web/api.py), which is ended when it takes too long or when nobody waits
for the answer any more."""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import msgspec

from oomph.errors import OomphError
from oomph.sources import boundary
from oomph.text.printable import printable
from oomph.text.redaction import session, start_session
from oomph.web import answers, searches
from oomph.web.asking import NoGpu, meant, which_gpus
from oomph.web.markup import Html

MEMORY = 4 << 30  # bytes of address space that one job may take

JOBS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "read": answers.answer_read,
    "explain": answers.answer_explain,
    "plan": answers.answer_plan,
    "what_if": searches.answer_what_if,
    "fit": searches.answer_fit,
    "cards": searches.answer_cards,
    "models": searches.answer_models,
    "compare": searches.answer_compare,
    "diff": searches.answer_diff,
    "simulate": searches.answer_simulate,
    "inspect": answers.answer_inspect,
    "catalog": answers.answer_catalog,
}


def run_job(name: str, case: dict[str, Any], root: str) -> tuple[int, bytes]:
    """(status, JSON). Every refusal is one sentence with status 400; no secret and no control character is in it."""
    prepare(root)
    try:
        status, value = 200, JOBS[name](case)
    except NoGpu as unknown:
        status, value = 200, {"asks": "gpu", "html": which_gpus(unknown.model), "model": unknown.model}
    except OomphError as refused:
        place = str(getattr(refused, "field", ""))
        status, value = 400, {"error": refused.message, "hint": refused.hint, "field": place, "kind": refused.kind}
        value |= meant(refused)
    except (RecursionError, MemoryError) as error:
        status, value = 400, {"error": f"this input is too deep or too large ({type(error).__name__})", "hint": ""}
    except Exception as bug:
        status, value = (
            500,
            {"error": f"a bug in oomph: {type(bug).__name__}: {bug}"[:500], "hint": "report it", "kind": "bug"},
        )
    return status, printable(msgspec.json.encode(_without_secrets(value)).decode()).encode()


def _without_secrets(value: Any) -> Any:
    """Text by text. Those of markup were looked at when it was written; as one text, cells that stand beside each other
    would be read as a name and its secret."""
    if isinstance(value, Html):
        return session().hide_known(str(value))
    if isinstance(value, list | tuple):
        return [_without_secrets(item) for item in value]
    if isinstance(value, dict) and any(isinstance(item, Html | list | tuple | dict) for item in value.values()):
        clean: dict[str, Any] = {}
        for name, item in value.items():
            is_leaf = not isinstance(item, Html | list | tuple | dict)
            clean |= session().hide_fields({name: item}) if is_leaf else {name: _without_secrets(item)}
        return clean
    return session().hide_fields(value)


@cache
def prepare(root: str) -> None:
    """Once in each process, the first time before anybody waits: the imports, the bounds, the user's own secrets."""

    from oomph import catalog
    from oomph.web import page  # noqa: F401

    boundary.confine(root)
    start_session(())
    with suppress(ImportError, OSError, ValueError):  # not every system can
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, hard))
    catalog.ids()
