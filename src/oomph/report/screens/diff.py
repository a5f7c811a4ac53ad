"""A diff for people, and as JSON: the verdicts, what moved, and the releases that moved it."""

from typing import Any

from msgspec import structs, to_builtins

from oomph.answers.diff import Change, Diff
from oomph.engines.registry import engine_of
from oomph.report.contract.answers import ChangeOutput, DiffOutput
from oomph.report.contract.plan import SCHEMA
from oomph.report.plan_json import plan_output
from oomph.report.screens.plan_lines import gpus_line
from oomph.report.terminal import Style, clean, folded, title
from oomph.text.tables import grouped
from oomph.units import human

_COUNTS = {"kv_tokens", "num_blocks", "max_concurrency"}
_NAMES = {
    "available_kv": "KV cache memory",
    "kv_tokens": "KV cache tokens (as printed)",
    "users_held": "users held",
    "max_concurrency": "requests at once",
    "kv_need_of_one_request": "KV of one longest request",
    "activation_peak": "activation peak",
    "cudagraph": "CUDA graphs",
    "non_torch": "outside PyTorch",
    "load_peak": "load peak",
    "num_blocks": "KV cache blocks",
}


def render(difference: Diff, style: Style, *, width: int = 100, everything: bool = False) -> str:
    before, after = difference.before, difference.after
    lines = [
        "",
        *title([style.bold(_name(before)), "->", style.bold(_other(before, after))], width),
        "",
        f"  {'':<30}  {_side(before):>22}  {_side(after):>22}",
    ]
    if difference.flags:
        lines += [
            "",
            f"  {style.bad('WILL NOT START')}   no such flag in {_release(after)}:",
            *[folded(f"           {sentence}", width) for sentence in difference.flags],
            "",
            "  Without these flags:",
        ]
    figures = ("figure",) if difference.flags else ("figure", "verdict")
    lines += [_row(change) for change in difference.changes if change.kind in figures]
    settings = [c for c in difference.changes if c.kind == "setting"]
    if settings:
        lines += ["", f"  {style.bold('Settings that move')}"] + [_row(c) for c in settings]
    steps = [c for c in difference.steps if c.kind != "setting" or c.what in {s.what for s in settings}]
    steps = [c for c in steps if value_words(c.what, c.before) != value_words(c.what, c.after)]
    if steps:
        lines += ["", f"  {style.bold('Which release')}"]
        for release, moved in grouped(steps, lambda step: step.since).items():
            lines += [f"  {release if i == 0 else '':<8} {_short(c)}" for i, c in enumerate(moved[:6])]
    if not difference.changes:
        lines.append("  nothing moves")
    if not after.fits and after.verdict.message and not difference.flags:
        lines += [
            "",
            folded(f"  {engine_of(after.deployment).title:<9}{' '.join(after.verdict.message.split())}", width),
        ]
    return "\n".join(lines) + "\n\n"


def _name(plan: Any) -> str:
    return f"{plan.model} on {_release(plan)}"


def _release(plan: Any) -> str:
    return f"{engine_of(plan.deployment).title} {plan.deployment.engine.version}"


def _other(before: Any, after: Any) -> str:
    """The second side: what differs of model, release, GPUs and flags."""
    if before.deployment.gpus != after.deployment.gpus:
        return f"{_name(after)}, {gpus_line(after.deployment.gpus)}"
    if _name(before) != _name(after):
        return _name(after)
    changed = {k: v for k, v in after.deployment.flags.items() if before.deployment.flags.get(k) != v}
    words = " ".join(f"--{k.replace('_', '-')}" + ("" if v is True else f" {v}") for k, v in changed.items())
    return f"with {clean(words)[:200]}" if words else _name(after)


def _side(plan: Any) -> str:
    return {"fits": "fits", "close": "too close to call", "at_risk": "starts, at risk"}.get(
        plan.verdict.outcome, "will not start"
    )


def value_words(what: str, value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, dict):
        return ", ".join(f"{n} x {name}" for name, n in value.items())
    if isinstance(value, list):
        return f"{len(value)} sizes" if value else "none"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}" if what in _COUNTS or abs(value) < 1 << 20 else human(value)
    return str(value)


def _row(change: Change) -> str:
    before, after = (value_words(change.what, value) for value in (change.before, change.after))
    return f"  {change_words(change):<30}  {before:>22}  {after:>22}"


def change_words(change: Change) -> str:
    """A figure in words, a setting in vLLM's own."""
    return _NAMES.get(change.what, change.what if change.kind == "setting" else change.what.replace("_", " "))


def _short(change: Change) -> str:
    return (
        f"{change_words(change)}: {value_words(change.what, change.before)} -> {value_words(change.what, change.after)}"
    )


def diff_json(difference: Diff) -> dict[str, Any]:
    output = DiffOutput(
        SCHEMA,
        plan_output(difference.before),
        plan_output(difference.after),
        [_change(c) for c in difference.changes],
        [_change(c) for c in difference.steps],
        list(difference.flags),
    )
    plain: dict[str, Any] = to_builtins(output)
    return plain


def _change(change: Change) -> ChangeOutput:
    return ChangeOutput(**structs.asdict(change))
