"""A checkpoint as Hugging Face has it -> the tensors that convert_hf_to_gguf.py writes: names, shapes, F32 or 16 bit.

What decides a type later is the name's category (attn_v, ffn_down, ...), the rows' length and the number of dimensions;
modules that the table does not name are kept under their own name, with the mixture's base type.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from oomph.engines.llamacpp.quantize import quantize
from oomph.engines.llamacpp.tensors import INPUT, Tensor
from oomph.facts.llamacpp.quantize import FUSED_BEFORE, About
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

# the last words of a module's name -> llama.cpp's; the longest match wins
NAMES: dict[str, str] = {
    "q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output", "qkv_proj": "attn_qkv",
    "query_key_value": "attn_qkv", "Wqkv": "attn_qkv", "q_a_proj": "attn_q_a", "q_b_proj": "attn_q_b",
    "kv_a_proj_with_mqa": "attn_kv_a_mqa", "kv_b_proj": "attn_kv_b", "attention.dense": "attn_output",
    "gate_proj": "ffn_gate", "up_proj": "ffn_up", "down_proj": "ffn_down", "gate_up_proj": "ffn_up",
    "fc1": "ffn_up", "fc2": "ffn_down", "c_fc": "ffn_up", "c_proj": "ffn_down", "w1": "ffn_gate", "w3": "ffn_up",
    "w2": "ffn_down", "in_proj_qkvz": "attn_qkv", "in_proj_qkv": "attn_qkv", "in_proj_z": "attn_gate",
    "in_proj_ba": "ssm_ba", "in_proj_a": "ssm_alpha", "in_proj_b": "ssm_beta", "linear_attn.out_proj": "ssm_out",
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
    return name if "norm" in name else name.replace(".weight", "_norm.weight")


def _stored(tensors: tuple[Tensor, ...]) -> tuple[Stored, ...]:
    total: dict[tuple[Role, str], list[int]] = {}
    for tensor in tensors:
        row = total.setdefault((tensor.role, tensor.dtype), [0, 0, 0])
        count = 1
        for dim in tensor.shape:
            count *= dim
        row[0], row[1], row[2] = row[0] + 1, row[1] + count, row[2] + tensor.nbytes
    return tuple(Stored(role, dtype, *row) for (role, dtype), row in sorted(total.items()))
