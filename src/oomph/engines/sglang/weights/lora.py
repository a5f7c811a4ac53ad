"""SGLang's LoRA slots, which come between the weights and the pools, and what it says of the adapters that it is given.

lora/mem_pool.py (0.5.23): for every layer of the model and every target, A is [slots, rank x stacked, in] and B is
[slots, out, rank], in the model's dtype; experts have a pair each. All layers are there on every pipeline stage.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from oomph.engines.common.adapters import adapter_paths, rank_of, read_config
from oomph.engines.common.shard import in_features, outs
from oomph.engines.sglang.resolve.settings import Settings
from oomph.facts.dtypes import nbytes
from oomph.ir import Experts, Linear, Model, Vocab

DEFAULT_SLOTS = 8  # arg_groups/fields/lora.py max_loras_per_batch
ASSUMED_RANK = 16  # of an adapter that is not on this machine: PEFT's examples
_EMBEDDINGS = ("embed_tokens", "lm_head")
# lora/utils.py get_normalized_target_modules, get_stacked_multiply, ATTN_TP_LORA_MODULE_NAMES
_FUSED = {
    "q_proj": "qkv_proj", "k_proj": "qkv_proj", "v_proj": "qkv_proj", "gate_proj": "gate_up_proj",
    "up_proj": "gate_up_proj", "q_a_proj": "fused_qkv_a_proj", "kv_a_proj_with_mqa": "fused_qkv_a_proj",
    "fused_qkv_a_proj_with_mqa": "fused_qkv_a_proj", "output": "lm_head", "vocab_emb": "embed_tokens",
}  # fmt: skip
_STACKED = {"qkv_proj": 3, "gate_up_proj": 2, "fused_qkv_a_proj": 2, "in_proj": 2, "in_proj_qkvz": 4}
_BY_ATTENTION = frozenset(("qkv_proj", "q_b_proj", "kv_b_proj", "o_proj", "out_proj", "in_proj", "in_proj_qkvz"))


class Lora(Struct, frozen=True):
    slots: int
    rank: int
    targets: frozenset[str]
    is_assumed: bool = False  # an adapter of the hub, whose rank and targets nobody has read
    refusal: str = ""  # SGLang's words
    risk: str = ""  # what a request for one of them does


def lora_of(model: Model, flags: Mapping[str, Any]) -> Lora | None:
    """arg_groups/lora_hook.py and lora/lora_manager.py init_lora_shapes; None where LoRA is off."""
    paths = list(adapter_paths(flags.get("lora_paths"), "lora_name", "lora_path"))
    if not (flags.get("enable_lora") or (flags.get("enable_lora") is None and paths)):
        return None
    slots, most = int(flags.get("max_loras_per_batch") or DEFAULT_SLOTS), flags.get("max_lora_rank")
    named = flags.get("lora_target_modules")
    if not paths and not (most and named):
        return Lora(slots, 0, frozenset(), refusal=_NO_SHAPES)
    files = [(name, read_config(path)) for name, path in paths]
    configs = {name: file[1] for name, file in files if file is not None}
    targets = _normal(named, model) if named else frozenset[str]()
    for name, config in configs.items():
        own = config.get("target_modules")
        if isinstance(own, str) and own not in ("all-linear", "all"):
            return Lora(slots, 0, targets, refusal=_NOT_RECOGNISED.format(own))
        if isinstance(own, str) and named:
            continue
        modules = _normal([own] if isinstance(own, str) else own, model)
        if named and not modules <= targets:
            missing = sorted(modules - targets)
            return Lora(slots, 0, targets, refusal=_NOT_INCLUDED.format(name, missing, sorted(targets)))
        targets |= modules
    ranks = {name: rank_of(config) for name, config in configs.items()}
    is_assumed = len(configs) < len(paths) and not (most and named)
    rank = int(most or max(ranks.values(), default=ASSUMED_RANK) or ASSUMED_RANK)
    large = next((name for name, own in ranks.items() if own > rank), "")
    risk = _TOO_LARGE.format(large, ranks[large], rank) if large else ""
    return Lora(slots, rank, targets or _normal(["all"], model), is_assumed, risk=risk)


_NO_SHAPES = (
    "AssertionError: When no initial --lora-paths is provided, you need to specify both --max-lora-rank and "
    "--lora-target-modules for LoRA initialization."
)
_NOT_RECOGNISED = (
    "ValueError: SGLang does not recognize target_modules='{}'. Please use a list of module name suffixes in the "
    "adapter's PEFT config, or explicitly specify --lora-target-modules during server startup."
)
_NOT_INCLUDED = (
    "ValueError: LoRA adapter '{}' contains target modules {} that are not included in the specified "
    "--lora-target-modules {}."
)
# The check of ranks is one of adapters that come later (validate_new_adapter: the pool is not there yet at the start).
_TOO_LARGE = "a request for the adapter {}: its rank {} does not go into slots of {} (--max-lora-rank)"


def _normal(names: object, model: Model) -> frozenset[str]:
    listed = [str(name).rpartition(".")[2] for name in names] if isinstance(names, Iterable) else []
    if {"all", "all-linear"} & set(listed):
        linear = {_leaf(module.name) for module in _linear(model).values()}
        return frozenset(linear | ({"gate_up_proj", "down_proj"} if _experts(model) else set()))
    return frozenset(_FUSED.get(name, name) for name in listed)


def slot_bytes(model: Model, settings: Settings, lora: Lora) -> int:
    """Of one rank."""
    attention = max(1, settings.tp_size // settings.attn_dp_size)
    linear, experts = _linear(model), _experts(model)
    elements = 0
    for name in lora.targets:
        if experts is not None and name in ("gate_up_proj", "down_proj"):
            elements += len(model.layers) * _of_experts(experts, name, settings)
            names = [key for key in linear if "shared" in key and _leaf(key) == name]
        else:
            names = [key for key in linear if _leaf(key) == name][:1]
        tp = attention if name in _BY_ATTENTION else settings.tp_size
        for key in names:
            elements += len(model.layers) * _of_linear(linear[key], name, tp)
    return lora.slots * lora.rank * nbytes(settings.dtype, elements + _of_vocabulary(model, settings, lora))


def _leaf(name: str) -> str:
    return name.rpartition(".")[2]


def _linear(model: Model) -> dict[str, Linear]:
    """The first of each name: geometry is taken to be the same in every layer (get_default_hidden_dim)."""
    linear: dict[str, Linear] = {}
    for layer in model.layers:
        for module in layer.block.modules:
            if isinstance(module, Linear) and _leaf(module.name) not in ("gate", "router"):
                linear.setdefault(module.name, module)
    return linear


def _experts(model: Model) -> Experts | None:
    modules = (module for layer in model.layers for module in layer.block.modules)
    return next((module for module in modules if isinstance(module, Experts)), None)


def _of_linear(module: Linear, name: str, tp: int) -> int:
    return _STACKED.get(name, 1) * in_features(module, tp) + sum(outs(module, tp))


def _of_experts(module: Experts, name: str, settings: Settings) -> int:
    """Divided by what tensor parallelism leaves to the experts (`moe_tp_size`); expert parallelism keeps some whole."""
    count = module.count // settings.ep_size
    inner = module.intermediate // max(1, settings.tp_size // settings.ep_size)
    if name == "gate_up_proj":
        return count * (2 * module.hidden + 2 * inner)
    return count * (inner + module.hidden)


def _of_vocabulary(model: Model, settings: Settings, lora: Lora) -> int:
    """init_embedding_buffer goes over both names, once for each of them that is a target."""
    names = [name for name in _EMBEDDINGS if name in lora.targets]
    tables = [module for module in model.root.modules if isinstance(module, Vocab)]
    if not names or not tables:
        return 0
    rows, dim = tables[0].rows, tables[0].dim
    sizes = {"embed_tokens": rows + dim, "lm_head": dim + rows // settings.tp_size}
    return len(names) * sum(sizes[name] for name in names)
