"""What fit finds for a command's own model on its own GPUs, as a change of that command.

For commands that no one, two or three flags make fit: the advice then has fit's flags, planned with the user's own.
Weights that are larger than the GPUs are left to the levers that offload them: no search of flags is needed for that.
"""

from typing import Any

from msgspec.structs import replace

from oomph.commands import to_command
from oomph.commands.call import quote
from oomph.engines.protocol import fills
from oomph.engines.registry import engine_of
from oomph.errors import OomphError
from oomph.ir import Change, Deployment, Plan
from oomph.ir.advice import Kind
from oomph.search.fit import fit
from oomph.search.request import Want

_RANK = 20  # dearer than any set of three flags, whose ranks add up to less
_LAYOUT = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")


def change_by_fit(plan: Plan) -> Change | None:
    """None where fit has nothing for this checkpoint on these GPUs, or does not search this engine."""
    deployment = plan.deployment
    engine_terms = engine_of(deployment).terms
    if not fills(engine_of(deployment), "fit_knobs") or not _weights_may_stay(plan):
        return None
    engine = f"{deployment.engine.name}=={deployment.engine.version}"
    length = deployment.flags.get("max_model_len")
    want = Want(length if isinstance(length, int) and not isinstance(length, bool) and length > 0 else 0)
    try:
        answer = fit(deployment.model, deployment.gpus, want, engine=engine, only=True).pick
    except OomphError:
        return None
    if answer is None:
        return None
    flags: dict[str, Any] = {
        name: value for name, value in answer.plan.deployment.flags.items() if deployment.flags.get(name) != value
    }
    divided = [name for name in _LAYOUT if deployment.flags.get(name, 1) != 1]
    flags |= {name: None for name in divided if name not in answer.plan.deployment.flags}
    moves = tuple(term for term in engine_terms if term != "context")
    kind: Kind = "offload" if any("offload" in name for name in flags) else "flag"
    return Change(
        "fit", _label(deployment, flags), kind, flags, cost=answer.note, rank=_RANK + len(flags), moves=moves
    )  # fmt: skip


def _weights_may_stay(plan: Plan) -> bool:
    """The weights without encoders, and the context, fit on the GPUs, however they are divided."""
    need = room = 0
    for rank in plan.ranks:
        weights, context = rank.terms.get("weights"), rank.terms.get("context")
        if weights is None:
            return False
        need += weights.bytes - weights.parts.get("multimodal", 0) + (context.bytes if context is not None else 0)
        room += rank.total_bytes - rank.used_by_others_bytes
    return 0 < need < room


def _label(deployment: Deployment, flags: dict[str, Any]) -> str:
    """The flags as they are typed."""
    bare = to_command(replace(deployment, flags={}))
    words = to_command(replace(deployment, flags={name: value for name, value in flags.items() if value is not None}))
    without = [f"without --{name.replace('_', '-')}" for name, value in flags.items() if value is None]
    return " ".join([*(quote(word) for word in words[len(bare) :]), *without])
