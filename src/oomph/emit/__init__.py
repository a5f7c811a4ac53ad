"""A planned deployment as something to start: command, --config YAML, docker run, compose, Kubernetes."""

from oomph.engines.registry import engine_of
from oomph.errors import CannotPlan, CommandError
from oomph.ir import Plan


def emit(plan: Plan, form: str, *, per_node: int = 0) -> str:
    """`form`: one of the engine's `emit_forms`. `per_node`: GPUs of one node, for those that have several; 0: as the
    GPUs say, else 8."""
    from oomph.commands import to_shell
    from oomph.emit import docker, kubernetes
    from oomph.units import cdiv

    engine = engine_of(plan.deployment)
    here = sum(device.node == 0 for device in plan.deployment.gpus)
    per_node = per_node or (here if here < len(plan.deployment.gpus) else 8)
    if form not in engine.emit_forms:
        raise CommandError(f"{form!r} is not one of {', '.join(engine.emit_forms)}")
    if not plan.fits:
        raise CannotPlan("the plan does not fit: there is nothing to start")
    if form == "command":
        return to_shell(plan.deployment) + "\n"
    if form == "yaml":
        return engine.config_file(plan.deployment)
    if form == "docker":
        return docker.docker_run(plan, engine.host_needs(plan))
    if form == "compose":
        return docker.compose(plan, engine.host_needs(plan))
    if form == "kubernetes":
        return kubernetes.deployment(plan, engine.host_needs(plan))
    nodes = cdiv(len(plan.ranks), per_node)
    if form == "nodes":
        return engine.launch_lines(plan, nodes)
    if form == "rayservice":
        from oomph.emit.ray import ray_service

        return ray_service(plan, engine.host_needs(plan, nodes), per_node)
    return kubernetes.leader_worker_set(plan, engine.host_needs(plan, nodes), per_node)
