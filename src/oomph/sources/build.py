"""config.json (and headers, where there are any) -> Model. Folder, hub and catalogue all come through here."""

from collections.abc import Iterable, Mapping, Set
from contextvars import ContextVar
from typing import Any

from oomph.errors import ConfigError, UnknownCache
from oomph.ir import Attention, Block, Model, Role, Stored, Tensor, Vocab
from oomph.sources.arch import family
from oomph.sources.arch.base import Builder
from oomph.sources.arch.rope import context_length
from oomph.sources.config import Config
from oomph.sources.quant.schemes import read_quant
from oomph.sources.speculators import plain_config
from oomph.sources.stored import stored

MOST_LAYERS = 2_000  # a budget: such a plan takes a second; the deepest published models have about 130
# What a command lays over the checkpoint's config.json (--hf-overrides), for the models that are built under it.
config_overrides: ContextVar[Mapping[str, Any] | None] = ContextVar("config_overrides", default=None)


def overridden(raw: Any, overrides: Mapping[str, Any] | None) -> Any:
    """Sub-configurations are merged key by key; everything else is replaced."""
    if not overrides or not isinstance(raw, Mapping):
        return raw
    merged = dict(raw)
    for key, value in overrides.items():
        inner = merged.get(key)
        nested = key.endswith("_config") and isinstance(inner, Mapping) and isinstance(value, Mapping)
        merged[key] = overridden(inner, value) if nested else value
    return merged


def build_model(
    name: str,
    raw: Any,
    *,
    hf_quant_config: Any = None,
    tensors: tuple[Tensor, ...] | None = None,
    source: str = "",
    names: Set[str] | None = None,
    told: dict[str, bool] | None = None,
) -> Model:
    """`names`: the checkpoint's tensor names where an index lists them without the headers. `told`: in, what
    headers said once; out, where there are headers, what they say against the templates (arch/base.py)."""
    config = Config(overridden(plain_config(raw), config_overrides.get()))
    architectures = config.items("architectures")
    architecture = next((a for a in architectures if isinstance(a, str)), "")
    text = text_of(config)
    make = family(architecture)
    if make is None:
        return _opaque(name, architecture, config, tensors, source)
    dtype = text.dtype(config.dtype("BF16"))
    quant_raw = config.get("quantization_config") or text.get("quantization_config") or config.get("compression_config")
    if quant_raw is not None and not isinstance(quant_raw, Mapping):
        raise ConfigError("config.json: quantization_config is not an object")
    if hf_quant_config is not None and not isinstance(hf_quant_config, Mapping):
        raise ConfigError("hf_quant_config.json is not an object")
    quant = read_quant(quant_raw, hf_quant_config)
    if tensors is not None:
        names = frozenset(tensor.name for tensor in tensors)
    model = make(Builder(config, text, quant, dtype, names, told))
    blocks = len(model.layers) + len(model.drafts)
    if blocks > MOST_LAYERS:
        raise ConfigError(f"config.json: it has {blocks:,} layers, more than the {MOST_LAYERS:,} that are planned")
    return Model(
        name,
        architecture=architecture,
        dtype=dtype,
        hidden_size=text.integer("hidden_size"),
        vocab_size=text.integer("vocab_size"),
        max_position=model.max_position or context_length(text),
        layers=model.layers,
        root=model.root,
        stored=stored(model.layers, model.root, model.drafts, model.draft_root, model.towers)
        if tensors is None
        else by_role(tensors),
        drafts=model.drafts,
        draft_root=model.draft_root,
        towers=model.towers,
        modalities=model.modalities,
        quantization=quant.facts if quant else None,
        model_type=config.text("model_type"),
        source=source,
        basis="config" if tensors is None else "headers",
        tied=any(isinstance(module, Vocab) and module.tied for module in model.root.modules),
        num_heads=text.integer("num_attention_heads", default=0, low=0),
        num_kv_heads=text.integer("num_key_value_heads", default=0, low=0),
        pooling=model.pooling,
        attention_free=not any(isinstance(m, Attention) for layer in model.layers for m in layer.mixers),
        params=(*model.params, *engine_params(config, text), *_quantised_apart(quant_raw, hf_quant_config)),
        warnings=model.warnings if tensors is None else (),
    )


def _quantised_apart(own: Any, file: Any) -> tuple[tuple[str, int], ...]:
    """Only hf_quant_config.json says how it is quantised."""
    return (("quantised_apart", 1),) if own is None and file is not None else ()


def text_of(config: Config) -> Config:
    """The language model's part of a config: under the name that its writers gave it, or all of it."""
    for key in ("text_config", "llm_config", "language_config", "thinker_config", "vlm_config"):
        if isinstance(config.raw.get(key), Mapping):
            return text_of(config.sub(key)) if key in ("thinker_config", "vlm_config") else config.sub(key)
    return config


def _opaque(name: str, architecture: str, config: Config, tensors: tuple[Tensor, ...] | None, source: str) -> Model:
    """An architecture without a family file: its weights are what the headers say, its caches are not guessed."""
    from oomph.facts.sglang import registry
    from oomph.facts.vllm.architectures import NOT_PLANNED

    reason = NOT_PLANNED.get(architecture) or registry.NOT_PLANNED.get(architecture)
    unknown = f"is not planned: {reason}" if reason else "is not known"
    if tensors is None:
        raise UnknownCache(
            f"the architecture {architecture or '(none)'} of {name} {unknown}",
            hint="with the checkpoint's safetensors headers (a folder or a hub id) its weights can be told",
        )
    text = text_of(config)
    return Model(
        name,
        architecture=architecture,
        dtype=text.dtype(config.dtype("BF16")),
        hidden_size=text.integer("hidden_size", "d_model", "n_embd", default=0, low=0),
        vocab_size=text.integer("vocab_size", default=0, low=0),
        max_position=text.integer("max_position_embeddings", default=0, low=0),
        layers=(),
        root=Block(),
        stored=by_role(tensors),
        model_type=config.text("model_type"),
        source=source,
        basis="headers",
        opaque=True,
        warnings=(f"the architecture {architecture} {unknown}: weights only, from the headers",),
    )


# First match wins. Names of every family's checkpoints, tested over all templates.
_ROLES: tuple[tuple[str, Role], ...] = (
    ("vision", "multimodal"),
    ("visual", "multimodal"),
    ("audio", "multimodal"),
    ("multi_modal", "multimodal"),
    ("multimodal", "multimodal"),
    ("mm_projector", "multimodal"),
    ("embed_vision", "multimodal"),
    ("patch_merge", "multimodal"),
    ("lm_head", "lm_head"),
    ("shared_head.head", "lm_head"),
    ("shared_expert", "shared_experts"),
    ("share_expert", "shared_experts"),
    ("shared_mlp", "shared_experts"),
    ("norm", "norm"),
    (".experts.", "experts"),
    ("block_sparse_moe.input_linear", "experts"),
    ("block_sparse_moe.output_linear", "experts"),
    ("_latent_proj", "experts"),
    ("routed_expert_", "experts"),
    (".router", "router"),
    ("mlp.gate.", "router"),
    (".gate.weight", "router"),
    (".moe.", "experts"),
    ("e_score_correction_bias", "router"),
    ("embed", "embed"),
    ("linear_attn", "linear_attn"),
    ("mamba", "linear_attn"),
    ("attn", "attention"),
    ("attention", "attention"),
    ("mlp", "mlp"),
    ("feed_forward", "mlp"),
    ("ffn", "mlp"),
    ("wte", "embed"),
    # Nemotron-H calls every layer's inside a mixer
    ("mixer.q_proj", "attention"),
    ("mixer.k_proj", "attention"),
    ("mixer.v_proj", "attention"),
    ("mixer.o_proj", "attention"),
    ("mixer.up_proj", "mlp"),
    ("mixer.down_proj", "mlp"),
    ("mixer", "linear_attn"),
)


def role_of(name: str) -> Role:
    return next((role for needle, role in _ROLES if needle in name), "other")


def by_role(tensors: Iterable[Tensor]) -> tuple[Stored, ...]:
    total: dict[tuple[Role, str], list[int]] = {}
    for tensor in tensors:
        row = total.setdefault((role_of(tensor.name), tensor.dtype), [0, 0, 0])
        row[0] += 1
        row[1] += tensor.elements
        row[2] += tensor.nbytes
    return tuple(Stored(role, dtype, *row) for (role, dtype), row in sorted(total.items()))


# Facts of config.json that engines read beside the layers, by one name each (Model.params).

Params = tuple[tuple[str, int | float | str], ...]

# model_arch_config_convertor.py derive_max_model_len_and_key: the smallest of these is the context length
_LENGTH_KEYS = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length", "max_target_positions",
    "max_sequence_length", "max_seq_length", "seq_len",
)  # fmt: skip
# `layer_types` that every Transformers release that checks them knows, of models that are many; others are kept, so
# that an engine can ask its release
_EVERYDAY_TYPES = frozenset({"full_attention", "sliding_attention", "chunked_attention", "linear_attention", "conv"})


def engine_params(config: Config, text: Config) -> Params:
    out: dict[str, int | float | str] = {}
    lengths = [
        (size, key)
        for key in _LENGTH_KEYS
        if isinstance(size := text.get(key), int) and not isinstance(size, bool) and size > 0
    ]
    if lengths:
        length, key = min(lengths, key=lambda pair: pair[0])
        key = "max_position_embeddings" if key == "n_positions" else key  # GPT2Config.attribute_map and its like
        own = text.get("model_max_length")
        if isinstance(own, int) and own > 0:
            length, key = own, "model_max_length"
            out["model_max_length"] = own
        out["derived_max_len"], out["max_len_key"] = length, key
    original = text.get("original_max_position_embeddings")
    if isinstance(original, int) and original > 0:
        out["original_max_position_embeddings"] = original
    for rope in _ropes(text):
        kind = rope.get("rope_type", rope.get("type"))
        if isinstance(kind, str) and kind not in ("default", "mrope"):
            out["rope_type"] = kind
            _number(out, "rope_factor", rope.get("factor"))
            _number(out, "rope_original", rope.get("original_max_position_embeddings"))
    if isinstance(text.get("kv_lora_rank"), int) and isinstance(head := text.get("head_dim"), int):
        out["mla_head_dim"] = head
    if text.get("dual_chunk_attention_config"):
        out["attention_argument"] = "layer_idx"
    if text.get("attn_logit_softcapping"):
        out["attn_logit_softcapping"] = 1
    if config.get("is_mm_prefix_lm"):
        out["is_mm_prefix_lm"] = 1
    types = text.get("layer_types")
    if isinstance(types, list) and all(isinstance(t, str) for t in types) and not _EVERYDAY_TYPES.issuperset(types):
        out["layer_types"] = " ".join(types)
    quant = config.get("quantization_config")
    if isinstance(quant, Mapping) and "scale_fmt" not in quant:
        out["no_scale_fmt"] = 1
    bidirectional = text.get("use_bidirectional_attention")
    if isinstance(bidirectional, str):
        out["use_bidirectional_attention"] = bidirectional
    _number(out, "num_nextn_predict_layers", text.get("num_nextn_predict_layers"))
    if text is not config:
        out["nested_text"] = 1
    if not text.get("dtype", "torch_dtype") and not config.get("dtype", "torch_dtype"):
        out["no_dtype"] = 1
    vision = config.get("vision_config")
    if isinstance(vision, Mapping):
        out["has_vision_config"] = 1
        for key in ("num_hidden_layers", "hidden_size"):
            _number(out, f"vision_{key}", config.sub("vision_config").get(key))
    return tuple(out.items())


def _ropes(text: Config) -> Iterable[Mapping[str, Any]]:
    rope = text.get("rope_parameters", "rope_scaling")
    if not isinstance(rope, Mapping):
        return
    nested = [v for v in rope.values() if isinstance(v, Mapping)]
    yield from nested or [rope]


def _number(out: dict[str, int | float | str], name: str, value: Any) -> None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        out[name] = value
