"""--model-impl transformers: a model that transformers' own code builds, with vLLM's layers put in place of its own."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from oomph.engines.vllm.kv.specs import Refused
from oomph.engines.vllm.traits import Traits, traits_of
from oomph.facts.transformers import NOT_IN_TRANSFORMERS
from oomph.facts.vllm.structure import (
    INCOMPATIBLE_REFUSAL,
    NOT_DISPATCHED,
    NOT_IN_TRANSFORMERS_REFUSAL,
    WITHOUT_POSITIONS,
    Structure,
)
from oomph.ir import Attention, Layer, Mixer, Model, Module, Param, Rope, State


def with_transformers(traits: Traits, flags: Mapping[str, Any]) -> Traits:
    """Decoders of attention layers only: what becomes of encoders, latent attention and states is not known."""
    model = traits.model
    if flags.get("model_impl") != "transformers" or model.towers:
        return traits
    plain = all(isinstance(m, Attention) and not m.kv_lora_rank for layer in model.layers for m in layer.mixers)
    return _without_tables(traits) if plain else traits


def verify_transformers_config(model: Model, flags: Mapping[str, Any], structure: Structure) -> None:
    """registry.py:1273 (0.32.0): neither a class of Transformers nor one beside the weights, or one that vLLM cannot
    give its own attention."""
    if flags.get("model_impl") != "transformers":
        return
    name = model.architecture
    if name in NOT_IN_TRANSFORMERS and not flags.get("trust_remote_code"):
        raise Refused("ValidationError", NOT_IN_TRANSFORMERS_REFUSAL.format(architecture=name))
    if name in structure.incompatible:
        raise Refused("ValidationError", INCOMPATIBLE_REFUSAL.format(architecture=name))


def verify_transformers_build(model: Model, flags: Mapping[str, Any]) -> None:
    """compilation/decorators.py: the arguments that vary from batch to batch must exist."""
    if flags.get("model_impl") != "transformers":
        return
    where = WITHOUT_POSITIONS.get(model.architecture)
    if where is not None:
        text = f"Argument position_ids not found in the forward method of <class 'transformers.models.{where}'>"
        raise Refused("ValueError", text)
    states = [layer.index for layer in model.layers if any(isinstance(mixer, State) for mixer in layer.mixers)]
    if states:
        raise Refused("ValueError", NOT_DISPATCHED.format(layer=states[0]))


@lru_cache(maxsize=64)
def _without_tables(traits: Traits) -> Traits:
    """transformers/base.py (0.27.0) replaces linear layers, norms and the embedding; positions stay transformers' own,
    which keeps inv_freq and a copy of it, in float32, where vLLM's classes keep a table of all positions."""
    model = traits.model
    ropes: dict[Rope, None] = {}

    def without_table(mixer: Mixer) -> Mixer:
        if not isinstance(mixer, Attention) or mixer.rope is None:
            return mixer
        ropes[mixer.rope] = None
        return replace(mixer, rope=None)

    def layer(of: Layer) -> Layer:
        return replace(of, mixers=tuple(without_table(mixer) for mixer in of.mixers))

    layers = tuple(layer(of) for of in model.layers)
    named = "rotary_emb.inv_freq"
    modules: list[Module] = [m for m in model.root.modules if not (isinstance(m, Param) and m.name.startswith(named))]
    for index, rope in enumerate(ropes):
        frequencies = Param(f"{named}.{index}", (rope.dim,), "F32", "other", stored=False, created_dtype="F32")
        modules.append(replace(frequencies, everywhere=True))
    return traits_of(replace(model, layers=layers, root=replace(model.root, modules=tuple(modules))))
