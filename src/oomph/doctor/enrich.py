"""What the model's own facts add to a cause: which module an allocation was, what the weights consist of."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

import msgspec

from oomph.doctor.case import Case
from oomph.doctor.explanation import Explanation
from oomph.doctor.rules import rules
from oomph.ir import Linear, Model
from oomph.ir.roles import ROLE_WORDS, role_words
from oomph.units import GIB, MIB, cdiv

_SMALL = ("norm", "router", "other")  # counted, and not worth a word


def names(model: str) -> tuple[str, ...]:
    """A path inside somebody's container is looked up by its last parts: /models/org/name -> org/name."""
    parts = PurePosixPath(model).parts
    short = [p for p in parts if p not in ("/", "..", ".", "~")]
    names = [model]
    if model.startswith(("/", "~", ".")) and short:
        names += ["/".join(short[-2:]), short[-1]] if len(short) > 1 else [short[-1]]
    snapshot = re.search(r"models--([\w.-]+)--([\w.-]+)", model)
    if snapshot:
        names.append(f"{snapshot[1]}/{snapshot[2]}")
    if len(short) == 2 and names == [model]:
        names.append(short[-1])  # a name that people shorten: Llama-4-Scout
    return tuple(dict.fromkeys(names))


def with_model(case: Case, model: Model) -> Case:
    return msgspec.structs.replace(case, kv_heads=model.num_kv_heads, modules=packed(model, case.tp))


def packed(model: Model, tp: int) -> dict[int, str]:
    """Sizes of quantised modules' packed weights, in units of 2 MiB; one that a 16-bit module shares is left out."""
    quantised: dict[int, str] = {}
    plain: set[int] = set()
    for module in _linears(model):
        values = module.out_features * module.in_features // tp
        if module.scheme is None:
            plain.add(cdiv(values * 2, 2 * MIB))
        else:
            size = values * module.scheme.bits // 8
            if size >= MIB:
                quantised[cdiv(size, 2 * MIB)] = f"{module.name} in {module.scheme.bits} bits ({size / MIB:.4g} MiB)"
    return {size: name for size, name in quantised.items() if size not in plain}


def _linears(model: Model) -> Iterator[Linear]:
    for block in dict.fromkeys(layer.block for layer in model.layers):
        yield from (module for module in block.modules if isinstance(module, Linear))


def with_plan(case: Case, explanation: Explanation, plan: Any) -> Explanation:
    """The plan's arithmetic behind the cause, where it meets the log's figures."""
    rule = next((rule for rule in rules() if rule.id == explanation.cause.id), None)
    added = {"weights": _weights, "pool": _pool}.get(rule.plan_adds) if rule else None
    text = added(case, plan) if added else ""
    if not text:
        return explanation
    cause = msgspec.structs.replace(explanation.cause, text=f"{explanation.cause.text} {text}")
    return msgspec.structs.replace(explanation, cause=cause)


def _weights(case: Case, plan: Any) -> str:
    if not plan.ranks:
        return ""
    parts: dict[str, int] = plan.ranks[0].terms["weights"].parts
    buffers = parts.get("buffers", 0)
    sizes = {role: n for role, n in parts.items() if role in ROLE_WORDS}
    total = sum(sizes.values())
    if total <= 0:
        return ""
    shown = sorted(((n, role) for role, n in sizes.items() if role not in _SMALL and n > total // 50), reverse=True)
    text = ", ".join(f"{role_words(role)} {n / GIB:.2f}" for n, role in shown)
    behind = f", and {buffers / GIB:.2f} GiB of rotary tables" if buffers > GIB // 20 else ""
    return f"By the checkpoint one rank has {total / GIB:.2f} GiB of parameters ({text}){behind}."


def _pool(case: Case, plan: Any) -> str:
    kv, tokens = plan.kv, case.value("kv_tokens", "tokens")
    if kv is None or not kv.groups or kv.logged_tokens != tokens:
        return ""
    groups, block = len(kv.groups), min(group.block_size for group in kv.groups)
    need = sum(group.blocks_per_request for group in kv.groups)
    text = (
        f"({kv.num_blocks:,} blocks of {kv.bytes_per_block / MIB:.4g} MiB in {groups} groups: {kv.num_blocks:,} // "
        f"{groups} x"
        f" {block} = {tokens:,}."
    )
    if need:
        text += f" One request takes {need:,} of them: {kv.num_blocks:,} / {need:,} = {kv.num_blocks / need:.2f}."
    return text + ")"
