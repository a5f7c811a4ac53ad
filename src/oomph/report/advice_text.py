"""Why a plan fails and what helps: other checkpoints, flags that were planned, and advice that would do nothing."""

from __future__ import annotations

from msgspec.structs import replace

from oomph.errors import OomphError
from oomph.ir.deployment import Deployment
from oomph.ir.model import Linear
from oomph.ir.plan import Plan
from oomph.levers import Lever, levers, mildest, useless
from oomph.plan import load, run
from oomph.report.terminal import INDENT, Style, wrap
from oomph.units import gib, human

# roles of modules as people call them
ROLES = {
    "mlp": "MLP", "embed": "embedding", "lm_head": "output head", "multimodal": "vision and audio",
    "linear_attn": "linear attention", "moe": "experts", "norm": "norms",
}  # fmt: skip


def role(name: str) -> str:
    return ROLES.get(name, name.replace("_", " "))


def advice(plan: Plan, style: Style, width: int) -> list[str]:
    if not plan.ranks:
        return []
    found = levers(plan, load(plan.deployment.model), run)
    if plan.fits:
        return rows("More", _more(plan, found), style, width)
    lines = []
    if why := _why(plan):
        lines.append(f"  {style.bold('Why')}      {why}")
    if plan.verdict.message and plan.verdict.stage != "other":
        lines.append(f"  {style.bold('vLLM')}     {_short(plan.verdict.message)}")
    works = [*_checkpoints(plan), *(_effect(x) for x in mildest(x for x in found if x.fits)[:3])]
    if works:
        lines += rows("Works", works, style, width)
    else:
        lines.append(f"  {style.bold('Works    ')}no flag: a smaller checkpoint, more or larger GPUs")
    idle = useless(found)
    if idle:
        move = "does not move" if len(idle) == 1 else "do not move"
        lines.append(f"  {style.bold('Useless  ')}{', '.join(idle)}: {move} the point where it dies")
    return lines


def rows(head: str, found: list[tuple[str, str]], style: Style, width: int) -> list[str]:
    """What to write on the left, as wide as the longest of them, what it gives on the right."""
    widest = min(max(44, width // 2), max((len(label) for label, _ in found), default=0))
    below = INDENT + widest + 2 if width - INDENT - widest > 30 else INDENT + 2
    lines = []
    for i, (label, effect) in enumerate(found):
        start = f"  {style.bold(f'{head:<9}') if i == 0 else ' ' * 9}{label:<{widest}}  "
        lines += wrap(effect, width, start, " " * below)
    return lines


def _effect(x: Lever) -> tuple[str, str]:
    return x.label, f"{x.tokens:,} tokens, {x.concurrency:.2f} at once ({x.cost})"


def _more(plan: Plan, found: list[Lever]) -> list[tuple[str, str]]:
    have = plan.kv.logged_tokens if plan.kv else 0
    best = [x for x in found if x.fits and x.tokens > 1.01 * have and "cpu_offload_gb" not in x.flags]
    best = [x for x in best if x.flags.get("max_num_seqs", x.concurrency) >= x.concurrency]
    return [_effect(x) for x in mildest(best)[:3]]


def _short(message: str, room: int = 220) -> str:
    line = " ".join(message.split())
    return line if len(line) <= room else line[: room - 4].rsplit(" ", 1)[0] + " ..."


def _why(plan: Plan) -> str:
    """One sentence on the largest thing in the way."""
    rank = plan.ranks[min(plan.verdict.rank, len(plan.ranks) - 1)]
    stage = plan.verdict.stage
    note = next((s.note for s in rank.stages if s.name == stage), "")
    if stage == "cudagraph_profile":
        return f"vLLM tries graphs out on {note}, thrown away again; utilisation is not read there."
    if stage == "kv_check" and plan.kv is not None and plan.kv.need_bytes <= plan.kv.available_bytes:
        seqs, blocks = plan.resolved["max_num_seqs"], plan.kv.num_blocks
        if seqs <= blocks:
            return ""
        return f"Up to {seqs:,} requests run at once, each needs a block for its recurrent states; {blocks:,} fit."
    if stage == "kv_check" and plan.kv is not None:
        need, have = human(plan.kv.need_bytes), human(max(0, plan.kv.available_bytes))
        return f"One request of {plan.resolved['max_model_len']:,} tokens needs {need} of KV cache; {have} is left."
    if stage == "startup_free_memory":
        free = rank.total_bytes - rank.stages[0].resident_bytes
        return f"The budget of {gib(rank.requested_bytes)} must be free at the start; {gib(max(0, free))} is."
    if stage != "weights_load":
        return ""
    return _unquantised(plan) or f"The weights alone take {gib(rank.terms['weights'].bytes)} of every GPU."


def _unquantised(plan: Plan) -> str:
    """What a quantised checkpoint left as it was, if that is the bulk."""
    model = load(plan.deployment.model)
    if model.quantization is None or not model.layers:
        return ""
    plain: dict[str, int] = {}
    for layer in model.layers:
        for m in layer.block.modules:
            if isinstance(m, Linear) and m.scheme is None and m.role in ("attention", "mlp", "linear_attn"):
                plain[m.role] = plain.get(m.role, 0) + m.out_features * m.in_features * 2
    name, size = max(plain.items(), key=lambda x: x[1], default=("", 0))
    ranks = max(1, len(plan.ranks))
    if size < 0.2 * sum(r.terms["weights"].bytes for r in plan.ranks):
        return ""
    return f"This checkpoint is only partly quantised: {role(name)} is still 16-bit, {gib(size / ranks)} of every GPU."


def _checkpoints(plan: Plan) -> list[tuple[str, str]]:
    """Other checkpoints of the same model that start with the same flags."""
    from oomph import catalog

    if plan.verdict.stage == "startup_free_memory":
        return []
    found = []
    for name in catalog.variants(plan.model)[:12]:
        made = _started(replace(plan.deployment, model=name)) if name != plan.model else None
        if made is not None and made.kv is not None:
            weights = made.ranks[0].terms["weights"].bytes
            length = made.deployment.flags.get("max_model_len")
            asked = plan.deployment.flags.get("max_model_len")
            label = name if length == asked else f"{name} --max-model-len {length}"
            effect = f"{gib(weights)} a GPU, {made.kv.logged_tokens:,} tokens"
            found.append((length == asked, weights, (label, effect)))
    return [row for _, _, row in sorted(found, reverse=True)[:2]]


def _started(deployment: Deployment) -> Plan | None:
    """As it is, or else with the longest context that it starts with."""
    for length in (None, 65536, 32768, 16384, 8192):
        flags = deployment.flags if length is None else {**deployment.flags, "max_model_len": length}
        try:
            made = run(replace(deployment, flags=flags))
        except OomphError:
            return None
        if made.fits and made.ranks:
            return made
        if made.verdict.stage not in ("kv_check", "other"):
            return None
    return None
