"""The checkpoint of a drafter: loaded as the model is, and left out of the plan with a note where it cannot be read."""

from msgspec.structs import replace

from oomph.engines.trtllm.resolve import draft_name
from oomph.errors import OomphError
from oomph.ir import Deployment, Model
from oomph.sources.load import load_once


def with_draft_model(deployment: Deployment) -> tuple[Deployment, Model | None]:
    name = draft_name(deployment.flags)
    if not name or name == deployment.model:
        return deployment, None
    try:
        draft = load_once(name)
    except OomphError as missing:
        return _without(deployment, name, missing.message), None
    if draft.opaque or not draft.layers:
        return _without(deployment, name, f"the architecture {draft.architecture} is not known"), None
    return deployment, draft


def _without(deployment: Deployment, name: str, reason: str) -> Deployment:
    note = f"the weights and the cache of the draft model {name} are not in this plan: {reason}"
    return replace(deployment, notes=(*deployment.notes, note))
