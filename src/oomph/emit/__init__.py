"""A planned deployment as something to start: command, --config YAML, docker run, compose, Kubernetes."""

from __future__ import annotations

from oomph.errors import CannotPlan, CommandError
from oomph.ir.plan import Plan

FORMS = ("command", "yaml", "docker", "compose", "kubernetes", "lws")


def emit(plan: Plan, form: str, *, per_node: int = 8) -> str:
    """`per_node`: GPUs of one node, for lws."""
    from oomph.emit import command, docker, kubernetes
    from oomph.emit.resources import host
    from oomph.units import cdiv

    d = plan.deployment
    if form not in FORMS:
        raise CommandError(f"{form!r} is not one of {', '.join(FORMS)}")
    if not plan.fits:
        raise CannotPlan("the plan does not fit: there is nothing to start")
    if form == "command":
        return command.command(d)
    if form == "yaml":
        return command.config(d)
    if form == "docker":
        return docker.docker_run(plan, host(plan))
    if form == "compose":
        return docker.compose(plan, host(plan))
    if form == "kubernetes":
        return kubernetes.deployment(plan, host(plan))
    return kubernetes.leader_worker_set(plan, host(plan, cdiv(len(plan.ranks), per_node)), per_node)
