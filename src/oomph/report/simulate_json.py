"""A simulation as JSON (report/contract/answers.py)."""

from typing import Any

from msgspec import to_builtins

from oomph.report.contract.plan import SCHEMA
from oomph.simulate.api import Held, Load, Setup, Simulation, Sweep, TwoReleases, breach


def simulation_json(answer: Simulation | Held | Sweep | TwoReleases) -> dict[str, Any]:
    if isinstance(answer, TwoReleases):
        sides = {"before": simulation_json(answer.before), "after": simulation_json(answer.after)}
        return {"schema": SCHEMA, **sides}
    return {**_setup_json(answer.setup, answer.load), **_figures(answer)}


def _figures(answer: Simulation | Held | Sweep) -> dict[str, Any]:
    if isinstance(answer, Held):
        return {
            "target": to_builtins(answer.target),
            "users": answer.users,
            "users_low": answer.low,
            "users_high": answer.high,
            "breaks": answer.breaks,
            "result": to_builtins(answer.result),
            "beyond": to_builtins(answer.beyond),
        }
    if isinstance(answer, Sweep):
        rows = [{"users": n, "held": not breach(r, answer.target), "result": to_builtins(r)} for n, r in answer.rows]
        return {"target": to_builtins(answer.target), "sweep": rows}
    judged: dict[str, Any] = {}
    if answer.target is not None:
        judged = {"target": to_builtins(answer.target), "breaks": breach(answer.result, answer.target)}
        judged["held_users"] = answer.held_users if answer.held_users >= 0 else None
        judged["held_rate"] = answer.held_rate if answer.held_rate >= 0 else None
    return {**judged, "result": to_builtins(answer.result)}


def _setup_json(setup: Setup, load: Load) -> dict[str, Any]:
    deployment = setup.deployment
    return {
        "schema": SCHEMA,
        "engine": {"name": deployment.engine.name, "version": deployment.engine.version},
        "model": deployment.model,
        "gpus": [gpu.name for gpu in deployment.gpus],
        "replicas": setup.replicas,
        "scheduler": to_builtins(setup.built.config),
        "time": {
            "timed": setup.timed,
            "calibrated": setup.calibrated,
            **to_builtins(setup.factors),
            "error": to_builtins(setup.built.error),
        },
        "load": to_builtins(load),
        "notes": list(setup.built.notes),
    }
