"""What one TensorRT-LLM release does: `at(version)` is the only function that sees a version."""

from functools import lru_cache

from oomph.facts import changes
from oomph.facts.changes import group
from oomph.facts.trtllm.memory import Memory
from oomph.facts.trtllm.models import Models
from oomph.facts.trtllm.versions import nearest, parse


class Facts(changes.Facts):
    memory = group(Memory)
    models = group(Models)


@lru_cache(maxsize=64)
def at(version: str) -> Facts:
    return Facts.at(parse(nearest(version)[0]))
