"""The deployment of a log, with what the log prints pinned."""

from collections.abc import Sequence

from msgspec.structs import replace

from oomph.ir import Deployment
from oomph.ir.observation import Observation


def pin_printed(deployment: Deployment, observations: Sequence[Observation]) -> Deployment:
    """The peak and the temporary pool make the tokens exact."""
    terms: dict[str, int] = {}
    for kind, name, term in (("tr_budget", "peak", "peak"), ("tr_budget", "temporary", "temporary_kv")):
        value = next(
            (
                observation.values[name]
                for observation in observations
                if observation.kind == kind and name in observation.values
            ),
            None,
        )
        if isinstance(value, int):
            terms[term] = value
    return replace(deployment, given=terms)
