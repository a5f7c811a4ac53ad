"""One measured start as a row that people can read and paste: no path, no name of a person, no token.

It is made from a plugin's record or from a log. Of the command only what decides memory is kept, and the row is planned
from itself, so that whoever receives it can plan it again.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from oomph import catalog
from oomph.engines.registry import DEFAULT, engine_named, engine_of
from oomph.errors import CannotPlan, InputError
from oomph.ir import Deployment, Device
from oomph.text.nesting import bounded
from oomph.text.redaction import hide_secrets

TERMS = ("weights", "activation_peak", "non_torch", "cudagraph", "available_kv")
_LONGEST = 16 << 20
_HUB_ID = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}")
_CACHED = re.compile(r"models--([\w.-]+?)--([\w.-]+?)(?:/|\\|$)")
_WORD = re.compile(r"[A-Za-z0-9_.-]{1,40}")
# settings whose values are words; those with numbers and switches are kept unless they are about the network
_WORDS = ("dtype", "kv_cache_dtype", "quantization", "attention_backend", "runner", "load_format", "cudagraph_mode",
          "method", "speculative_algorithm", "moe_runner_backend")  # fmt: skip
_OTHERS = ("port", "seed", "host", "rank", "address")


class Row(Struct, frozen=True, omit_defaults=True):
    engine: str
    version: str
    gpu: str  # as --gpu takes it
    total_bytes: int  # of one card, as its driver says
    command: str
    measured: dict[str, int]
    planned: dict[str, tuple[int, int, int]]  # low, expected, high
    oomph_measurement: int = 1

    def line(self) -> str:
        return json.dumps({"oomph_measurement": self.oomph_measurement, **_fields(self)}, separators=(",", ":"))


def _fields(row: Row) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__struct_fields__ if name != "oomph_measurement"}


def row_of_file(path: str, gpu: str | None, deployment: Deployment | None, engine: str = "") -> Row:
    """`deployment`: the command, where the file does not have it or names a folder."""
    try:
        with open(path, "rb") as file:
            text = file.read(_LONGEST + 1).decode("utf-8", "replace")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    if len(text) > _LONGEST:
        raise InputError(f"{path} is larger than {_LONGEST >> 20} MiB: give the part of the log up to the start's end")
    record = _record(text)
    if record is not None:
        return _of_record(record, gpu, deployment)
    return _of_log(text, gpu, deployment, engine)


def _record(text: str) -> dict[str, Any] | None:
    if '"oomph_record"' not in text[:400]:
        return None
    try:
        record = json.loads(bounded(text))
    except (json.JSONDecodeError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _of_record(record: Mapping[str, Any], gpu: str | None, deployment: Deployment | None) -> Row:
    from oomph.commands import parse_command
    from oomph.sources.gpu import parse_gpus

    if record.get("kind") != "start":
        raise InputError(
            "this record is of a start that died: oomph explain FILE reads it; only a start that worked is a row"
        )
    command, engine = record.get("command"), record.get("engine")
    name, version = (str(engine.get(key, ""))[:40] if isinstance(engine, dict) else "" for key in ("name", "version"))
    if deployment is None:
        if not isinstance(command, list) or not command:
            raise InputError("the record does not say what was started: add -- vllm serve MODEL ...")
        deployment = parse_command([str(word) for word in command], engine=f"{name}=={version}" if version else None)
    values = record.get("measured")
    sizes = {term: value for term, value in values.items() if _is_size(value)} if isinstance(values, dict) else {}
    cards = parse_gpus(gpu or str(record.get("card") or "auto"))
    return row_of(deployment, cards, sizes)


def _of_log(text: str, gpu: str | None, deployment: Deployment | None, engine: str) -> Row:
    from oomph.doctor.explain import read_case
    from oomph.machine.learn.start import at_version, values_of
    from oomph.sources.gpu import parse_gpus

    gpus = parse_gpus(gpu or "auto")
    case = read_case(text, gpus=gpus)
    if case.failed or not case.has("serving"):
        what = "the log tells of a failure" if case.failed else "no line of the log shows that the server was up"
        raise CannotPlan(f"{what}: only a start that worked is a row")
    if deployment is None:
        deployment = engine_named(case.rebuilt.engine or engine.partition("==")[0] or DEFAULT).failed_deployment(case)
        if deployment is None:
            raise CannotPlan(
                "the log does not say what was started", hint="oomph report --measurement LOG -- vllm serve ..."
            )
        deployment = replace(deployment, given={})
    elif case.version:
        deployment = at_version(deployment, case.version)
    return row_of(deployment, gpus, values_of(case))


def row_of(deployment: Deployment, gpus: tuple[Device, ...], values: Mapping[str, int]) -> Row:
    from oomph.answers.plan import run
    from oomph.machine.learn.start import start_of

    empty = tuple(replace(card, used_bytes=0) if card.system is None else card for card in gpus)
    shown = Deployment(
        engine=replace(deployment.engine, version_from=""), model=public_name(deployment.model),
        flags=memory_flags(deployment.flags), gpus=empty,
    )  # fmt: skip
    start_of(shown, empty, values)  # refuses figures that cannot be this model's
    plan = run(shown)
    terms = plan.ranks[0].terms
    measured = {name: int(values[name]) for name in (*TERMS, "captured") if name in values}
    return Row(
        engine=shown.engine.name,
        version=shown.engine.version,
        gpu=f"{len(empty)}x {empty[0].name}" if len(empty) > 1 else empty[0].name,
        total_bytes=values.get("total", empty[0].total_bytes),
        command=hide_secrets(" ".join(engine_of(shown).write_command(shown))),
        measured=measured,
        planned={name: (terms[name].low, terms[name].bytes, terms[name].high) for name in measured if name in terms},
    )


def public_name(model: str) -> str:
    """A hub id, also where the hub's cache or a folder of that name was given; another folder's name is not shared."""
    if match := _CACHED.search(model):
        return f"{match[1]}/{match[2]}"
    if _HUB_ID.fullmatch(model) and not Path(model).exists():
        return model
    base = re.split(r"[/\\]", model.rstrip("/\\"))[-1]
    names = [name for name in catalog.ids() if name.rpartition("/")[2].lower() == base.lower()]
    if not names:
        raise InputError(
            "the model is a folder, and its name is not shared: say which checkpoint it is",
            hint="oomph report --measurement FILE -- vllm serve ORGANISATION/NAME ...",
        )
    return names[0]


def memory_flags(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers, switches and a few words: what decides memory, and nothing that a person chose freely."""
    safe: dict[str, Any] = {}
    for name, value in flags.items():
        if any(word in name for word in _OTHERS):
            continue
        if isinstance(value, dict) and (inner := memory_flags(value)):
            safe[name] = inner
        elif _is_plain(value) or (name in _WORDS and _WORD.fullmatch(str(value))):
            safe[name] = value
        elif name == "model" and _HUB_ID.fullmatch(str(value)):
            safe[name] = value  # a drafter
    return safe


def _is_plain(value: Any) -> bool:
    numbers = value if isinstance(value, list) else [value]
    return all(isinstance(number, bool | int | float) for number in numbers)


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 50
