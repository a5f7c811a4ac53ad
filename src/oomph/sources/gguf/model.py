"""A GGUF header -> Model: weights from its tensor list, cache geometry from its metadata (facts/llamacpp)."""

import re
from collections.abc import Iterable
from typing import NoReturn

from oomph.errors import HeaderError
from oomph.facts.llamacpp.architectures import ARCHITECTURES, NOT_PLANNED, GgufArch
from oomph.facts.llamacpp.graphs import NUMBERS
from oomph.ir import Attention, Block, Layer, Mixer, Model, Param, Quantization, Role, State, Stored, Tensor
from oomph.sources.gguf.header import GGUF

MAX_LAYERS = 2_000  # a budget, as build.py has for config.json
MAX_WIDTH = 1 << 32
POOLING = {1: "mean", 2: "cls", 3: "last", 4: "rank"}  # llama.h, llama_pooling_type

# First match wins; names are llama.cpp's (llama-arch.cpp), without the layer. "^": how a name begins.
_ROLES: tuple[tuple[str, Role], ...] = (
    ("^v.", "multimodal"),
    ("^a.", "multimodal"),
    ("^mm.", "multimodal"),
    ("^token_embd", "embed"),
    ("^per_layer_token_embd", "embed"),
    ("^output.weight", "lm_head"),
    ("^nextn.", "other"),
    ("ssm_", "linear_attn"),
    ("shortconv", "linear_attn"),
    ("time_mix", "linear_attn"),
    ("_norm", "norm"),
    ("ffn_gate_inp", "router"),
    ("exp_probs_b", "router"),
    ("shexp", "shared_experts"),
    ("_exps", "experts"),
    ("attn_", "attention"),
    ("indexer", "attention"),
    ("ffn_", "mlp"),
)
_BLOCK = re.compile(r"blk\.(\d{1,5})\.(.+)")


def role_of(name: str, recurrent: bool = False) -> Role:
    short = name.split(".", 2)[-1] if name.startswith("blk.") else name
    for needle, role in _ROLES:
        if short.startswith(needle[1:]) if needle[0] == "^" else needle in short:
            return "linear_attn" if recurrent and role == "attention" else role
    return "other"


def gguf_model(name: str, file: GGUF, *, source: str = "") -> Model:
    arch = ARCHITECTURES.get(file.architecture)
    facts = _Facts(file)
    if arch is None:
        return _opaque(name, file, facts, source)
    count = facts.integer("block_count", low=1, high=MAX_LAYERS)
    drafts = min(facts.integer("nextn_predict_layers", 0, high=64), count - 1)
    mixers = _mixers(facts, arch, count, count - drafts)
    blocks, root, stored = _blocks(file.tensors, mixers)
    layers = tuple(Layer(i, f"blk.{i}", mixers[i], blocks.get(i, Block())) for i in range(count))
    names = {tensor.name for tensor in file.tensors}
    return Model(
        name,
        architecture=file.architecture,
        dtype="F16",  # llama.cpp's caches are F16 unless told otherwise
        hidden_size=facts.integer("embedding_length"),
        vocab_size=facts.vocab(),
        max_position=facts.integer("context_length", 0),
        layers=layers[: count - drafts],
        root=root,
        stored=stored,
        drafts=layers[count - drafts :],
        quantization=Quantization("gguf"),
        model_type=file.architecture,
        source=source,
        basis="headers",
        tied="output.weight" not in names,
        num_heads=max(facts.per_layer("attention.head_count", count, 0)),
        num_kv_heads=max(facts.per_layer("attention.head_count_kv", count, 0)),
        attention_free=not any(isinstance(m, Attention) for ms in mixers for m in ms),
        params=(
            ("expert_used_count", facts.integer("expert_used_count", 0)),
            ("output_head", arch.head),
            ("flash_attention", arch.flash),
            ("pooling_type", POOLING.get(facts.integer("pooling_type", 0, high=MAX_WIDTH), "")),
            *facts.numbers(),
        ),
    )


def _opaque(name: str, file: GGUF, facts: "_Facts", source: str) -> Model:
    if file.architecture == "clip":
        why = "this is a vision or audio projector (mmproj): weights only; the language model is a file of its own"
    else:
        reason = NOT_PLANNED.get(file.architecture, "it is not known")
        named = file.architecture[:60] or "(none)"
        why = f"the GGUF architecture {named!r} is not planned ({reason}): weights only, from the header"
    return Model(
        name,
        architecture=file.architecture,
        dtype="F16",
        hidden_size=facts.integer("embedding_length", 0),
        vocab_size=facts.vocab(),
        max_position=facts.integer("context_length", 0),
        layers=(),
        root=Block(),
        stored=_stored((role_of(tensor.name), tensor) for tensor in file.tensors),
        quantization=Quantization("gguf"),
        model_type=file.architecture,
        source=source,
        basis="headers",
        warnings=(why,),
        opaque=True,
    )


class _Facts:
    """The metadata below the architecture's name, checked where it is read."""

    def __init__(self, file: GGUF) -> None:
        self.file = file

    def refuse(self, key: str, value: object) -> NoReturn:
        raise HeaderError(
            f"{self.file.files[0]}: {self.file.architecture}.{key} is {str(value)[:60]}, which no model has"
        )

    def get(self, key: str) -> object:
        return self.file.metadata.get(f"{self.file.architecture}.{key}")

    def integer(self, key: str, default: int | None = None, low: int = 0, high: int = MAX_WIDTH) -> int:
        value = self.get(key)
        if isinstance(value, tuple):  # one value per layer
            value = next((v for v in value if v), 0)
        if value is None:
            if default is None:
                raise HeaderError(f"{self.file.files[0]} has no {self.file.architecture}.{key}")
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.refuse(key, value)
        return value

    def per_layer(self, key: str, count: int, default: int) -> list[int]:
        value = self.get(key)
        if value is None:
            return [default] * count
        if not isinstance(value, tuple):
            return [self.integer(key)] * count
        numbers = [v for v in value if isinstance(v, int) and 0 <= v <= MAX_WIDTH]
        if len(numbers) != len(value) or len(numbers) < count:
            self.refuse(key, f"a list of {len(value)} for {count} layers")
        return numbers

    def numbers(self) -> list[tuple[str, float]]:
        """What of the metadata adds a step to the graph; of a list, whether it has anything in it."""
        values = ((key, self.get(key)) for key in NUMBERS)
        return [
            (key, float(any(value) if isinstance(value, tuple) else value))
            for key, value in values
            if isinstance(value, (bool, int, float, tuple))
        ]

    def vocab(self) -> int:
        """token_embd is [embedding, vocabulary]."""
        table = next((tensor for tensor in self.file.tensors if tensor.name == "token_embd.weight"), None)
        return table.shape[1] if table is not None and len(table.shape) > 1 else self.integer("vocab_size", 0)


def _mixers(facts: _Facts, arch: GgufArch, count: int, main: int) -> list[tuple[Mixer, ...]]:
    heads = facts.per_layer("attention.head_count", count, 0)
    kv = facts.per_layer("attention.head_count_kv", count, 0)
    if facts.get("attention.head_count_kv") is None:
        kv = heads
    ff = facts.per_layer("feed_forward_length", count, 1)
    windowed = _windowed(facts, arch, count)
    shared_from = _shared_from(facts, arch, main)
    listed = facts.get("attention.recurrent_layers")  # newer files say it themselves
    out: list[tuple[Mixer, ...]] = []
    for i in range(count):
        recurrent = {
            "none": False,
            "all": True,
            "both": True,
            "no_kv_heads": kv[i] == 0,
            "no_kv_heads_no_ff": kv[i] == 0 and ff[i] == 0,
            "interval": i < main and (i + 1) % max(facts.integer("full_attention_interval", 4), 1) != 0,
        }[arch.recurrent]
        if isinstance(listed, tuple) and arch.state and len(listed) >= count:
            recurrent = bool(listed[i])
        mixers: list[Mixer] = []
        if kv[i] and (not recurrent or arch.recurrent == "both"):
            shares = next((j for j in reversed(range(shared_from)) if windowed[j] == windowed[i]), None)
            mixers.append(
                _attention(facts, arch, heads[i], kv[i], windowed[i], shares if shared_from <= i < main else None)
            )
        if recurrent:
            mixers.append(_state(facts, arch, heads[i]))
        out.append(tuple(mixers))
    return out


def _shared_from(facts: _Facts, arch: GgufArch, main: int) -> int:
    shared = facts.integer("attention.shared_kv_layers", 0, high=MAX_LAYERS)
    return max(main - shared, 0) if shared else arch.shared_kv_from or main


def _window(facts: _Facts, arch: GgufArch) -> int:
    window = facts.integer("attention.sliding_window", arch.window)
    return (arch.fixed_window or window) if window else 0


def _windowed(facts: _Facts, arch: GgufArch, count: int) -> list[bool]:
    if not _window(facts, arch) or arch.windowed_layers not in (0, count):
        return [False] * count
    pattern = facts.get("attention.sliding_window_pattern")
    if isinstance(pattern, tuple):
        if len(pattern) < count:
            facts.refuse("attention.sliding_window_pattern", f"a list of {len(pattern)} for {count} layers")
        return [bool(v) for v in pattern[:count]]
    period = facts.integer("attention.sliding_window_pattern", arch.period, high=MAX_LAYERS)
    if not period:
        return [False] * count
    if arch.dense_first:
        return [i % period != 0 for i in range(count)]
    return [i % period < period - 1 for i in range(count)]


def _attention(facts: _Facts, arch: GgufArch, heads: int, kv: int, windowed: bool, shares: int | None) -> Attention:
    rank = facts.integer("attention.kv_lora_rank", 0)
    if rank and facts.get("attention.key_length_mla") is not None:
        rotary = facts.integer("rope.dimension_count")
        nope = max(facts.integer("attention.key_length_mla") - rotary, 0)
        value = facts.integer("attention.value_length_mla", rank)
        return Attention(
            "mla", heads, 1, rank + rotary, value, kv_lora_rank=rank, qk_rope_head_dim=rotary, qk_nope_head_dim=nope
        )
    usual = facts.integer("embedding_length") // max(heads, 1)
    key, value = facts.integer("attention.key_length", usual), facts.integer("attention.value_length", usual)
    if windowed:
        key = facts.integer("attention.key_length_swa", key)
        value = facts.integer("attention.value_length_swa", value)
    window = _window(facts, arch) if windowed else 0
    if not arch.cached:
        return Attention("encoder_only", heads, kv, key, value, window=window)
    if arch.chunked and windowed:
        return Attention("chunked_local", heads, kv, key, value, chunk=window)
    kind = "sliding_window" if windowed else "full"
    return Attention(kind, heads, kv, key, value, window=window, shares_cache_of=shares)  # type: ignore[arg-type]


def _state(facts: _Facts, arch: GgufArch, heads: int) -> State:
    """llama-hparams.cpp n_embd_r, n_embd_s; the state is always F32."""
    if arch.state == "short_conv":
        width = facts.integer("embedding_length")
        return State("short_conv", facts.integer("shortconv.l_cache"), intermediate=width, dtype="F32")
    kernel = facts.integer("ssm.conv_kernel", low=1)
    if arch.state == "kda":
        width = facts.integer("kda.head_dim", low=1)
        heads = heads or facts.integer("attention.head_count", low=1)
        return State("kda", kernel, num_heads=heads, head_dim=width, groups=heads, key_dim=width, dtype="F32")
    inner, state = facts.integer("ssm.inner_size", low=1), facts.integer("ssm.state_size", low=1)
    rank, groups = facts.integer("ssm.time_step_rank", 1, low=1), facts.integer("ssm.group_count", 0)
    if arch.state == "gdn":  # qwen3next.cpp: state_size is a key head's width, time_step_rank the value heads
        return State(
            "gdn", kernel, num_heads=rank, head_dim=inner // rank, groups=groups or rank, key_dim=state, dtype="F32"
        )
    if arch.state == "mamba1":
        return State("mamba1", kernel, inner, state, rank, dtype="F32")  # the rank of the time step
    return State("mamba2", kernel, inner, state, rank, inner // rank, groups=groups or 1, dtype="F32")


def _blocks(
    tensors: Iterable[Tensor], mixers: list[tuple[Mixer, ...]]
) -> tuple[dict[int, Block], Block, tuple[Stored, ...]]:
    """Each layer's tensors as they are in the file; equal layers are one block."""
    layers: dict[int, list[Param]] = {}
    root: list[Param] = []
    roles: list[tuple[Role, Tensor]] = []
    for tensor in tensors:
        match = _BLOCK.fullmatch(tensor.name)
        index = int(match[1]) if match else -1
        inside = match is not None and index < len(mixers)
        recurrent = inside and any(isinstance(m, State) for m in mixers[index]) and len(mixers[index]) == 1
        role = role_of(tensor.name, recurrent)
        roles.append((role, tensor))
        param = Param(match[2] if match and inside else tensor.name, tensor.shape[::-1], tensor.dtype, role)
        (layers.setdefault(index, []) if inside else root).append(param)
    same: dict[tuple[Param, ...], Block] = {}
    blocks = {i: same.setdefault(tuple(p), Block(tuple(p))) for i, p in layers.items()}
    return blocks, Block(tuple(root)), _stored(roles)


def _stored(roles: Iterable[tuple[Role, Tensor]]) -> tuple[Stored, ...]:
    total: dict[tuple[Role, str], list[int]] = {}
    for role, tensor in roles:
        row = total.setdefault((role, tensor.dtype), [0, 0, 0])
        row[0] += 1
        row[1] += tensor.elements
        row[2] += tensor.nbytes
    return tuple(Stored(role, dtype, *row) for (role, dtype), row in sorted(total.items()))
