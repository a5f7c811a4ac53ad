"""What Ollama can do for a model on some GPUs: its library's usual quantisation, on the GPUs or partly beside them."""

import re

from msgspec.structs import replace

from oomph.engines.llamacpp.offer import USUAL, Choice, ways_of
from oomph.engines.llamacpp.source import repository_of_files
from oomph.engines.values import Offer, Planner, Way
from oomph.errors import CannotPlan, OomphError
from oomph.facts.ollama.library import LATEST, MODELS
from oomph.ir import Device


def ways(model: str, gpus: tuple[Device, ...], planner: Planner, release: str) -> tuple[Way, ...]:
    if model.lower().endswith(".gguf"):
        raise CannotPlan(f"Ollama takes a file through a Modelfile: FROM {model[:200]}")

    def command(choice: Choice, length: int) -> tuple[str, ...]:
        cache = ("OLLAMA_FLASH_ATTENTION=1", f"OLLAMA_KV_CACHE_TYPE={choice.cache}") if choice.cache else ()
        settings = (f"OLLAMA_NUM_PARALLEL={choice.slots}", f"OLLAMA_CONTEXT_LENGTH={length}", *cache)
        return (*settings, "ollama", "run", f"hf.co/{repository or model}:{choice.quant}")

    repository = repository_of_files(model)
    name = library_name(model) or f"hf.co/{repository or 'REPOSITORY-WITH-ITS-GGUF'}:{USUAL}"

    def typed(planned: Offer) -> Offer:
        """The settings are the server's: `ollama run` asks one that is up already."""
        if not planned.words or planned.at is None:
            return planned
        words, longer = (*planned.words[:-3], "ollama", "serve", "&", "ollama", "run", name), planned.at
        return replace(planned, words=words, at=lambda length: typed(longer(length)))

    def as_typed(way: Way) -> Way:
        return replace(way, at=lambda context, users: typed(way.at(context, users)))

    return tuple(as_typed(way) for way in ways_of(command, gpus, (USUAL,), planner, release, placed=False))


def library_name(model: str) -> str:
    """What Ollama's library calls a checkpoint of the catalogue; "" where it has none, or nobody knows."""
    from oomph import catalog

    name = model.rpartition("/")[2].lower()
    sizes = re.findall(r"(?:e|\d{1,4}x)?\d{1,6}(?:\.\d{1,4})?b(?![a-z])(?:-a\d{1,6}b)?", name)
    plain = re.sub(r"[^a-z0-9]", "", name)
    for family in sorted(LATEST, key=len, reverse=True):
        if not sizes or not plain.startswith(re.sub(r"[^a-z0-9]", "", family)):
            continue
        try:
            entry = catalog.find(f"{family} {sizes[0].replace('-', ' ')}")
        except OomphError:
            continue
        if entry is not None and entry.id == model:
            return f"{family}:{sizes[0]}"
    # last: the table also has checkpoints of the same shape under another model's name
    return next((own for own, checkpoint in MODELS.items() if checkpoint == model), "")
