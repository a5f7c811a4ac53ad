"""What a checkpoint is, with no engine in it.

A model is a few blocks repeated over layers. A block is a list of modules in the order in which the network builds
them; a module says its shape, how tensor parallelism splits it, and how it is stored (`Scheme`, None = plain dtype).
From the modules follow both the checkpoint's tensors (sources/stored.py) and what an engine creates per rank
(engines/*/weights.py), so that one description serves a config.json alone and a full set of headers.

Equal blocks are one object: 80 equal layers cost one computation, not 80.
"""

from math import prod
from typing import Literal

from msgspec import Struct

from oomph.errors import ConfigError

Role = Literal[
    "embed",
    "lm_head",
    "attention",
    "linear_attn",
    "mlp",
    "experts",
    "shared_experts",
    "router",
    "norm",
    "multimodal",
    "other",
]

# How a tensor-parallel group of n ranks divides a module. "column": output features / n. "row": input features / n
# (the bias is kept whole). "replicated": every rank has all of it. Parts with `heads` split by whole heads and are
# replicated once n exceeds them (K and V of grouped-query attention).
Shard = Literal["column", "row", "replicated"]


class Tensor(Struct, frozen=True):
    """One tensor as a weight file's header names it."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int

    @property
    def elements(self) -> int:
        return prod(self.shape)


class Stored(Struct, frozen=True):
    """All tensors of one role and dtype in the checkpoint, summed."""

    role: Role
    dtype: str
    tensors: int
    elements: int
    nbytes: int


class Scheme(Struct, frozen=True):
    """How one quantised module is stored, in the words of the checkpoint's own quantisation config."""

    method: str  # awq gptq fp8 compressed-tensors modelopt modelopt_fp4 mxfp4 bitsandbytes gguf ...
    bits: int
    kind: Literal["int", "float"]
    strategy: Literal["tensor", "channel", "group", "block", "tensor_group"]
    group_size: int = 0  # along the input features; -1 means the whole row
    block: tuple[int, int] = (0, 0)  # (output, input) features per scale for strategy "block"
    symmetric: bool = True
    format: str = ""  # compressed-tensors: pack-quantized, float-quantized, nvfp4-pack-quantized, ...
    desc_act: bool = False
    activation: Literal["none", "dynamic", "static"] = "none"
    scale_dtype: str = ""  # the scales' dtype in the checkpoint; "" = the method's usual one
    input_bits: int = 16


class Part(Struct, frozen=True):
    """One linear layer of the checkpoint inside a fused one: q_proj inside qkv_proj."""

    name: str
    out_features: int
    heads: int = 0
    stored: bool = True  # False: engines create it, the checkpoint has no tensor for it (Gemma 4's V where K = V)
    created: bool = True  # False: in the checkpoint, but engines do not create it
    only: str = ""  # a build habit (facts/vllm/structure.py): created only by releases that have it


class Linear(Struct, frozen=True):
    name: str  # the fused name inside the block: "self_attn.qkv_proj"
    parts: tuple[Part, ...]
    in_features: int
    shard: Shard
    role: Role
    dtype: str
    bias: bool = False
    scheme: Scheme | None = None
    created_dtype: str = ""  # the dtype engines give the unquantised weight; "" = the model's
    align: int = 0  # a rank's rows are rounded up to a multiple of this
    alias: bool = False  # a second name that engines list for memory that is counted elsewhere
    whole_blocks: str = ""  # a habit of engines under which every rank's share is rounded up to whole scale blocks
    quantisable: bool = True  # False: engines build it unquantised whatever the quantisation config says
    quantised_by: str = ""  # a build habit; releases without it build it unquantised
    apart_by: int = 0  # engines keep the parts apart only where tensor parallelism divides this number
    whole_by: str = ""  # a build habit under which every rank has all of it while the experts run sequence-parallel

    @property
    def out_features(self) -> int:
        return sum(p.out_features for p in self.parts)


class Routing(Struct, frozen=True):
    """How a layer's router chooses experts for a token: what decides which kernels can do it themselves."""

    scoring: Literal["softmax", "sigmoid", "sqrtsoftplus"] = "softmax"
    renormalised: bool = True  # the weights of the chosen experts are scaled to sum to one
    groups: int = 0  # experts are chosen from the best of so many groups; 0: there are none
    biased: bool = False  # a correction per expert is added before the choice
    custom: str = ""  # a function of the model's own: "llama4", or any other name


class Experts(Struct, frozen=True):
    """One layer's routed experts: `count` times (gate, up: hidden -> intermediate; down: back)."""

    name: str  # "mlp.experts"
    count: int
    hidden: int
    intermediate: int
    top_k: int
    dtype: str
    gated: bool = True
    bias: bool = False
    scheme: Scheme | None = None
    # "each": one linear per expert and projection, named by `projections`; "stacked": one [count, ...] tensor for
    # gate+up and one for down
    layout: Literal["each", "stacked"] = "each"
    projections: tuple[str, ...] = ("gate_proj", "up_proj", "down_proj")
    role: Role = "experts"
    stored: bool = True
    only: str = ""  # a build habit (facts/vllm/structure.py); releases without it read `other` instead of `scheme`
    other: Scheme | None = None
    activation: str = "silu"  # as vLLM's MoEActivation spells it, without "_no_mul"
    routing: Routing = Routing()
    least_share: tuple[str, int] = (
        "",
        0,
    )  # a build habit under which tensor parallelism leaves a rank so many features


class Vocab(Struct, frozen=True):
    """An embedding table or an output head; both split by rows of the vocabulary."""

    name: str
    rows: int
    dim: int
    dtype: str
    role: Role
    bias: bool = False
    tied: bool = False  # an output head that shares the embedding's storage
    tied_by: str = ""  # a build habit (facts/vllm/structure.py); releases without it do not tie it
    stored: bool = True  # the checkpoint has a tensor of its own for it
    assumed: bool = False  # `stored` follows from the config alone: no header was seen
    created_dtype: str = ""  # the dtype engines give it whatever the checkpoint has; "" = the model's
    scheme: Scheme | None = None
    everywhere: bool = False  # every pipeline stage builds it
    only: str = ""  # a build habit (facts/vllm/structure.py): created only by releases that have it


class Param(Struct, frozen=True):
    """A tensor that is not a linear layer: norms, biases, convolutions, decay rates, attention sinks."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: Role
    shard_dim: int | None = None
    heads: int = 0  # split by whole heads, replicated beyond them
    stored: bool = True  # False: the engine creates it, the checkpoint does not have it
    created: bool = True  # False: in the checkpoint, but engines do not create it
    created_dtype: str = ""  # the dtype engines give it whatever the checkpoint has; "" = the model's
    only: str = ""  # a build habit (facts/vllm/structure.py): created only by releases that have it
    everywhere: bool = False  # outside the layers, but built by every pipeline stage
    at_least: int = 0  # elements that a rank creates at the least, however small its share


Module = Linear | Experts | Vocab | Param


class Block(Struct, frozen=True, cache_hash=True):
    """The modules of a layer. Layers of one kind share one block, so that it may be the key of a cache."""

    modules: tuple[Module, ...] = ()


class Rope(Struct, frozen=True):
    """A rotary table that engines precompute: `positions` rows of `dim` values. Equal ropes are one table."""

    dim: int  # rotary dimensions (cos and sin together)
    positions: int  # rows the engine's cache has, scaling included
    theta: float
    kind: str = "default"
    dtype: str = ""  # "" = the model's
    params: tuple[tuple[str, float], ...] = ()  # what else tells two ropes apart
    short: int = 0  # rows in releases without the build habit `only` (facts/vllm/structure.py); -1 = no table there
    only: str = ""
    narrow: int = 0  # `dim` in releases without `only`; 0 = the same
    capped: bool = False  # no longer than the context that is served


class Attention(Struct, frozen=True):
    """One attention layer's cache geometry, before tensor parallelism."""

    kind: Literal["full", "sliding_window", "chunked_local", "mla", "cross", "encoder_only"]
    num_heads: int
    num_kv_heads: int
    head_dim: int
    head_dim_v: int
    window: int = 0
    chunk: int = 0
    kv_lora_rank: int = 0  # MLA: the cache holds kv_lora_rank + qk_rope_head_dim per token
    qk_rope_head_dim: int = 0
    qk_nope_head_dim: int = 0
    indexer: "Indexer | None" = None  # DeepSeek sparse attention: its own cache of keys
    compress_ratio: int = 0  # DeepSeek-V4
    sinks: bool = False
    shares_cache_of: int | None = None  # index of the layer whose cache this one reads (no cache of its own)
    rope: Rope | None = None
    convolution: "ConvWindow | None" = None  # states of short convolutions, in pages of their own

    def __post_init__(self) -> None:
        for name in ("num_heads", "num_kv_heads", "head_dim"):
            if getattr(self, name) < 1:
                raise ConfigError(f"attention with {name} = {getattr(self, name)}: it must be at least 1")
        if self.kind == "sliding_window" and self.window < 1:
            raise ConfigError(f"a sliding-window layer with a window of {self.window} tokens")


class ConvWindow(Struct, frozen=True):
    """What a layer's short convolutions keep: a window of `kernel` tokens, `width` values for each KV head."""

    heads: int
    width: int
    kernel: int


class Indexer(Struct, frozen=True):
    heads: int
    head_dim: int
    top_k: int
    rope: Rope | None = None  # a rotary table of its own


class State(Struct, frozen=True):
    """One recurrent layer's state, before tensor parallelism. The shapes follow in engines/vllm/kv/cache.py."""

    kind: Literal["mamba1", "mamba2", "gdn", "kda", "short_conv", "linear_attention"]
    conv_kernel: int = 0
    intermediate: int = 0  # mamba: inner width
    state_size: int = 0
    num_heads: int = 0  # mamba2 heads; gdn/kda value heads
    head_dim: int = 0  # mamba2 head width; gdn/kda value head width
    groups: int = 0  # mamba2 groups; gdn/kda key heads
    key_dim: int = 0  # gdn/kda key head width
    chunk_size: int = 0
    dtype: str = ""  # dtype of the recurrent state if the config fixes it
    backend: str = ""  # the engine's kernel where the model class brings its own


Mixer = Attention | State


class Layer(Struct, frozen=True):
    index: int
    prefix: str  # "model.layers.0"
    mixers: tuple[Mixer, ...]  # none: an MLP-only layer; two: attention and state side by side (Falcon-H1)
    block: Block


class Tower(Struct, frozen=True):
    """A vision or audio encoder, or the projector behind it. `blocks`: (how many, block) pairs."""

    name: str
    modality: Literal["vision", "audio"]
    prefix: str
    blocks: tuple[tuple[int, Block], ...]
    layers: int = 0
    hidden: int = 0
    intermediate: int = 0
    num_heads: int = 0
    # what every rank holds all of where tensor parallelism does not divide the heads; "": engines refuse that
    alone: Literal["", "attention", "tower"] = ""
    activation: str = ""  # between the MLP's layers, where it is none of PyTorch's own


class Modality(Struct, frozen=True):
    """What one item of a modality costs in tokens at most, as the processors count it."""

    name: str
    max_tokens: int
    frame: int = 0  # of a video that has as many frames as the context holds, the tokens of one
    patches: int = 0  # what the encoder reads of the largest item; 0: as many for each token as its class merges


class Quantization(Struct, frozen=True):
    """The checkpoint-wide facts of a quantisation config; which modules it covers is in their schemes."""

    method: str
    scheme: Scheme | None = None
    kv_cache: str = ""  # the KV dtype the checkpoint asks for ("fp8"), "" = none
    ignore: tuple[str, ...] = ()
    ignored: bool = False  # its files do not name the method where vLLM looks: the weights are built as if plain
    refused: str = ""  # what vLLM says instead of reading its files
    kv_cache_beside: str = ""  # the KV dtype of hf_quant_config.json, where config.json is quantised and silent


class Model(Struct, frozen=True, cache_hash=True):
    name: str
    architecture: str
    dtype: str
    hidden_size: int
    vocab_size: int
    max_position: int  # the context length the config derives, rope scaling included
    layers: tuple[Layer, ...]
    root: Block  # what is outside the layers: embedding, final norm, output head
    stored: tuple[Stored, ...]
    drafts: tuple[Layer, ...] = ()  # multi-token-prediction layers in the checkpoint
    draft_root: Block = Block()
    towers: tuple[Tower, ...] = ()
    modalities: tuple[Modality, ...] = ()
    quantization: Quantization | None = None
    model_type: str = ""
    source: str = ""  # where it came from: "catalogue", a folder, a hub revision, a GGUF file
    basis: Literal["headers", "config"] = "config"
    tied: bool = False
    num_heads: int = 0  # what the engine checks tensor parallelism against
    num_kv_heads: int = 0
    pooling: bool = False  # an embedding or reward model: no sampler
    attention_free: bool = False
    params: tuple[tuple[str, int | float | str], ...] = ()  # further facts by their config name
    warnings: tuple[str, ...] = ()
    # True: the architecture is not known; `stored` is the headers' and there are no layers
    opaque: bool = False

    @property
    def nbytes(self) -> int:
        return sum(s.nbytes for s in self.stored)

    @property
    def elements(self) -> int:
        return sum(s.elements for s in self.stored)

    def param(self, name: str, default: int | float | str = 0) -> int | float | str:
        return next((value for key, value in self.params if key == name), default)
