"""Facts of well-known models in our own compact form, so that a plan needs no network.

models.jsonl: the first line is the index [id, family, offset, length, source]; each further line is one shape
(pack.py), which all models of that shape share; the last line says where shapes are from. A lookup reads the index and
its own line. tools/build_catalog.py writes it. named.txt has models by name alone, whose shape is not known here: what
is called so is asked about, and never answered with another.
"""

import os
from functools import cache, lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from oomph.errors import InputError

FILE = os.path.join(os.path.dirname(__file__), "models.jsonl")
NAMED = os.path.join(os.path.dirname(__file__), "named.txt")


class Row(Struct, frozen=True, array_like=True):
    id: str
    family: str
    offset: int  # from the end of the index's line
    length: int
    source: int = 0  # which of the last line's


class Line(Struct, frozen=True, omit_defaults=True):
    """One model as the file has it."""

    c: dict[str, Any]  # config.json, packed
    q: dict[str, Any] | None = None  # hf_quant_config.json, packed
    told: dict[str, bool] = {}  # what only the headers tell (sources/arch/base.py)
    bytes: int = 0  # of the checkpoint, where its headers are known


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


@cache
def named() -> tuple[str, ...]:
    """Repositories of the hub that are known by name alone."""
    with open(NAMED, encoding="ascii") as file:
        return tuple(file.read().split())


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
    exact = _called_exactly(name, rows[0].id)
    if len({names.core(row.family) for row in rows}) > 1 or names.is_anothers(name, rows[0].id) or exact:
        all_of_them = [*exact, *(names.answers(name, ids()) or [row.id for row in rows])]
        listed = ", ".join(all_of_them[:_LISTED]) + (", ..." if len(all_of_them) > _LISTED else "")
        if len(all_of_them) == 1:
            raise InputError(f"{name[:80]!r} is not the whole name of a checkpoint", hint=f"did you mean {listed}?")
        raise InputError(f"{name[:80]!r} may be any of {len(all_of_them)} checkpoints", hint=f"there are {listed}")
    others = ", ".join(row.id for row in rows[1:4])
    also = f"; there is also {others}" if others else ""
    return _read(rows[0], f"{name!r} is read as {rows[0].id}{also}")


def _called_exactly(name: str, model_id: str) -> tuple[str, ...]:
    """Models without a shape that a name fits better than what was found, which has words that nobody typed."""
    from oomph.catalog import names

    answer = names.rank(name, model_id)
    if answer is None or names.distinct(model_id.rpartition("/")[2]) <= names.distinct(name):
        return ()
    ranked = ((one, names.rank(name, one)) for one in named())
    return tuple(one for one, rank in ranked if rank is not None and rank[0] < answer[0])[:_LISTED]


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
    return _of_the_size(name) or _stored_so(name) or hits or tuple(names.untuned(name, ids()))


def _stored_so(name: str) -> tuple[str, ...]:
    """ "deepseek r1 fp8", "gpt-oss 20b mxfp4": a quantisation that the maker's own checkpoint has and does not say."""
    from oomph.catalog import names

    rest, quants = names.unquantised(name)
    hits = names.best(rest, ids()) if len(quants) == 1 else []
    methods = {i: _line_of(_rows()[1][i.lower()]).c.get("q") or {} for i in hits if names.is_plain(i)}
    return tuple(i for i, scheme in methods.items() if isinstance(scheme, dict) and scheme.get("qm") in quants)


_AS_CALLED = 0.12  # phi-4 is called 14b and has 14.7; DeepSeek V3 is called 671b with its draft layer and without


def _of_the_size(name: str) -> tuple[str, ...]:
    """ "phi-4 14b", "deepseek v3 671b": a size that stands in no name, of models that have as many parameters; a name
    that says its own size is never answered to another."""
    from oomph.catalog import names
    from oomph.catalog.facts import facts

    rest, size = names.without_size(name)
    if not size:
        return ()
    sizes = {model.name: model.parameters for model in facts().models}

    def count(row: Row) -> int:
        return sizes.get(row.family) or _line_of(row).bytes // 2 * names.is_plain(row.id)

    alike = (i for i in names.answers(rest, ids()) if not names.says_size(i))
    own = names.distinct(rest)  # 'Lite' may stand in the name and not be typed, and no word that says which model
    rows = [_rows()[1][i.lower()] for i in alike if names.distinct(i.rpartition("/")[2]) <= own]
    return tuple(names.best(rest, (row.id for row in rows if abs(count(row) - size) <= _AS_CALLED * size)))


def suggest(name: str) -> tuple[str, ...]:
    """What may be meant by a name that nothing answers to: what is known by name alone, else what looks like it."""
    from oomph.catalog import names

    if name.lower().endswith(".gguf"):
        name = names.of_file(name)
        return answers(name)[:_LISTED] or suggest(name)
    low = name.lower()
    exact = tuple(one for one in named() if one.lower() == low)
    return exact or tuple(names.best(name, named()))[:_LISTED] or names.nearest(name, ids())


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
    with open(FILE, "rb") as file:
        sources = msgspec.json.decode(file.read().splitlines()[-1], type=list[str])
    return sources[_rows()[1][model_id.lower()].source] or SOURCE


def _line_of(row: Row) -> Line:
    with open(FILE, "rb") as file:
        file.seek(_rows()[0] + row.offset)
        return _line.decode(file.read(row.length))


def _read(row: Row, note: str = "") -> Entry:
    from oomph.catalog.pack import unpack

    line = _line_of(row)
    return Entry(row.id, unpack(line.c), None if line.q is None else unpack(line.q), line.told, line.bytes, note)
