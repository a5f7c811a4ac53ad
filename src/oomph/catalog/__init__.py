"""Facts of well-known models in our own compact form, so that a plan needs no network.

models.jsonl: the first line is the index [id, family, offset, length]; each further line is one model (pack.py). A
lookup reads the index and its own line. tools/build_catalog.py writes it.
"""

import os
from functools import cache, lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from oomph.errors import InputError

FILE = os.path.join(os.path.dirname(__file__), "models.jsonl")


class Row(Struct, frozen=True, array_like=True):
    id: str
    family: str
    offset: int  # from the end of the index's line
    length: int


class Line(Struct, frozen=True, omit_defaults=True):
    """One model as the file has it."""

    c: dict[str, Any]  # config.json, packed
    q: dict[str, Any] | None = None  # hf_quant_config.json, packed
    told: dict[str, bool] = {}  # what only the headers tell (sources/arch/base.py)
    bytes: int = 0  # of the checkpoint, where its headers are known
    source: str = ""  # where the configuration is from; "" = SOURCE


class Entry(Struct, frozen=True):
    id: str
    config: dict[str, Any]
    quant_config: dict[str, Any] | None
    told: dict[str, bool]
    bytes: int
    note: str = ""  # what a forgiving name was taken for


SOURCE = "configuration vendored in a public repository, collected on 15 Nov 2026"

_index = msgspec.json.Decoder(list[Row])
_line = msgspec.json.Decoder(Line)


@cache
def _rows() -> tuple[int, dict[str, Row]]:
    """(where the models begin, rows by lower-case id)."""
    with open(FILE, "rb") as file:
        raw = file.readline()
    return len(raw), {row.id.lower(): row for row in _index.decode(raw)}


@cache
def ids() -> tuple[str, ...]:
    return tuple(row.id for row in _rows()[1].values())


_LISTED = 8  # candidates of a question
# The hub answers to both: what a command says, what the catalogue has.
_RENAMED = (
    ("meta-llama/meta-llama-3.1-", "meta-llama/llama-3.1-"), ("meta-llama/llama-3.1-", "meta-llama/meta-llama-3.1-"),
    ("neuralmagic/", "redhatai/"), ("cohereforai/", "coherelabs/"), ("thudm/", "zai-org/"),
    ("cognitivecomputations/", "dphn/"), ("wizardlm/", "wizardlmteam/"),
)  # fmt: skip


def find(name: str) -> Entry | None:
    """By id whatever its case, or by a forgiving short name; None where nothing answers to it.

    Versions, sizes and quantisations decide (names.py): one that no entry has is never answered with another. Several
    models raise an InputError whose hint lists them; `Entry.note` says what a name that is not exact was read as.
    """
    row = _row_of(name.lower())
    if row is not None:
        return _read(row)
    if "/" in name:
        return None
    from oomph.catalog import names

    rows = [_rows()[1][i.lower()] for i in answers(name)]
    if not rows:
        return None
    if len({names.core(row.family) for row in rows}) > 1 or names.is_anothers(name, rows[0].id):
        all_of_them = names.answers(name, ids())
        listed = ", ".join(all_of_them[:_LISTED]) + (", ..." if len(all_of_them) > _LISTED else "")
        if len(all_of_them) == 1:
            raise InputError(f"{name[:80]!r} is not the whole name of a checkpoint", hint=f"did you mean {listed}?")
        raise InputError(f"{name[:80]!r} may be any of {len(all_of_them)} checkpoints", hint=f"there are {listed}")
    others = ", ".join(row.id for row in rows[1:4])
    also = f"; there is also {others}" if others else ""
    return _read(rows[0], f"{name!r} is read as {rows[0].id}{also}")


def _row_of(low: str) -> Row | None:
    rows = _rows()[1]
    if low in rows:
        return rows[low]
    renamed = (new + low.removeprefix(old) for old, new in _RENAMED if low.startswith(old))
    return next((rows[other] for other in renamed if other in rows), None)


@lru_cache(maxsize=256)
def answers(name: str) -> tuple[str, ...]:
    """The ids that answer best to a forgiving short name, the likeliest first; () where nothing does."""
    from oomph.catalog import names

    hits = tuple(names.best(name, ids()))
    if hits and not names.is_anothers(name, hits[0]):
        return hits
    return _of_the_size(name) or hits


_AS_CALLED = 0.12  # phi-4 is called 14b and has 14.7; DeepSeek V3 is called 671b with its draft layer and without


def _of_the_size(name: str) -> tuple[str, ...]:
    """ "phi-4 14b", "deepseek v3 671b": a size that stands in no name, of models that have as many parameters; a name
    that says its own size is never answered to another."""
    from oomph.catalog import names
    from oomph.catalog.facts import facts

    rest, size = names.without_size(name)
    hits = tuple(names.best(rest, ids())) if size else ()
    if not hits:
        return ()
    sizes = {model.name: model.parameters for model in facts().models}
    near = {one for one, count in sizes.items() if abs(count - size) <= _AS_CALLED * size}
    return tuple(i for i in hits if _rows()[1][i.lower()].family in near and not names.says_size(i))


def suggest(name: str) -> tuple[str, ...]:
    from oomph.catalog import names

    return names.nearest(name, ids())


def variants(model_id: str) -> tuple[str, ...]:
    """Every checkpoint of the same model, this one included; () where the catalogue does not have it.

    A copy that others keep of the maker's own is no choice beside it.
    """
    from oomph.catalog.names import is_copy, is_plain

    row = _rows()[1].get(model_id.lower())
    if row is None:
        return ()
    ids = [other.id for other in _rows()[1].values() if other.family == row.family]
    has_own = any(is_plain(i) and not is_copy(i) for i in ids)
    return tuple(i for i in ids if i == row.id or not (has_own and is_plain(i) and is_copy(i)))


def read_source(model_id: str) -> str:
    """Where the facts of one entry are from."""
    return _line_of(_rows()[1][model_id.lower()]).source or SOURCE


def _line_of(row: Row) -> Line:
    with open(FILE, "rb") as file:
        file.seek(_rows()[0] + row.offset)
        return _line.decode(file.read(row.length))


def _read(row: Row, note: str = "") -> Entry:
    from oomph.catalog.pack import unpack

    line = _line_of(row)
    return Entry(row.id, unpack(line.c), None if line.q is None else unpack(line.q), line.told, line.bytes, note)
