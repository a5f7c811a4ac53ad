"""DeepSeek-V4: one-head latent attention over a window and over compressed states, hyper-connections, FP4 experts.

vLLM: models/deepseek_v4.py and layers/deepseek_v4_attention.py (0.20 and 0.21), models/deepseek_v4/ (0.22 and later).
"""

from msgspec import Struct
from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir import Attention, Experts, Indexer, Layer, Linear, Module, Param, Part, Rope, Routing, Scheme, Vocab
from oomph.sources.arch.base import SHARED_WHOLE, Builder, Site, Skeleton, rope_of
from oomph.sources.arch.mla import score_correction
from oomph.sources.config import Config

_WHOLE_BLOCKS = "DeepSeek-V4 shared experts in whole blocks"


class _Net(Struct, frozen=True):
    builder: Builder
    hidden: int
    heads: int
    head_dim: int
    ratios: tuple[int, ...]
    ropes: tuple[Rope, Rope]  # of layers that only see the window, and of those that compress
    indexer: Indexer


def build(builder: Builder) -> Skeleton:
    text = builder.text
    if builder.quant is not None and builder.quant.facts.method == "fp8":
        builder.scale_dtype = "F8_E8M0"
    count = text.integer("num_hidden_layers", high=10_000)
    nextn = text.integer("num_nextn_predict_layers", default=0, low=0, high=100)
    ratios = text.integers("compress_ratios") or [0] * count
    if len(ratios) < count or min(ratios) < 0:
        raise ConfigError(f"{text.where}: compress_ratios does not name a ratio for each of {count} layers")
    ratios = ratios[:count] + [0] * nextn  # attention.py:232 (0.32.0): drafts are never compressed
    rotary = text.integer("qk_rope_head_dim", default=64)
    indexer = Indexer(text.integer("index_n_heads"), text.integer("index_head_dim"), text.integer("index_topk"))
    net = _Net(
        builder,
        hidden=text.integer("hidden_size"),
        heads=text.integer("num_attention_heads"),
        head_dim=text.integer("head_dim"),
        ratios=tuple(ratios),
        ropes=(_rope(text, rotary, "rope_theta", 1e4), _rope(text, rotary, "compress_rope_theta", 1.6e5)),
        indexer=indexer,
    )
    layers = tuple(_layer(net, site) for site in net.builder.sites("layers", count))
    drafts = tuple(_draft(net, i, count + i) for i in range(nextn))
    root = builder.head(
        text.integer("vocab_size"),
        net.hidden,
        embed="embed",
        norm="norm.weight",
        head="head",
        tied=text.flag("tie_word_embeddings"),
        extra=_hyper_head(net, "hc_head"),
    )
    return Skeleton(layers, root, drafts=drafts, params=(("index_topk", indexer.top_k),))


def _rope(text: Config, width: int, key: str, default: float) -> Rope:
    """DeepseekV4ScalingRotaryEmbedding: a table in float32 for each base frequency."""
    params = dict(text.table("rope_scaling", "rope_parameters")) | {"rope_theta": text.number(key, default=default)}
    params["partial_rotary_factor"] = 1.0  # `width` is the rotary part already
    return rope_of(text, width, params=params, dtype="F32")


def _hyper_head(net: _Net, at: str) -> list[Module]:
    mult = net.builder.text.integer("hc_mult", default=4)
    shapes = (("fn", (mult, mult * net.hidden)), ("base", (mult,)), ("scale", (1,)))
    return [Param(f"{at}_{n}", shape, "F32", "other", created_dtype="F32") for n, shape in shapes]


def _hyper(net: _Net) -> list[Module]:
    """Hyper-connections: how the `hc_mult` residual streams mix around attention and MLP."""
    mult = net.builder.text.integer("hc_mult", default=4)
    rows = (2 + mult) * mult
    modules: list[Module] = []
    for place in ("attn", "ffn"):
        for n, shape in (("fn", (rows, mult * net.hidden)), ("base", (rows,)), ("scale", (3,))):
            modules.append(Param(f"hc_{place}_{n}", shape, "F32", "other", created_dtype="F32"))
    return modules


def _layer(net: _Net, site: Site, draft: bool = False) -> Layer:
    ratio = net.ratios[site.index]
    mixer = Attention(
        "mla",
        net.heads,
        1,
        net.head_dim,
        net.head_dim,
        window=net.builder.text.integer("sliding_window", default=128),
        qk_rope_head_dim=net.builder.text.integer("qk_rope_head_dim", default=64),
        compress_ratio=ratio,
        indexer=net.indexer if ratio == 4 else None,
        sinks=True,
        rope=net.ropes[1 if ratio > 1 else 0],
    )
    modules = [
        *_attention(net, site, ratio),
        *_mlp(net, site, site.index, draft),
        site.norm("attn_norm", net.hidden),
        site.norm("ffn_norm", net.hidden),
        *_hyper(net),
    ]
    return site.layer([mixer], modules)


def _attention(net: _Net, site: Site, ratio: int) -> list[Module]:
    text, hidden, width, at = net.builder.text, net.hidden, net.head_dim, "attn"
    rank, groups, o_rank = text.integer("q_lora_rank"), text.integer("o_groups"), text.integer("o_lora_rank")
    inputs = (Part(f"{at}.wq_a", rank), Part(f"{at}.wkv", width))
    fused = _scheme(site, [p.name for p in inputs], f"{at}.fused_wqa_wkv")
    sinks = [
        ("DeepSeek-V4 sinks for 64 heads", 64, True),
        ("DeepSeek-V4 sinks for its heads", 0, False),
    ]
    return [
        *[
            Param(
                f"{at}.attn_sink",
                (net.heads,),
                "F32",
                "attention",
                shard_dim=0,
                stored=stored,
                created_dtype="F32",
                only=habit,
                at_least=least,
            )
            for habit, least, stored in sinks
        ],
        Linear(f"{at}.fused_wqa_wkv", inputs, hidden, "replicated", "attention", net.builder.dtype, scheme=fused),
        site.norm(f"{at}.q_norm", rank),
        site.linear(f"{at}.wq_b", [(f"{at}.wq_b", net.heads * width, net.heads)], rank, "column", "attention"),
        site.norm(f"{at}.kv_norm", width),
        site.linear(
            f"{at}.wo_a", [(f"{at}.wo_a", groups * o_rank, groups)], net.heads * width // groups, "column", "attention"
        ),
        site.row(f"{at}.wo_b", hidden, groups * o_rank, "attention"),
        *(_indexer(net, site, f"{at}.indexer", rank) if ratio == 4 else []),
        *(_compressor(net, site, f"{at}.compressor", width, ratio) if ratio > 1 else []),
    ]


def _indexer(net: _Net, site: Site, at: str, rank: int) -> list[Module]:
    wide = net.indexer.heads * net.indexer.head_dim
    habit = "DeepSeek-V4 indexer norm"
    norms = [
        Param(f"{at}.k_norm.{n}", (net.indexer.head_dim,), "F32", "norm", stored=False, created_dtype="F32", only=habit)
        for n in ("weight", "bias")
    ]
    return [
        site.replicated(f"{at}.wq_b", wide, rank, "attention"),
        site.replicated(f"{at}.weights_proj", net.indexer.heads, net.hidden, "attention", quantised=False),
        *norms,
        *_compressor(net, site, f"{at}.compressor", net.indexer.head_dim, 4),
    ]


def _compressor(net: _Net, site: Site, at: str, width: int, ratio: int) -> list[Module]:
    """deepseek_compressor.py: windows overlap at ratio 4, so everything is twice as wide there."""
    wide = width * (2 if ratio == 4 else 1)
    parts = [(f"{at}.wkv", wide), (f"{at}.wgate", wide)]
    return [
        Param(f"{at}.ape", (ratio, wide), "F32", "attention", created_dtype="F32"),
        site.linear(f"{at}.fused_wkv_wgate", parts, net.hidden, "replicated", "attention", quantised=False),
        site.norm(f"{at}.norm", width),
    ]


def _mlp(net: _Net, site: Site, index: int, draft: bool) -> list[Module]:
    text, hidden = net.builder.text, net.hidden
    count, inter = text.integer("n_routed_experts"), text.integer("moe_intermediate_size")
    top_k, at = text.integer("num_experts_per_tok"), "ffn"
    modules: list[Module] = [site.replicated(f"{at}.gate", count, hidden, "router", quantised=False)]
    if index < text.integer("num_hash_layers", default=0, low=0) and not draft:
        # the first layers choose experts by the token itself: a table over the vocabulary
        table = (text.integer("vocab_size"), top_k)
        modules.append(Param(f"{at}.gate.tid2eid", table, "I32", "router", created_dtype="I32"))
    else:
        modules.append(score_correction(f"{at}.gate.bias", count))
    site.b.shared_whole_by = SHARED_WHOLE
    shared = text.integer("n_shared_experts", default=0, low=0)
    if shared:
        # compressed-tensors targets name vLLM's own modules here
        named = net.builder.quant is not None and net.builder.quant.facts.method == "compressed-tensors"
        names = ("gate_proj", "up_proj", "down_proj") if named else ("w1", "w3", "w2")
        mlp = site.gated_mlp(hidden, inter * shared, at=f"{at}.shared_experts", role="shared_experts", names=names)
        modules += [replace(m, whole_blocks=_WHOLE_BLOCKS) if isinstance(m, Linear) else m for m in mlp]
    experts = site.experts(
        count,
        hidden,
        inter,
        top_k,
        at=f"{at}.experts",
        projections=("w1", "w3", "w2"),
        routing=Routing("sqrtsoftplus", biased=True),
    )
    return [*modules, _experts_as_stored(net, experts, site)]


def _experts_as_stored(net: _Net, experts: Experts, site: Site) -> Experts:
    """`expert_dtype: fp4` inside an FP8 checkpoint: experts in MXFP4 (deepseek_v4 quantisation config of vLLM)."""
    quant = net.builder.quant
    if quant is not None and quant.facts.method == "compressed-tensors":
        named = [f"{site.prefix}.ffn.experts.0.{p}" for p in ("gate_proj", "up_proj", "down_proj")]
        # what the checkpoint has is what its config's targets mean; releases that ask for w1, w2 and w3 miss them
        scheme = net.builder.scheme(named, "experts")
        return replace(experts, scheme=scheme, only="experts by gate, up and down", other=experts.scheme)
    scheme = experts.scheme
    if scheme is not None and scheme.method == "fp8" and net.builder.text.text("expert_dtype") == "fp4":
        return replace(experts, scheme=Scheme("mxfp4", 4, "float", "group", 32))
    return experts


def _scheme(site: Site, names: list[str], fused: str) -> Scheme | None:
    """compressed-tensors targets name vLLM's own modules here"""
    quant = site.b.quant
    if quant is not None and quant.facts.method == "compressed-tensors":
        return site.b.scheme([f"{site.prefix}.{fused}"])
    return site.b.scheme([f"{site.prefix}.{n}" for n in names])


def _draft(net: _Net, number: int, index: int) -> Layer:
    site, hidden = net.builder.site(f"mtp.{number}", index), net.hidden
    block = _layer(net, site, draft=True)
    vocab = net.builder.text.integer("vocab_size")
    modules: list[Module] = [
        *_hyper_head(net, "hc_head"),
        site.norm("enorm", hidden),
        site.norm("hnorm", hidden),
        site.replicated("e_proj", hidden, hidden, "other"),
        site.replicated("h_proj", hidden, hidden, "other"),
        site.norm("norm", hidden),
        Vocab("shared_head.head", vocab, hidden, net.builder.dtype, "lm_head", stored=False),
        *block.block.modules,
        Vocab("embed_tokens", vocab, hidden, net.builder.dtype, "embed", stored=False),
    ]
    return site.layer(block.mixers, modules)
