"""What a plan says about its card: a dtype that the card forces on the weights, a plugin that must be installed."""

from collections.abc import Iterator

from oomph.engines.vllm.resolve.limits import torch_dtype
from oomph.facts.vllm.card_formats import PLUGINS
from oomph.facts.vllm.vendors import is_gaudi
from oomph.ir import Deployment, Model


def card_notes(deployment: Deployment, model: Model, dtype: str) -> Iterator[str]:
    """`dtype`: what vLLM ends up with."""
    card = deployment.gpus[0]
    own = torch_dtype(model.dtype)
    if dtype == "float32" and own in ("bfloat16", "float16") and str(deployment.flags.get("dtype", "auto")) == "auto":
        yield (
            f"vLLM loads these {own} weights as float32, in twice the bytes: the {card.name} has no bfloat16 (compute "
            f"capability {card.sm / 10}), and {model.model_type} takes no float16"
        )
    if is_gaudi(card.name):
        package, _, what = PLUGINS["Gaudi"]
        yield f"vLLM itself does not run on Gaudi: the plugin {package} must be installed. {what}"
