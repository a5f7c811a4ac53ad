"""Alert rules of Prometheus from the plan's figures: when memory is no longer what was planned.

Metrics: the engine's own (`usage_metrics` of its protocol) and cAdvisor's container_memory_working_set_bytes. The card
has no rule: PyTorch keeps what it once had, so that a card that is full while it serves is no sign of trouble.
"""

from typing import Any

from oomph.emit.kubernetes import object_name
from oomph.emit.resources import Host
from oomph.emit.yaml_text import dump
from oomph.engines.registry import engine_of
from oomph.ir import Plan
from oomph.units import human

_FULL = 0.95  # of the KV cache: vLLM and SGLang begin to preempt at 1


def rules(plan: Plan, host: Host) -> str:
    engine, name = engine_of(plan.deployment), object_name(plan.deployment)
    metrics = engine.usage_metrics
    alerts: list[dict[str, Any]] = []
    if metrics:
        tokens = f"{plan.kv.logged_tokens:,}" if plan.kv is not None else "its"
        alerts.append(
            _alert(
                "KvCacheNearlyFull", f"{metrics[0]} > {_FULL}", "5m", f"The KV cache of {tokens} tokens is nearly full."
            )
        )
    if len(metrics) > 1:
        rate = f"rate({metrics[1]}[5m]) > 0.1"
        alerts.append(_alert("RequestsPreempted", rate, "10m", "Requests are preempted and computed again."))
    container = f'container_memory_working_set_bytes{{container="{plan.deployment.engine.name}"}}'
    alerts.append(
        _alert(
            "HostMemoryBeyondPlan", f"{container} > {host.limit_bytes}", "5m",
            f"The host needs more than the {human(host.limit_bytes)} of the plan's upper end.",
        )
    )  # fmt: skip
    return dump({"groups": [{"name": f"oomph-{name}", "rules": alerts}]})


def _alert(name: str, expression: str, lasting: str, summary: str) -> dict[str, Any]:
    return {
        "alert": name, "expr": expression, "for": lasting, "labels": {"severity": "warning"},
        "annotations": {"summary": summary},
    }  # fmt: skip
