"""A checkpoint as Hugging Face has it -> the tensors that convert_hf_to_gguf.py writes: names, shapes, F32 or 16 bit.

What decides a type later is the name's category (attn_v, ffn_down, ...), the rows' length and the number of dimensions;
modules that the table does not name are kept under their own name, with the mixture's base type.
"""

from collections.abc import Iterator, Sequence
from math import prod

from msgspec.structs import replace

from oomph.engines.llamacpp.tensors import INPUT, Tensor
from oomph.errors import CannotPlan
from oomph.facts.dtypes import BLOCKS
from oomph.facts.llamacpp.quantize import (
    FALLBACK,
    FUSED,
    FUSED_BEFORE,
    MIXTURES,
    About,
    Category,
    Mixture,
    category,
    quantizable,
)
from oomph.ir import (
    Attention,
    Block,
    Experts,
    Layer,
    Linear,
    Model,
    Module,
    Param,
    Quantization,
    Role,
    State,
    Stored,
    Vocab,
)
from oomph.text.late import late_pattern

# the last words of a module's name -> llama.cpp's; the longest match wins
NAMES: dict[str, str] = {
    "q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output", "qkv_proj": "attn_qkv",
    "query_key_value": "attn_qkv", "Wqkv": "attn_qkv", "q_a_proj": "attn_q_a", "q_b_proj": "attn_q_b",
    "kv_a_proj_with_mqa": "attn_kv_a_mqa", "kv_b_proj": "attn_kv_b", "attention.dense": "attn_output",
    "gate_proj": "ffn_gate", "up_proj": "ffn_up", "down_proj": "ffn_down", "gate_up_proj": "ffn_up",
    "fc1": "ffn_up", "fc2": "ffn_down", "c_fc": "ffn_up", "c_proj": "ffn_down", "w1": "ffn_gate", "w3": "ffn_up",
    "w2": "ffn_down", "in_proj_qkvz": "attn_qkv", "in_proj_qkv": "attn_qkv", "in_proj_z": "attn_gate",
    "in_proj_ba": "ssm_ba", "in_proj_a": "ssm_alpha", "in_proj_b": "ssm_beta", "linear_attn.out_proj": "ssm_out",
    "conv.in_proj": "shortconv.in_proj", "conv.out_proj": "shortconv.out_proj",
    "mixer.in_proj": "ssm_in", "mixer.out_proj": "ssm_out", "mamba.in_proj": "ssm_in", "mamba.out_proj": "ssm_out",
    "in_proj": "ssm_in", "out_proj": "attn_output", "x_proj": "ssm_x", "dt_proj": "ssm_dt", "conv1d": "ssm_conv1d",
}  # fmt: skip


def to_gguf(model: Model, quant: str) -> Model:
    """The same model as a GGUF file of this quantisation would give it."""
    tensors = quantize(tuple(_tensors(model)), quant, about(model))
    by_unit: dict[int, list[Param]] = {}
    for tensor in tensors:
        name = tensor.name.split(".", 2)[2] if tensor.name.startswith("blk.") else tensor.name
        unit = tensor.unit if tensor.name.startswith("blk.") else -1
        by_unit.setdefault(unit, []).append(Param(name, tensor.shape[::-1], tensor.dtype, tensor.role))
    layers = tuple(
        Layer(layer.index, f"blk.{layer.index}", layer.mixers, Block(tuple(by_unit.get(layer.index, ()))))
        for layer in model.layers
    )
    used = max(
        (module.top_k for layer in model.layers for module in layer.block.modules if isinstance(module, Experts)),
        default=0,
    )
    return replace(
        model,
        name=f"{model.name}:{quant.upper()}",
        dtype="F16",
        layers=layers,
        root=Block(tuple(by_unit.get(-1, ()))),
        stored=_stored(tensors),
        drafts=(),
        draft_root=Block(),
        towers=(),
        quantization=Quantization("gguf"),
        source="llama-quantize's rules",
        params=(("expert_used_count", used),),
    )


def about(model: Model) -> About:
    attentions = [m for layer in model.layers for m in layer.mixers if isinstance(m, Attention)]
    gqa = max((a.num_heads // a.num_kv_heads for a in attentions[:1]), default=0)
    experts = max(
        (module.count for layer in model.layers for module in layer.block.modules if isinstance(module, Experts)),
        default=0,
    )
    # llama-model.cpp: `llama` and `qwen2` with 80 layers are LLM_TYPE_70B where heads are grouped
    family = model.architecture.startswith(("LlamaForCausalLM", "Qwen2ForCausalLM"))
    return About(
        len(model.layers), experts, gqa, family and len(model.layers) == 80 and gqa > 1,
        fused_as_values=not model.architecture.startswith(FUSED_BEFORE),
    )  # fmt: skip


def _tensors(model: Model) -> Iterator[Tensor]:
    count = len(model.layers)
    for module in model.root.modules:
        yield from _root(module, count)
    for layer in model.layers:
        for module in layer.block.modules:
            for name, shape, dtype, role in _module(module, layer):
                yield Tensor(f"blk.{layer.index}.{name}", shape, dtype, layer.index, role)


def _root(module: Module, count: int) -> Iterator[Tensor]:
    if isinstance(module, Vocab):
        if not module.stored or module.tied:
            return
        name = "output" if module.role == "lm_head" else "token_embd"
        if "per_layer" in module.name:
            name = "per_layer_token_embd"
        unit = count if name == "output" else INPUT
        yield Tensor(f"{name}.weight", (module.dim, module.rows), "F16", unit, module.role)
        if module.bias:
            yield Tensor(f"{name}.bias", (module.rows,), "F32", unit, module.role)
    elif isinstance(module, Param) and module.stored and module.role == "norm":
        name = "per_layer_proj_norm" if "per_layer" in module.name else "output_norm"
        yield Tensor(f"{name}.{module.name.rpartition('.')[2]}", module.shape[::-1], "F32", count, "norm")
    elif isinstance(module, Linear) and "per_layer" in module.name:
        out = sum(p.out_features for p in module.parts)
        yield Tensor("per_layer_model_proj.weight", (module.in_features, out), "F16", count, "other")


def _module(module: Module, layer: Layer) -> Iterator[tuple[str, tuple[int, ...], str, Role]]:
    if isinstance(module, Linear):
        if module.alias:
            return
        for part in module.parts:
            if part.stored:
                yield from _linear(part.name, part.out_features, module, layer)
    elif isinstance(module, Experts):
        kind = "MXFP4" if module.scheme is not None and module.scheme.method == "mxfp4" else "F16"
        experts = module
        names = ("gate", "up") if experts.gated else ("up",)
        for name in names:
            yield f"ffn_{name}_exps.weight", (experts.hidden, experts.intermediate, experts.count), kind, experts.role
        yield "ffn_down_exps.weight", (experts.intermediate, experts.hidden, experts.count), kind, experts.role
        if experts.bias:
            for name in names:
                yield f"ffn_{name}_exps.bias", (experts.intermediate, experts.count), "F32", experts.role
            yield "ffn_down_exps.bias", (experts.hidden, experts.count), "F32", experts.role
    elif isinstance(module, Param) and module.stored:
        yield _param(module.name), module.shape[::-1], "F32", module.role


def _linear(name: str, out: int, module: Linear, layer: Layer) -> Iterator[tuple[str, tuple[int, ...], str, Role]]:
    role, rows = module.role, module.in_features
    if role == "router":
        yield "ffn_gate_inp.weight", (rows, out), "F32", role
        return
    attention = next((m for m in layer.mixers if isinstance(m, Attention)), None)
    if attention is not None and attention.kind == "mla" and name.endswith("kv_b_proj"):
        heads, rank = attention.num_heads, attention.kv_lora_rank
        yield "attn_k_b.weight", (attention.qk_nope_head_dim, rank, heads), "F16", role
        yield "attn_v_b.weight", (rank, out // heads - attention.qk_nope_head_dim, heads), "F16", role
        return
    state = next((m for m in layer.mixers if isinstance(m, State)), None)
    if state is not None and name.endswith("in_proj_qkvz"):
        gate = state.num_heads * state.head_dim
        yield "attn_qkv.weight", (rows, out - gate), "F16", role
        yield "attn_gate.weight", (rows, gate), "F16", role
        return
    base = _name(name, role)
    yield f"{base}.weight", (rows, out), "F16", role
    if module.bias:
        yield f"{base}.bias", (out,), "F32", role


def _name(name: str, role: Role) -> str:
    words = name.split(".")
    for count in (3, 2, 1):
        converted = NAMES.get(".".join(words[-count:]))
        if converted is not None:
            shared = role == "shared_experts" and converted.startswith("ffn_")
            return f"{converted}_shexp" if shared else converted
    return "_".join(words)


def _param(name: str) -> str:
    """Norms, scales and small tensors keep F32 whatever they are called."""
    if name.endswith("conv.conv.weight"):  # lfm2.cpp
        return "shortconv.conv.weight"
    return name if "norm" in name else name.replace(".weight", "_norm.weight")


def _stored(tensors: tuple[Tensor, ...]) -> tuple[Stored, ...]:
    total: dict[tuple[Role, str], list[int]] = {}
    for tensor in tensors:
        row = total.setdefault((tensor.role, tensor.dtype), [0, 0, 0])
        row[0], row[1], row[2] = row[0] + 1, row[1] + prod(tensor.shape), row[2] + tensor.nbytes
    return tuple(Stored(role, dtype, *row) for (role, dtype), row in sorted(total.items()))


# Tensors as converted -> tensors as llama-quantize leaves them.

_BLOCK = late_pattern(r"blk\.(\d+)\.")


def quantize(tensors: Sequence[Tensor], name: str, about: About) -> tuple[Tensor, ...]:
    """`name`: Q4_K_M and so on. Tensors that are MXFP4 already stay so."""
    mixture = MIXTURES.get(name.upper())
    if mixture is None:
        raise CannotPlan(
            f"the mixture of {name[:40]!r} is not llama-quantize's: its file says what it is",
            hint=f"known are {', '.join(MIXTURES)}",
        )
    tied = not any(tensor.name == "output.weight" for tensor in tensors)
    values = sum(category(tensor.name) == "attn_v" for tensor in tensors)
    seen: dict[Category, int] = {}
    out = []
    for tensor in sorted(tensors, key=_order):
        kind = category(tensor.name)
        if not quantizable(tensor.name, tensor.shape) or tensor.dtype == "MXFP4":
            out.append(tensor)
            continue
        if "attn_qkv.weight" in tensor.name and not about.fused_as_values:
            target = FUSED.get(name.upper(), mixture.base)
            out.append(
                replace(tensor, dtype=_fallback(target if BLOCKS[mixture.base][0] > 1 else mixture.base, tensor))
            )
            continue
        index = seen.get(kind, 0)
        seen[kind] = index + 1
        out.append(replace(tensor, dtype=_type(tensor, kind, index, mixture, about, tied, values)))
    return tuple(out)


def _order(tensor: Tensor) -> tuple[int, str]:
    """llama_model_loader's weights_map: by layer, then by name."""
    match = _BLOCK.match(tensor.name)
    return (int(match[1]) if match else -1, tensor.name)


def _type(tensor: Tensor, kind: Category, index: int, mixture: Mixture, about: About, tied: bool, values: int) -> str:
    base = mixture.base
    if BLOCKS[base][0] == 1:
        return base
    if base == "MXFP4":
        return "MXFP4" if len(tensor.shape) > 2 and "exps" in tensor.name else "Q8_0"
    if kind == "output" or (kind == "token_embd" and tied):
        target = "Q8_0" if tensor.shape[0] % BLOCKS[base][0] else mixture.output
        return _fallback(target, tensor)
    count = values if kind == "attn_v" else about.layers
    if about.experts > 1 and kind in ("ffn_down", "ffn_up", "ffn_gate") and not (mixture.low and kind == "ffn_down"):
        match = _BLOCK.match(tensor.name)
        index = int(match[1]) if match else index
    rule = mixture.rules.get(kind)
    target = (rule(index, count, about) if rule else "") or base
    return _fallback(_exceptions(target, kind, mixture, about), tensor)


def _exceptions(wanted: str, kind: Category, mixture: Mixture, about: About) -> str:
    if kind == "attn_v" and not mixture.low:
        if about.type_70b and wanted in ("Q3_K", "Q4_K"):
            wanted = "Q5_K"
        if about.experts == 8:
            wanted = "Q8_0"
    elif kind == "attn_k" and about.experts == 8:
        wanted = "Q4_K" if mixture.low else "Q8_0"
    elif kind == "attn_output" and about.experts == 8:
        wanted = mixture.expert8 or mixture.base
    return wanted


def _fallback(wanted: str, tensor: Tensor) -> str:
    if tensor.shape[0] % BLOCKS[wanted][0] == 0:
        return wanted
    second = FALLBACK.get(wanted, "F16")
    return second if tensor.shape[0] % BLOCKS[second][0] == 0 else "F16"
