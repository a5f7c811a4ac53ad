"""A planned deployment as something to start: command, --config YAML, docker run, compose, Kubernetes."""

from __future__ import annotations

from oomph.ir.plan import Plan

FORMS = ("command", "yaml", "docker", "compose", "kubernetes", "lws")


def emit(plan: Plan, form: str) -> str:
    from oomph.commands import to_shell

    return to_shell(plan.deployment) + "\n"
