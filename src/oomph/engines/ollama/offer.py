"""What Ollama can do for a model on some GPUs: its library's usual quantisation, on the GPUs or partly beside them."""

from __future__ import annotations

from msgspec.structs import replace

from oomph.engines.llamacpp.offer import USUAL, best
from oomph.engines.protocol import Offer
from oomph.ir.hardware import Device


def offer(model: str, gpus: tuple[Device, ...], context: int) -> Offer:
    def command(quant: str, slots: int) -> tuple[str, ...]:
        settings = (f"OLLAMA_NUM_PARALLEL={slots}", f"OLLAMA_CONTEXT_LENGTH={context}")
        return (*settings, "ollama", "run", f"hf.co/{model}:{quant}")

    planned = best(command, gpus, (USUAL,))
    # Ollama's name for a GGUF depends on where it comes from: what is sure are the server's settings.
    return replace(planned, words=(*planned.words[:-2], "serve")) if planned.words else planned
