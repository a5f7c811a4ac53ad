"""What is known about the models of the catalogue beyond their shapes: for "what should I run?", read when it is asked.

facts.json holds one line per model and one per checkpoint; tools/build_facts.py computes it from the catalogue, the
published figures of facts/quality.py and the hub's metadata. Bytes and parameters follow from the catalogue's own
shapes, so that a search can put cards aside without building a model.
"""

import os
from functools import cache

import msgspec
from msgspec import Struct

FILE = os.path.join(os.path.dirname(__file__), "facts.json")
# The GGUF quantisations that are offered, best first: llama.cpp's own order of perplexity (tools/quantize/README.md).
TAGS = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "IQ4_XS", "Q3_K_M", "Q2_K")


class ModelFacts(Struct, frozen=True, array_like=True):
    """One model: what all of its checkpoints share."""

    name: str  # the catalogue's family
    plain: str  # its maker's own checkpoint, from which GGUF files are converted
    parameters: int
    active: int  # parameters that one token is multiplied with
    context: int
    kv_bytes: int  # of one token, 16 bits, in layers that keep every token
    uses: str  # letters: c chat, k code, r reasoning, v vision, e embedding, a audio, b base
    date: str  # of the maker's checkpoint on the hub; "" = not known
    licence: str
    quality: tuple[float, float, float]  # value, low, high on the June scale of facts/quality.py
    quality_from: int  # index into Facts.sources
    gguf_repo: str  # a repository that has its GGUF files; "" = none is known
    gguf_bytes: tuple[int, ...]  # weights in GPU memory, by TAGS; () = llama.cpp cannot be planned for it


class CheckpointFacts(Struct, frozen=True, array_like=True):
    id: str
    model: int  # index into Facts.models
    weights: int  # bytes, towers aside
    precision: str  # of most of its weights
    native: bool  # as its maker published it: nothing is lost against the published figures
    source: int  # where its configuration is from: index into Facts.sources


class Facts(Struct, frozen=True):
    sources: tuple[str, ...]
    models: tuple[ModelFacts, ...]
    checkpoints: tuple[CheckpointFacts, ...]


@cache
def facts() -> Facts:
    with open(FILE, "rb") as file:
        return msgspec.json.decode(file.read(), type=Facts)
