"""Draft models that come as checkpoints of their own: EAGLE 1 and 3, P-EAGLE, DFlash, DSpark, Medusa.

vLLM: models/llama_eagle.py, mistral_eagle.py, cohere_eagle.py, minicpm_eagle.py, llama_eagle3.py, qwen3_eagle3.py,
deepseek_eagle3.py, qwen3_dflash.py, qwen3_dflash2.py, qwen3_dspark.py, medusa.py. An embedding (or an output head)
that the checkpoint does not have is the target's.
"""

from msgspec import Struct
from msgspec.structs import replace

from oomph.ir import Attention, Layer, Module, Param, Role, Vocab
from oomph.sources.arch.base import Builder, Skeleton, rope_of
from oomph.sources.arch.decoder import Style, attention_modules, decoder_layers, dims, fill, norm, windows
from oomph.sources.arch.llama import LLAMA, MISTRAL, QWEN3, STYLES
from oomph.sources.arch.mla import mla_mixer, mla_modules
from oomph.sources.config import Config

_QWEN_EAGLE3 = replace(QWEN3, window="layers")


def build(builder: Builder) -> Skeleton:
    return _eagle3(builder, _QWEN_EAGLE3 if "Qwen3For" in builder.architecture else LLAMA)


def _table(builder: Builder, name: str, role: Role, rows: int = 0) -> Vocab:
    text = builder.text
    stored = builder.stores(f"{name}.weight", False) or builder.stores(f"model.{name}.weight", False)
    rows = rows or text.integer("vocab_size")
    return Vocab(name, rows, text.integer("hidden_size"), builder.dtype, role, stored=stored)


def _fused_width(text: Config, features: int) -> int:
    return features * text.integer("target_hidden_size", default=text.integer("hidden_size"))


def _aux_features(text: Config) -> int:
    """How many of the target's hidden states are read (llama_eagle3.py, qwen3_eagle3.py, 0.32.0)."""
    count = text.integer("num_aux_layers", "num_aux_hidden_states", default=0, low=0)
    own = text.items("eagle_aux_hidden_state_layer_ids")
    return count or len(own or text.sub("eagle_config").items("eagle_aux_hidden_state_layer_ids")) or 3


def _eagle3(builder: Builder, style: Style) -> Skeleton:
    """The first layer reads the embedding beside the hidden state, so its q, k and v are twice as wide."""
    text = builder.text
    fill(builder, style)
    hidden, inner = text.integer("hidden_size"), text.integer("intermediate_size")
    heads, kv, head_dim = dims(text, style)
    rope = rope_of(text, head_dim)
    bias = text.flag("attention_bias")
    normed = ("q_norm", "k_norm") if style.qk_norm else ()
    layers = []
    for i, window in enumerate(windows(text, Style() if style is LLAMA else style)):
        site = builder.site(
            "midlayer" if builder.stores("midlayer.self_attn.q_proj.weight", i == 0) and i == 0 else f"layers.{i}", i
        )
        modules: list[Module] = [
            site.qkv(hidden * (2 if i == 0 else 1), heads, kv, head_dim, bias=bias),
            site.row("self_attn.o_proj", hidden, heads * head_dim, "attention", bias=bias and not normed),
            *(site.norm(f"self_attn.{name}", head_dim) for name in normed),
            *site.gated_mlp(hidden, inner, bias=text.flag("mlp_bias")),
            *(site.norm(name, hidden) for name in _EAGLE3_NORMS),
        ]
        kind = Attention(
            "sliding_window" if window else "full", heads, kv, head_dim, head_dim, window=window, rope=rope
        )
        layers.append(site.layer([kind], modules))
    return Skeleton(tuple(layers), builder.block(_eagle3_root(builder)))


_EAGLE3_NORMS = ("input_layernorm", "post_attention_layernorm", "hidden_norm")


def _eagle3_root(builder: Builder) -> list[Module]:
    text = builder.text
    hidden, features = text.integer("hidden_size"), _aux_features(text)
    rows = text.integer("draft_vocab_size", default=text.integer("vocab_size"))
    width = _fused_width(text, features)
    before = text.flag("norm_before_fc") or bool(text.table("eagle_config").get("norm_before_fc"))
    each = range(features) if text.flag("fc_norm") else ()
    parallel = "eagle" in builder.architecture and "Eagle3" not in builder.architecture  # Peagle...
    parallel = parallel or builder.architecture == "PEagleDraftModel"
    mask = Param("mask_hidden", (1, width), builder.dtype, "other", stored=False)
    return [
        _table(builder, "embed_tokens", "embed"),
        *([Param("input_norm.weight", (width,), builder.dtype, "norm")] if before else []),
        *(Param(f"fc_norm.{n}.weight", (width // features,), builder.dtype, "norm") for n in each),
        builder.site("model").replicated("fc", hidden, width, "other"),
        Param("norm.weight", (hidden,), builder.dtype, "norm"),
        Vocab("lm_head", rows, hidden, builder.dtype, "lm_head"),
        *([mask] if parallel else []),
        Param("d2t", (rows,), "I64", "other", created_dtype="I64"),
        Param("t2d", (text.integer("vocab_size"),), "BOOL", "other", created=False),
    ]


def build_eagle3_latent(builder: Builder) -> Skeleton:
    """deepseek_eagle3.py: latent attention and a dense MLP; the first layer reads both states side by side."""
    text = builder.text
    hidden, inner = text.integer("hidden_size"), text.integer("intermediate_size")
    wide = Config({**text.raw, "hidden_size": 2 * hidden}, text.where)
    layers = []
    for site in builder.sites("layers"):
        first = mla_modules(site, wide if site.index == 0 else text)
        out = site.row(
            "self_attn.o_proj", hidden, text.integer("num_attention_heads") * text.integer("v_head_dim"), "attention"
        )
        modules = [
            *(out if module.name == "self_attn.o_proj" else module for module in first),
            *site.gated_mlp(hidden, inner),
            *(site.norm(name, hidden) for name in _EAGLE3_NORMS),
        ]
        layers.append(site.layer([mla_mixer(text)], modules))
    return Skeleton(tuple(layers), builder.block(_eagle3_root(builder)))


# --- EAGLE 1: layers of the target's kind behind one linear layer ----------------------------------------------------


class Head(Struct, frozen=True):
    """In what an EAGLE-1 class differs from Llama's."""

    style: Style = LLAMA
    first_norm: bool = False  # the first layer keeps its input norm
    fc: str = "replicated"  # how it is split: "row", or "plain" (torch's own)
    fc_bias: bool = False
    norms: tuple[str, ...] = ()
    head: bool = False  # it builds an output head of its own
    layers: str = "layers"


_HEADS: dict[str, Head] = {
    "EagleCohereForCausalLM": Head(
        style=replace(STYLES["Cohere2ForCausalLM"], window="layers"), first_norm=True, fc_bias=True, norms=("norm",)
    ),
    "EagleLlamaForCausalLM": Head(),
    "EagleMiniCPMForCausalLM": Head(
        first_norm=True, fc="plain", norms=("input_norm1", "input_norm2", "norm"), head=True, layers="eagle_layers"
    ),
    "EagleMistralForCausalLM": Head(style=MISTRAL, first_norm=True, fc="row", norms=("norm",)),
}


def build_eagle(builder: Builder) -> Skeleton:
    own, text = _HEADS[builder.architecture], builder.text
    fill(builder, own.style)
    heads, kv, width = dims(text, own.style)
    hidden, inner, rope = text.integer("hidden_size"), text.integer("intermediate_size"), rope_of(text, width)
    layers: list[Layer] = []
    for site, window in zip(builder.sites(own.layers), windows(text, own.style)):
        norms = own.style.norms if own.first_norm or site.index else own.style.norms[1:]
        modules: list[Module] = [
            *attention_modules(builder, site, own.style, heads, kv, width),
            *site.gated_mlp(hidden, inner, bias=text.flag("mlp_bias")),
            *(part for name in norms for part in norm(site, name, hidden, own.style.norm_bias)),
        ]
        kind = Attention("sliding_window" if window else "full", heads, kv, width, width, window=window, rope=rope)
        layers.append(site.layer([kind], modules))
    site = builder.site("model")
    make = site.row if own.fc == "row" else site.replicated
    rows = text.integer("vocab_size")
    root: list[Module] = [
        _table(builder, "embed_tokens", "embed"),
        make("fc", hidden, 2 * hidden, "other", bias=own.fc_bias, quantised=own.fc != "plain"),
        *(Param(f"{name}.weight", (hidden,), builder.dtype, "norm") for name in own.norms),
        *([Vocab("lm_head", rows, hidden, builder.dtype, "lm_head")] if own.head else []),
    ]
    return Skeleton(tuple(layers), builder.block(root))


# --- DFlash and what grew out of it: layers that read the target's states through one linear layer --------------------


def build_dflash(builder: Builder) -> Skeleton:
    text = builder.text
    fill(builder, QWEN3)
    own = text.sub("dflash_config")
    taps = own.integer("conv_kernel_size", default=0, low=0)
    hidden = text.integer("hidden_size")

    def convolutions(modules: list[Module]) -> list[Module]:
        """qwen3_dflash2.py DFlashGroupedConv, around attention and around the MLP."""
        groups = hidden // own.integer("conv_group_size")
        return [
            part
            for at in ("attention_conv", "mlp_conv")
            for part in (
                Param(f"{at}.base_kernel", (2, taps, hidden), builder.dtype, "other"),
                builder.site("layers").replicated(f"{at}.kernel_projection", 2 * taps * groups, hidden, "other"),
            )
        ]

    style = Style(qk_norm="head", window="none", defaults=QWEN3.defaults)
    layers = decoder_layers(builder, style, "", after=convolutions if taps else None)
    chosen = own.items("target_layer_ids") or own.items("layer_ids") or text.items("target_layer_ids")
    width = _fused_width(text, len(chosen) or len(layers))
    rows = text.integer("draft_vocab_size", default=text.integer("vocab_size"))
    root: list[Module] = [
        _table(builder, "embed_tokens", "embed"),
        Param("mask_embedding", (hidden,), builder.dtype, "other", stored=False, only="DFlash keeps a mask embedding"),
        builder.site("model").replicated("fc", hidden, width, "other"),
        Param("hidden_norm.weight", (hidden,), builder.dtype, "norm"),
        Param("norm.weight", (hidden,), builder.dtype, "norm"),
        *_more_of(builder, own, rows),
        _table(builder, "lm_head", "lm_head", rows),
    ]
    return Skeleton(layers, builder.block(root))


def _more_of(builder: Builder, own: Config, rows: int) -> list[Module]:
    text = builder.text
    hidden, vocab, site = text.integer("hidden_size"), text.integer("vocab_size"), builder.site("model")
    if builder.architecture == "DFlash2DraftModel":  # qwen3_dflash2.py CandidateSelector
        rank, at = own.integer("selector_rank"), "candidate_selector"
        return [
            Param(f"{at}.predecessor_codebook", (vocab, rank), builder.dtype, "other"),
            Param(f"{at}.successor_codebook", (vocab, rank), builder.dtype, "other"),
            site.replicated(f"{at}.hidden_projection", rank, hidden, "other", quantised=False),
        ]
    if "DSpark" not in builder.architecture:
        return []
    rank = text.integer("markov_rank")
    modules: list[Module] = [  # qwen3_dspark.py DSparkMarkovHead: whole on every rank
        Param("markov_head.markov_w1.weight", (vocab, rank), builder.dtype, "other"),
        Param("markov_head.markov_w2.weight", (-(-rows // 64) * 64, rank), builder.dtype, "other"),
    ]
    if text.flag("enable_confidence_head"):
        inputs = hidden + (rank if text.flag("confidence_head_with_markov") else 0)
        modules += [
            Param("confidence_head.proj.weight", (1, inputs), builder.dtype, "other", created_dtype="F32"),
            Param("confidence_head.proj.bias", (1,), builder.dtype, "other", created_dtype="F32"),
        ]
    if rows < vocab:
        modules.append(Param("d2t", (rows,), "I64", "other", created_dtype="I64"))
    return modules


def build_medusa(builder: Builder) -> Skeleton:
    """medusa.py: a few linear layers and an output head for each token ahead; no attention, no cache."""
    text = builder.text
    text.fill(hidden_size=4096, vocab_size=32001)
    hidden, rows = text.integer("hidden_size"), text.integer("vocab_size")
    count = text.integer("num_heads", "medusa_num_heads", default=5, high=1000)
    depth = text.integer("num_hidden_layers", "medusa_num_layers", default=1, high=1000)
    bias = text.flag("medusa_fc_bias")
    modules: list[Module] = []
    for number in range(count):
        for layer in range(depth):
            at = f"blocks.{number}.layers.{layer}"
            modules.append(Param(f"{at}.weight", (hidden, hidden), builder.dtype, "other"))
            modules += [Param(f"{at}.bias", (hidden,), builder.dtype, "other")] if bias else []
    shared = text.flag("original_lm_head")
    one = text.integer("truncated_vocab_size", default=rows) if shared else rows
    modules += [Vocab(f"lm_heads.{n}", one, hidden, builder.dtype, "lm_head") for n in range(1 if shared else count)]
    return Skeleton((), builder.block(modules), max_position=1 << 20)
