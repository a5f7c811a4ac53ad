"""What one SGLang release does: `at(version)` is the only function that sees a version; all others get its facts."""

from functools import lru_cache

from oomph.facts import changes
from oomph.facts.changes import group
from oomph.facts.sglang.architectures import Architectures
from oomph.facts.sglang.attention import Kernels
from oomph.facts.sglang.drafts import Drafts
from oomph.facts.sglang.graphs import PrefillGraphs
from oomph.facts.sglang.memory import Buffers, Memory, Pools
from oomph.facts.sglang.models import Models
from oomph.facts.sglang.parsers import Parsers
from oomph.facts.sglang.scheduler import Scheduling
from oomph.facts.sglang.versions import nearest, parse
from oomph.facts.sglang.weights import Weights


class Facts(changes.Facts):
    architectures = group(Architectures)
    buffers = group(Buffers)
    drafts = group(Drafts)
    kernels = group(Kernels)
    prefill_graphs = group(PrefillGraphs)
    memory = group(Memory)
    models = group(Models)
    parsers = group(Parsers)
    pools = group(Pools)
    scheduler = group(Scheduling)
    weights = group(Weights)


@lru_cache(maxsize=64)
def at(version: str) -> Facts:
    return Facts.at(parse(nearest(version)[0]))
