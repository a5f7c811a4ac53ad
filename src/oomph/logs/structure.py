"""What a log is made of before any wording is looked at: runs."""

from collections.abc import Callable, Sequence
from typing import Final

from oomph.ir.log_kinds import LogKind
from oomph.ir.observation import Observation

# A process that starts prints one of these once. The others are printed by every rank and begin a run only where the
# one before had got further.
STARTS: Final[frozenset[LogKind]] = frozenset({"args", "sg_args", "lc_build"})
SOFT_STARTS: Final[frozenset[LogKind]] = frozenset(
    {
        "engine_config",
        "load_begin",
        "sg_init",
        "sg_load_begin",
        "ol_server",
        "ol_runner",
        "tr_version",
        "lc_file",
        "version",
    }
)


def runs(
    observations: Sequence[Observation], went_further: Callable[[Sequence[Observation]], bool]
) -> list[Sequence[Observation]]:
    """The text in pieces of one start-up each. `went_further`: these lines are more than the beginning of a start."""
    cuts = [0]
    for index, observation in enumerate(observations):
        if index <= cuts[-1] or observation.kind not in STARTS | SOFT_STARTS:
            continue
        piece = observations[cuts[-1] : index]
        hard = observation.kind in STARTS and any(p.kind in STARTS for p in piece)
        soft = observation.kind in SOFT_STARTS and any(p.kind == observation.kind for p in piece)
        if hard or (soft and went_further(piece)):
            cuts.append(index)
    if cuts[1:] and observations[0].kind not in STARTS | SOFT_STARTS:
        first = next((i for i, observation in enumerate(observations) if observation.kind in STARTS), 0)
        if 0 < first < cuts[1] and not went_further(observations[:first]):
            cuts[0] = first  # a title and a command above the first start belong to no run
    return [observations[a:b] for a, b in zip(cuts, [*cuts[1:], len(observations)])]
