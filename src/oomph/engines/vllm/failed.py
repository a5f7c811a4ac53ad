"""What a log of vLLM tells of the deployment that failed: something the planner can take."""

import shlex
from typing import Any

from oomph.doctor.case import Case
from oomph.doctor.rebuild import devices, gpu_row, own_context
from oomph.engines.vllm.command.arguments import parse
from oomph.errors import OomphError
from oomph.facts.vllm.flags import Options, options_of
from oomph.facts.vllm.versions import LAST_WITH_V0, NEWEST, nearest
from oomph.ir import Deployment, Engine
from oomph.logs.deployment import render

ENGINE = "vllm"


def failed_deployment(case: Case) -> Deployment | None:
    """The deployment that a log tells of, with the terms that it prints; None where model or GPUs are missing."""
    rebuilt = case.rebuilt
    gpus = devices(case)
    if not rebuilt.model or not gpus:
        return None
    try:
        version, _ = nearest(rebuilt.version or (LAST_WITH_V0 if case.has("kv_need_v0") else NEWEST))
    except OomphError:
        return None
    engine = Engine(ENGINE, version, rebuilt.version_from or "newest known")
    flags = _readable(rebuilt.flags, options_of(version))
    return Deployment(engine, rebuilt.model, flags, gpus, rebuilt.environment, given=observed(case))


def _readable(flags: dict[str, Any], options: Options) -> dict[str, Any]:
    """The flags that this release reads, typed as it types them; what a paste has garbled is left out."""
    readable: dict[str, Any] = {}
    for name, value in flags.items():
        try:
            readable |= dict(parse(shlex.split(render("", {name: value}))[3:], options).flags)
        except (OomphError, ValueError):
            continue
    return readable


def observed(case: Case) -> dict[str, int]:
    """Terms as the log has them: what the loaded weights really took, what is on the card outside of PyTorch."""
    pinned = {}
    if weights := case.value("weights", "weights"):
        pinned["weights"] = weights
    outside = case.account.get("context")
    if case.oom is not None and outside is not None:
        own = own_context(case, gpu_row(case.account.total, case.capability, case.named_gpu))
        if case.stage == "weights_load":
            pinned["context"] = outside
        elif case.before("weights") and outside > 2 * own:
            pinned["non_torch"] = outside - own
    return pinned
