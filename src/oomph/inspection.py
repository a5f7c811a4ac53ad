"""inspect(model) -> Inspection: what a checkpoint is, with no engine in it. The same for people, JSON and Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import prod

from msgspec import Struct

from oomph.facts.dtypes import bits, nbytes
from oomph.ir.model import Attention, Block, Experts, Linear, Mixer, Model, Module, Param, Role, Scheme, State, Vocab
from oomph.sources.stored import module_tensors

ROLE_NAMES: dict[Role, str] = {
    "attention": "attention",
    "linear_attn": "recurrent layers",
    "mlp": "MLP",
    "experts": "experts",
    "shared_experts": "shared experts",
    "router": "routers",
    "embed": "embedding",
    "lm_head": "output head",
    "norm": "norms",
    "multimodal": "vision and audio",
    "other": "other",
}


class RoleRow(Struct, frozen=True):
    role: str
    name: str  # for people
    bytes: int
    parameters: int
    stored_as: dict[str, int]  # NVFP4, BF16, ... -> bytes, most first
    plain_bytes: int  # not quantised
    plain_parameters: int


class DtypeRow(Struct, frozen=True):
    dtype: str
    bytes: int
    elements: int
    tensors: int


class LayerRow(Struct, frozen=True):
    """Layers with the same cache geometry."""

    kind: str  # full, sliding_window, chunked_local, mla, ... or mamba2, gdn, ... or none
    layers: int
    text: str  # the geometry for people: "16 KV heads x 256"
    kv_bytes_per_token: int = 0  # of all these layers together, in the model's own dtype
    window: int = 0  # tokens after which it grows no more; 0 = it grows with the context
    state_bytes: int = 0  # per sequence, all these layers together
    shared: int = 0  # of `layers`, those that read another layer's cache


class Part(Struct, frozen=True):
    name: str
    layers: int
    bytes: int


class Quantised(Struct, frozen=True):
    method: str
    name: str  # "4-bit (NVFP4)"
    bits: int
    parameters: int
    bytes: int
    kv_cache: str = ""
    sentence: str = ""  # what is not quantised, and what that costs


class Inspection(Struct, frozen=True):
    model: str
    architecture: str
    source: str
    basis: str
    dtype: str
    bytes: int
    parameters: int
    context_length: int
    by_role: tuple[RoleRow, ...]
    by_dtype: tuple[DtypeRow, ...]
    layers: tuple[LayerRow, ...]
    quantization: Quantised | None
    kv_bytes_per_token: int  # what each further token costs once every window is full
    state_bytes_per_sequence: int
    kv_known: bool  # False: an engine keeps this cache in a form of its own (DeepSeek-V4)
    drafts: tuple[Part, ...]
    towers: tuple[Part, ...]
    experts: tuple[int, int] = (0, 0)  # (routed experts, of which each token uses so many)
    active_parameters: int = 0  # used by one token, where experts make a difference
    vocab_size: int = 0
    hidden_size: int = 0
    tied: bool = False
    opaque: bool = False
    warnings: tuple[str, ...] = ()

    def kv_bytes(self, tokens: int) -> int:
        """One sequence of so many tokens: windows count up to their width, states once."""
        grown = sum(r.kv_bytes_per_token * (min(tokens, r.window) if r.window else tokens) for r in self.layers)
        return grown + self.state_bytes_per_sequence


def inspect(model: Model | str) -> Inspection:
    """`model`: what `oomph inspect` takes (a folder, a file, a name, org/name), or a Model."""
    if isinstance(model, str):
        from oomph.sources.load import load_model

        model = load_model(model)
    roles = _by_role(model)
    rows = _layer_rows(model)
    parameters = sum(r.parameters for r in roles)
    experts = [(n, m) for n, b in _blocks(model) for m in b.modules if isinstance(m, Experts) and m.stored]
    routed = [m for _, m in experts]
    return Inspection(
        model.name,
        model.architecture,
        model.source,
        model.basis,
        model.dtype,
        model.nbytes,
        parameters,
        model.max_position,
        roles,
        _by_dtype(model),
        rows,
        _quantised(model, roles),
        sum(r.kv_bytes_per_token for r in rows if not r.window),
        sum(r.state_bytes for r in rows),
        not any(isinstance(m, Attention) and m.compress_ratio for x in model.layers for m in x.mixers),
        _drafts(model),
        _towers(model),
        (routed[0].count, routed[0].top_k) if routed else (0, 0),
        _active(model) if routed else 0,
        model.vocab_size,
        model.hidden_size,
        model.tied,
        model.opaque,
        model.warnings,
    )


# --- weights


def _blocks(model: Model) -> Iterator[tuple[int, Block]]:
    """(how many, block): equal layers share one block object."""
    counts: Counter[int] = Counter()
    by_id: dict[int, Block] = {}
    for block in (model.root, model.draft_root, *(x.block for x in (*model.layers, *model.drafts))):
        counts[id(block)] += 1
        by_id[id(block)] = block
    yield from ((n, by_id[i]) for i, n in counts.items())
    for tower in model.towers:
        yield from tower.blocks


def _parameters(module: Module) -> int:
    """Weights as the model counts them, however they are packed; scales and zero points are none."""
    if isinstance(module, Linear):
        parts = [p for p in module.parts if p.stored]
        return sum(p.out_features * (module.in_features + module.bias) for p in parts)
    if isinstance(module, Experts):
        inner = (2 if module.gated else 1) * module.intermediate
        each = (inner + module.intermediate) * module.hidden + ((inner + module.hidden) if module.bias else 0)
        return module.count * each if module.stored else 0
    if isinstance(module, Vocab):
        return module.rows * (module.dim + module.bias) if module.stored else 0
    return prod(module.shape) if module.stored else 0


def _active(model: Model) -> int:
    """Parameters that one token of text uses: the layers' own and top_k of the routed experts'."""
    return sum(
        _parameters(m) * m.top_k // m.count if isinstance(m, Experts) else _parameters(m)
        for block in (model.root, *(x.block for x in model.layers))
        for m in block.modules
    )


def _bytes(module: Module) -> int:
    return sum(nbytes(dtype, prod(shape)) * times for _, shape, dtype, _, times in module_tensors(module))


def scheme_name(s: Scheme) -> str:
    if s.kind == "float" and s.bits == 4:
        return "MXFP4" if "mxfp4" in (s.method, s.format[:5]) or s.group_size == 32 else "NVFP4"
    if s.kind == "float":
        return "FP8" if s.bits == 8 else f"FP{s.bits}"
    return f"INT{s.bits}"


def _by_role(model: Model) -> tuple[RoleRow, ...]:
    """From the modules, which know what is quantised; from the headers where the modules do not add up to them."""
    total: dict[Role, list[int]] = {}
    forms: dict[Role, Counter[str]] = {}
    for times, block in _blocks(model):
        for m in block.modules:
            size, count = _bytes(m) * times, _parameters(m) * times
            scheme = None if isinstance(m, Param) else m.scheme
            row = total.setdefault(m.role, [0, 0, 0, 0])
            row[0] += size
            row[1] += count
            if scheme is None and not (isinstance(m, Param) and model.basis == "headers" and bits(m.dtype) < 16):
                row[2] += size
                row[3] += count
            if size:
                form = m.dtype if scheme is None else scheme_name(scheme)
                forms.setdefault(m.role, Counter())[form] += size
    if sum(row[0] for row in total.values()) != model.nbytes:
        total, forms = _by_role_of_headers(model)
    made = [
        RoleRow(
            role,
            _role_name(role, model),
            row[0],
            row[1],
            dict(forms.get(role, Counter()).most_common()),
            row[2],
            row[3],
        )
        for role, row in total.items()
        if row[0]
    ]
    return tuple(sorted(made, key=lambda r: -r.bytes))


def _role_name(role: Role, model: Model) -> str:
    if role == "multimodal" and len({t.modality for t in model.towers}) == 1:
        return model.towers[0].modality
    return ROLE_NAMES[role]


def _by_role_of_headers(model: Model) -> tuple[dict[Role, list[int]], dict[Role, Counter[str]]]:
    total: dict[Role, list[int]] = {}
    forms: dict[Role, Counter[str]] = {}
    for s in model.stored:
        row = total.setdefault(s.role, [0, 0, 0, 0])
        plain = bits(s.dtype) >= 16 and s.dtype not in ("I32", "I64")
        row[0] += s.nbytes
        row[1] += s.elements
        row[2] += s.nbytes if plain else 0
        row[3] += s.elements if plain else 0
        forms.setdefault(s.role, Counter())[s.dtype] += s.nbytes
    return total, forms


def _by_dtype(model: Model) -> tuple[DtypeRow, ...]:
    total: dict[str, list[int]] = {}
    for s in model.stored:
        row = total.setdefault(s.dtype, [0, 0, 0])
        row[0] += s.nbytes
        row[1] += s.elements
        row[2] += s.tensors
    return tuple(DtypeRow(d, *row) for d, row in sorted(total.items(), key=lambda item: -item[1][0]))


_PLAIN = ("BF16", "F16", "F32")
_WRITERS = {"awq": "AWQ", "gptq": "GPTQ", "bitsandbytes": "bitsandbytes"}


def _quantised(model: Model, roles: tuple[RoleRow, ...]) -> Quantised | None:
    q = model.quantization
    size = sum(r.bytes - r.plain_bytes for r in roles)
    count = sum(r.parameters - r.plain_parameters for r in roles)
    if q is None or not size or not count:
        return None
    width = size * 8 / count
    forms: Counter[str] = Counter()
    for r in roles:
        forms.update({form: n for form, n in r.stored_as.items() if form not in _PLAIN})
    main = forms.most_common(1)[0][0] if forms else q.method
    if q.method == "gguf":
        whole = round(width)
        name = f"GGUF, {width:.2f} bits a weight, mostly {main}"
    else:
        whole = int("".join(filter(str.isdigit, main)) or round(width))
        name = f"{whole}-bit ({_WRITERS.get(q.method, main)})"
    return Quantised(q.method, name, whole, count, size, q.kv_cache, _cost(model, roles, whole, width))


def _cost(model: Model, roles: tuple[RoleRow, ...], whole: int, width: float) -> str:
    """What is left in 16 bits, and what the largest part of it would take like the rest."""
    from oomph.units import gib

    plain = sorted((r for r in roles if r.plain_bytes), key=lambda r: -r.plain_bytes)
    left = sum(r.plain_bytes for r in plain)
    if not plain or left * 10 < model.nbytes:
        return ""
    first = plain[0]
    size = gib(first.plain_bytes)
    if first.plain_bytes * 5 < model.nbytes or first.role in ("embed", "lm_head", "multimodal", "norm"):
        return f"{gib(left)} of {gib(model.nbytes)} are not quantised, the largest part {_the(first)} ({size})"
    dtype = next((form for form in first.stored_as if form in _PLAIN), model.dtype)
    verb = "are" if first.name.endswith("s") else "is"
    like_the_rest = int(first.plain_parameters * width / 8)
    return (
        f"your {whole}-bit checkpoint is {gib(model.nbytes)} because {_the(first)} {verb} still {dtype}: {size}; "
        f"like the rest it would be {gib(like_the_rest)}, the whole "
        f"{gib(model.nbytes - first.plain_bytes + like_the_rest)}"
    )


def _the(row: RoleRow) -> str:
    return row.name if row.role in ("attention", "experts", "norm", "multimodal") else f"the {row.name}"


# --- layers


def _layer_rows(model: Model) -> tuple[LayerRow, ...]:
    groups: dict[tuple[object, ...], list[Mixer]] = {}
    for layer in model.layers:
        for m in layer.mixers:
            groups.setdefault(_key(m), []).append(m)
        if not layer.mixers:
            groups.setdefault(("none",), [])
    rows = [_row(model, found) for key, found in groups.items() if key != ("none",)]
    without = sum(not x.mixers for x in model.layers)
    return (*rows, LayerRow("none", without, "MLP or experts only")) if without else tuple(rows)


def _key(m: Mixer) -> tuple[object, ...]:
    if isinstance(m, State):
        return (m,)
    return ("attention", m.kind, m.window, m.chunk, m.num_kv_heads, m.head_dim, m.head_dim_v, m.kv_lora_rank,
            m.compress_ratio, m.indexer is not None)  # fmt: skip


def _row(model: Model, found: list[Mixer]) -> LayerRow:
    first = found[0]
    if isinstance(first, State):
        ggml = model.quantization is not None and model.quantization.method == "gguf"
        size = state_bytes(first, 4 if ggml else int(bits(model.dtype)) // 8)
        return LayerRow(first.kind, len(found), _state_text(first), state_bytes=size * len(found))
    shared = sum(isinstance(m, Attention) and m.shares_cache_of is not None for m in found)
    per_token = kv_token_bytes(first, model.dtype)
    return LayerRow(
        first.kind,
        len(found),
        _attention_text(first) + (f", {shared} reuse" if shared else ""),
        per_token * (len(found) - shared),
        first.window or first.chunk,
        shared=shared,
    )


def kv_token_bytes(m: Attention, dtype: str) -> int:
    """One token in one layer, in the model's dtype. 0 where an engine has a form of its own (compressed caches)."""
    width = int(bits(dtype)) // 8 if bits(dtype) >= 16 else 2
    if m.compress_ratio or m.kind == "encoder_only" or (m.kind == "mla" and not m.kv_lora_rank):
        return 0
    # sparse attention's index keys are FP8 with one F32 scale per 128 (DeepSeek), or in the model's dtype (MiniMax)
    index = 0
    if m.indexer is not None:
        index = m.indexer.head_dim + m.indexer.head_dim // 128 * 4 if m.kind == "mla" else m.indexer.head_dim * width
    if m.kind == "mla":
        return (m.kv_lora_rank + m.qk_rope_head_dim) * width + index
    return m.num_kv_heads * (m.head_dim + m.head_dim_v) * width + index


def state_bytes(m: State, conv: int) -> int:
    """One sequence in one layer. `conv`: bytes of a value in the convolution's window (the model's dtype; llama.cpp
    keeps both in F32); the state has a dtype of its own where the config fixes one."""
    ssm = int(bits(m.dtype)) // 8 if m.dtype else conv
    kernel = max(m.conv_kernel - 1, 0)
    if m.kind == "mamba1":
        return m.intermediate * (kernel * conv + m.state_size * ssm)
    if m.kind == "mamba2":
        width = m.intermediate + 2 * m.groups * m.state_size
        return width * kernel * conv + m.num_heads * m.head_dim * m.state_size * ssm
    if m.kind == "gdn":
        width = 2 * m.key_dim * m.groups + m.head_dim * m.num_heads
        return width * kernel * conv + m.num_heads * m.head_dim * m.key_dim * ssm
    if m.kind == "kda":
        width = m.num_heads * m.head_dim + 2 * (m.groups or m.num_heads) * (m.key_dim or m.head_dim)
        return width * kernel * conv + m.num_heads * m.head_dim * m.head_dim * 4
    if m.kind == "short_conv":
        return m.intermediate * kernel * conv
    return m.num_heads * m.head_dim * m.head_dim * ssm


def _attention_text(m: Attention) -> str:
    if m.kind == "mla":
        text = f"{m.kv_lora_rank} + {m.qk_rope_head_dim} rotary" if m.kv_lora_rank else f"{m.head_dim} wide"
        text = f"{text}, 1:{m.compress_ratio}" if m.compress_ratio else text
        return f"{text}, indexer" if m.indexer is not None else text
    heads = "head" if m.num_kv_heads == 1 else "heads"
    width = f"{m.head_dim}" if m.head_dim == m.head_dim_v else f"{m.head_dim}/{m.head_dim_v}"
    text = f"{m.num_kv_heads} KV {heads} x {width}"
    return f"{text}, indexer" if m.indexer is not None else text


def _state_text(m: State) -> str:
    if m.kind in ("mamba1", "short_conv"):
        return f"width {m.intermediate}" + (f", state {m.state_size}" if m.state_size else "")
    state = m.key_dim or m.state_size or m.head_dim
    return f"{m.num_heads} heads x {m.head_dim} x {state}"


# --- what is beside the language model


def _drafts(model: Model) -> tuple[Part, ...]:
    if not model.drafts and not model.draft_root.modules:
        return ()
    size = sum(_bytes(m) for b in (model.draft_root, *(x.block for x in model.drafts)) for m in b.modules)
    return (Part("multi-token prediction", len(model.drafts), size),)


def _towers(model: Model) -> tuple[Part, ...]:
    """Encoders with what projects them, by modality."""
    found: dict[str, list[int]] = {}
    for t in model.towers:
        row = found.setdefault(t.modality, [0, 0])
        row[0] += t.layers
        row[1] += sum(n * _bytes(m) for n, b in t.blocks for m in b.modules)
    return tuple(Part(name, *row) for name, row in found.items())
