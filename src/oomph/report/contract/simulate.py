"""The shape of a simulation in JSON, and what makes it."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType, to_builtins

from oomph.ir import Engine
from oomph.report.contract.plan import SCHEMA
from oomph.simulate.api import Held, Load, Setup, Simulation, Sweep, Target, TwoReleases, breach
from oomph.simulate.result import Result


class SweepRowOutput(Struct, frozen=True):
    users: int
    held: bool
    result: Result


class SimulationOutput(Struct, frozen=True, kw_only=True):
    """`oomph simulate --json`: one load (`result`), the most users that are held (`users`), or several (`sweep`)."""

    schema: int
    engine: Engine
    model: str
    gpus: list[str]
    replicas: int
    scheduler: dict[str, Any]
    time: dict[str, Any]
    load: Load
    notes: list[str]
    target: Target | UnsetType = UNSET
    breaks: str | UnsetType = UNSET  # what of the target is not kept; "" where all is
    held_users: int | UnsetType | None = UNSET
    held_rate: float | UnsetType | None = UNSET
    users: int | UnsetType = UNSET
    users_low: int | UnsetType = UNSET
    users_high: int | UnsetType = UNSET
    result: Result | UnsetType | None = UNSET
    beyond: Result | UnsetType | None = UNSET
    sweep: list[SweepRowOutput] | UnsetType = UNSET


class TwoReleasesOutput(Struct, frozen=True):
    """`oomph simulate --to --json`."""

    schema: int
    before: SimulationOutput
    after: SimulationOutput


def simulation_output(answer: Simulation | Held | Sweep | TwoReleases) -> SimulationOutput | TwoReleasesOutput:
    if isinstance(answer, TwoReleases):
        return TwoReleasesOutput(SCHEMA, _output(answer.before), _output(answer.after))
    return _output(answer)


def _output(answer: Simulation | Held | Sweep) -> SimulationOutput:
    setup, deployment = answer.setup, answer.setup.deployment
    return SimulationOutput(
        schema=SCHEMA,
        engine=deployment.engine,
        model=deployment.model,
        gpus=[gpu.name for gpu in deployment.gpus],
        replicas=setup.replicas,
        scheduler=to_builtins(setup.built.config),
        time=_time(setup),
        load=answer.load,
        notes=list(setup.built.notes),
        **_figures(answer),
    )


def _figures(answer: Simulation | Held | Sweep) -> dict[str, Any]:
    if isinstance(answer, Held):
        return {
            "target": answer.target, "users": answer.users, "users_low": answer.low, "users_high": answer.high,
            "breaks": answer.breaks, "result": answer.result, "beyond": answer.beyond,
        }  # fmt: skip
    if isinstance(answer, Sweep):
        rows = [SweepRowOutput(users, not breach(result, answer.target), result) for users, result in answer.rows]
        return {"target": answer.target, "sweep": rows}
    if answer.target is None:
        return {"result": answer.result}
    return {
        "target": answer.target, "breaks": breach(answer.result, answer.target), "result": answer.result,
        "held_users": answer.held_users if answer.held_users >= 0 else None,
        "held_rate": answer.held_rate if answer.held_rate >= 0 else None,
    }  # fmt: skip


def _time(setup: Setup) -> dict[str, Any]:
    return {
        "timed": setup.timed,
        "calibrated": setup.calibrated,
        **to_builtins(setup.factors),
        "error": to_builtins(setup.built.error),
    }
