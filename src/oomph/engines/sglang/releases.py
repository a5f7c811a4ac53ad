"""The same command under another release: flags that it lacks are left out, those that it renamed are renamed."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from oomph.facts.sglang.flags import by_field, option
from oomph.ir.deployment import Deployment

# fields that went by another name (0.5.14 gave each kind of graph its own flags)
_RENAMED = {
    "cuda_graph_max_bs": "cuda_graph_max_bs_decode",
    "cuda_graph_bs": "cuda_graph_bs_decode",
    "mamba_scheduler_strategy": "mamba_radix_cache_strategy",
}


def at_release(deployment: Deployment, version: str) -> tuple[Deployment, tuple[str, ...]]:
    known = by_field(version)
    back = {new: old for old, new in _RENAMED.items()}
    flags: dict[str, Any] = {}
    sentences = []
    for field, value in deployment.flags.items():
        name = field if field in known else _RENAMED.get(field, back.get(field, ""))
        if name in known:
            flags[name] = value
        else:
            spelled = option(field, deployment.engine.version) or f"--{field.replace('_', '-')}"
            sentences.append(f"SGLang {version} has no {spelled}: left out")
    moved = replace(deployment, flags=flags, engine=replace(deployment.engine, version=version))
    return moved, tuple(sentences)
