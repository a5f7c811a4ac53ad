"""Models for people, and as JSON: one line each, the best first, with its command, and why the first is first."""

from typing import Any

import msgspec

from oomph.commands import to_command
from oomph.engines.registry import engine_named
from oomph.report.screens.plan_lines import gpus_line
from oomph.report.terminal import Style, clean, wrap
from oomph.search.models import Models
from oomph.search.picks import Pick
from oomph.simulate.speed import worst_error
from oomph.text.tables import all_that_hold
from oomph.units import human


def render(answer: Models, style: Style, *, width: int = 100, everything: bool = False) -> str:
    people = f"{answer.users} user{'s' if answer.users > 1 else ''} at once"
    least = "" if answer.context_asked else "at least "
    lines = [
        "",
        f"  {style.bold(gpus_line(answer.gpus))}   {answer.purpose}, {least}{answer.context:,} tokens, {people}",
        "",
    ]
    if not answer.picks:
        text = f"no model of the catalogue runs here; {answer.looked_at} were looked at, {answer.possible} planned"
        stopped = f"  {style.bold('STOPPED')}   before a model was found that runs here, of {answer.looked_at}"
        lines.append(stopped if answer.interrupted else f"  {style.bad('NOTHING FITS')}   {text}")
        return "\n".join(lines) + "\n"
    lines += [
        *wrap(f"{style.good('BEST')}   {clean(answer.why)}", width, "  ", " " * 9),
        "",
        *(style.dim(line) for line in wrap(f"Order: {answer.objective}.", width, "  ", "  ")),
        "",
        style.bold(f"  {'':3}{'quality':>8}{'tok/s':>7}{'context':>10}{'users':>7}{'room':>9}  model"),
        *(line for number, pick in enumerate(answer.picks, 1) for line in _line(number, pick, style, width)),
    ]
    if answer.picks[0].others:
        lines += ["", f"  {style.bold('The first by other engines')}"]
        for other in answer.picks[0].others:
            rate = f"{other.tokens_per_second:.0f} tok/s, " if other.tokens_per_second else ""
            lines += [
                f"    {engine_named(other.engine).title}: {other.quantization}, {rate}{other.context:,} tokens",
                *wrap(other.command, width, " " * 6, " " * 8),
            ]
    lines += [
        *all_that_hold(
            (answer.more, style.dim("  further models fit: --limit 0")),
            (answer.interrupted, "  The search was stopped: these are the best so far."),
        ),
        *(line for note in answer.notes for line in wrap(f"note     {note}", width, "  ", " " * 11)),
        "",
        *(style.dim(line) for line in wrap(basis(answer), width, "  ", "  ")),
    ]
    return "\n".join(lines) + "\n"


def _line(number: int, pick: Pick, style: Style, width: int) -> list[str]:
    quality = pick.quality
    value = f"{quality.grade} {'' if quality.published else '~'}{max(0.0, quality.rank):.0f}"
    value = "-" if quality.grade == "-" else value
    speed = f"{_rounded(pick.speed.one_user)}" if pick.speed else "?"
    users = f"{pick.capacity}" if pick.capacity < 256 else "256+"
    name = pick.model.rpartition("/")[2]
    figures = f"{number:>4} {value:>8}{speed:>7}{pick.context:>10,}{users:>7}{human(pick.room_bytes):>9}  "
    what = f"{style.bold(clean(name))} {pick.quantization}, {engine_named(pick.engine).title}"
    lines = [figures + what, *[style.dim(line) for line in wrap(pick.command, width, " " * 6, " " * 8)]]
    if pick.traded and number > 1:
        lines += [style.dim(line) for line in wrap(pick.traded, width, " " * 6, " " * 8)]
    return lines


def _rounded(rate: float) -> str:
    """Two digits are all that the error allows, three are easier to compare."""
    return f"{rate:.1f}" if rate < 10 else f"{rate:,.0f}"


def basis(answer: Models) -> str:
    error = worst_error([p.speed for p in answer.picks if p.speed is not None])
    text = (
        f"{answer.looked_at} models looked at, {answer.possible} possible, {answer.plans} plans. Every line was "
        "planned and fits at the unfavourable end of every interval. quality: grade and figure on the scale of the "
        "Artificial Analysis index of June 2026; ~ is an estimate from size and date and ranks by its low end. "
    )
    if error:
        text += f"tok/s: one user behind a prompt of 2,048 tokens; {error}. "
    return text + "users: requests of this context that the cache holds. room: on the fullest GPU at the worst."


def models_json(answer: Models) -> dict[str, Any]:
    return {
        "schema": 1,
        "gpus": [{"name": g.name, "total_bytes": g.total_bytes, "used_bytes": g.used_bytes} for g in answer.gpus],
        "asked": {
            "for": answer.purpose, "context": answer.context if answer.context_asked else None,
            "users": answer.users, "prefer": answer.prefer,
        },
        "least_context": answer.context,
        "why": answer.why,
        "picks": [pick_json(pick) for pick in answer.picks],
        "looked_at": answer.looked_at,
        "possible": answer.possible,
        "plans": answer.plans,
        "more": answer.more,
        "interrupted": answer.interrupted,
        "objective": answer.objective,
        "notes": list(answer.notes),
    }  # fmt: skip


def pick_json(pick: Pick) -> dict[str, Any]:
    speed = pick.speed
    return {
        "model": pick.model,
        "checkpoint": pick.checkpoint,
        "quantization": pick.quantization,
        "engine": pick.engine,
        "context": pick.context,
        "users": pick.users,
        "users_held": pick.capacity,
        "tokens_per_second": round(speed.one_user, 1) if speed else None,
        "tokens_per_second_all": round(speed.all_users, 1) if speed else None,
        "first_token_seconds": round(speed.first_token_seconds, 3) if speed else None,
        "prompt_tokens": speed.prompt if speed else None,
        "speed_within_factor": speed.factor if speed else None,
        "quality": {
            "grade": pick.quality.grade, "value": pick.quality.value, "low": pick.quality.low,
            "high": pick.quality.high, "published": pick.quality.published, "source": pick.quality.source,
            "kept": list(pick.quality.recovery),
        },
        "room_bytes": pick.room_bytes,
        "parameters": pick.parameters,
        "active_parameters": pick.active,
        "date": pick.date or None,
        "licence": pick.licence or None,
        "command": pick.command,
        "args": to_command(pick.plan.deployment),
        "outcome": pick.plan.verdict.outcome,
        "traded": pick.traded,
        "others": msgspec.to_builtins(pick.others),
    }  # fmt: skip
