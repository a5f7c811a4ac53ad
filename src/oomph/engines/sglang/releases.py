"""The same command under another release: flags that it lacks are left out, those that it renamed are renamed."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from oomph.facts.sglang.flags import Options, options_of
from oomph.ir import Deployment

# fields that went by another name (0.5.14 gave each kind of graph its own flags)
_RENAMED = {
    "cuda_graph_max_bs": "cuda_graph_max_bs_decode",
    "cuda_graph_bs": "cuda_graph_bs_decode",
    "mamba_scheduler_strategy": "mamba_radix_cache_strategy",
}


def at_release(deployment: Deployment, options: Options) -> tuple[Deployment, tuple[str, ...]]:
    known = options.by_field
    back = {new: old for old, new in _RENAMED.items()}
    flags: dict[str, Any] = {}
    sentences = []
    for field, value in deployment.flags.items():
        name = field if field in known else _RENAMED.get(field, back.get(field, ""))
        if name in known:
            flags[name] = value
        else:
            spelled = options_of(deployment.engine.version).option(field) or f"--{field.replace('_', '-')}"
            sentences.append(f"SGLang {options.release} has no {spelled}: left out")
    moved = replace(deployment, flags=flags, engine=replace(deployment.engine, version=options.release))
    return moved, tuple(sentences)
