"""Multi-head latent attention and what DeepSeek put around it: the sparse-attention indexer and the routed MLP.

vLLM: models/deepseek_v2.py (DeepseekV2MLAAttention, Indexer, DeepseekV2MoE).
"""

from msgspec.structs import replace

from oomph.ir import Attention, Indexer, Linear, Module, Param, Part, Rope, Routing, Vocab
from oomph.sources.arch.base import Site, rope_of
from oomph.sources.config import Config


def mla_mixer(text: Config, *, indexer: Indexer | None = None, rope: bool = True) -> Attention:
    """The cache holds one vector of kv_lora_rank + qk_rope_head_dim per token, whatever the heads."""
    heads = text.integer("num_attention_heads")
    rank, rotary, nope = (
        text.integer("kv_lora_rank"),
        text.integer("qk_rope_head_dim"),
        text.integer("qk_nope_head_dim"),
    )
    return Attention(
        "mla",
        heads,
        1,
        rank + rotary,
        text.integer("v_head_dim"),
        kv_lora_rank=rank,
        qk_rope_head_dim=rotary,
        qk_nope_head_dim=nope,
        indexer=indexer,
        rope=mla_rope(text, rotary) if rope else None,
    )


def mla_rope(text: Config, width: int, *, neox: bool = False) -> Rope:
    """deepseek_v2.py:962 (0.21.0): any scaling becomes DeepSeek's own. `neox` is part of get_rope's key."""
    rope = rope_of(text, width)
    kind = "default" if rope.kind == "default" else "deepseek_yarn"
    return replace(rope, kind=kind, params=(*rope.params, ("is_neox_style", 1.0)) if neox else rope.params)


def mla_modules(site: Site, text: Config, *, at: str = "self_attn") -> list[Module]:
    hidden, heads = text.integer("hidden_size"), text.integer("num_attention_heads")
    rank, rotary, nope = (
        text.integer("kv_lora_rank"),
        text.integer("qk_rope_head_dim"),
        text.integer("qk_nope_head_dim"),
    )
    v_dim, q_rank = text.integer("v_head_dim"), text.integer("q_lora_rank", default=0, low=0)
    kv_a = (f"{at}.kv_a_proj_with_mqa", rank + rotary)
    q_dim = heads * (nope + rotary)
    modules: list[Module] = []
    if q_rank:
        # DeepSeekV2FusedQkvAProjLinear: merged, and the same on every rank (disable_tp)
        parts = [(f"{at}.q_a_proj", q_rank), kv_a]
        modules += [
            site.linear(f"{at}.fused_qkv_a_proj", parts, hidden, "replicated", "attention"),
            site.norm(f"{at}.q_a_layernorm", q_rank),
            site.linear(f"{at}.q_b_proj", [(f"{at}.q_b_proj", q_dim, heads)], q_rank, "column", "attention"),
        ]
    else:
        modules += [
            site.linear(kv_a[0], [kv_a], hidden, "replicated", "attention"),
            site.linear(f"{at}.q_proj", [(f"{at}.q_proj", q_dim, heads)], hidden, "column", "attention"),
        ]
    kv_b = (f"{at}.kv_b_proj", heads * (nope + v_dim), heads)
    return [
        *modules,
        site.norm(f"{at}.kv_a_layernorm", rank),
        site.linear(f"{at}.kv_b_proj", [kv_b], rank, "column", "attention"),
        site.row(f"{at}.o_proj", hidden, heads * v_dim, "attention"),
    ]


def indexer_of(text: Config) -> Indexer | None:
    """DeepSeek sparse attention (`index_topk`). Its rotary table is the layer's own where both interleave
    (deepseek_v2.py:989, 0.21.0: is_neox_style is part of get_rope's key)."""
    if not text.has("index_topk"):
        return None
    shared = text.flag("indexer_rope_interleave")
    rope = None if shared else mla_rope(text, text.integer("qk_rope_head_dim"), neox=True)
    if rope is not None:
        rope = replace(rope, only="an indexer's own rotary table", short=-1)
    return Indexer(text.integer("index_n_heads"), text.integer("index_head_dim"), text.integer("index_topk"), rope)


_BIASED = "indexer weights with a bias"


def indexer_modules(site: Site, text: Config, indexer: Indexer, *, stored: bool = True) -> list[Module]:
    """deepseek_v2.py Indexer: replicated; wk and weights_proj are created as one unquantised layer even where the
    checkpoint has wk in FP8."""
    hidden, q_rank, builder = text.integer("hidden_size"), text.integer("q_lora_rank"), site.b
    at, apart = "self_attn.indexer", "indexer keys apart"
    wk = site.linear(f"{at}.wk", [Part(f"{at}.wk", indexer.head_dim, only=apart)], hidden, "replicated", "attention")
    weights = site.linear(
        f"{at}.weights_proj",
        [Part(f"{at}.weights_proj", indexer.heads, only=apart)],
        hidden,
        "replicated",
        "attention",
        quantised=False,
    )
    wq_b = Part(f"{at}.wq_b", indexer.heads * indexer.head_dim, stored=stored)
    fused = Part(f"{at}.wk_weights_proj", indexer.head_dim + indexer.heads, stored=False, only="indexer keys fused")
    return [
        site.linear(f"{at}.wq_b", [wq_b], q_rank, "replicated", "attention"),
        *([wk, weights] if stored else []),
        Param(f"{at}.weights_proj.bias", (indexer.heads,), builder.dtype, "attention", stored=False, only=_BIASED),
        Linear(f"{at}.wk_weights_proj", (fused,), hidden, "replicated", "attention", builder.dtype),
        *[
            Param(f"{at}.k_norm.{n}", (indexer.head_dim,), builder.dtype, "norm", stored=stored, created_dtype="F32")
            for n in ("weight", "bias")
        ],
    ]


def routed_mlp(site: Site, text: Config, *, correction: bool = True, gate_dtype: str = "") -> list[Module]:
    """deepseek_v2.py DeepseekV2MoE: router, shared experts, routed experts."""
    hidden, inter = text.integer("hidden_size"), text.integer("moe_intermediate_size")
    count = text.integer("n_routed_experts", "num_experts", "num_local_experts")
    shared = text.integer("n_shared_experts", "num_shared_experts", default=0, low=0)
    gate = site.replicated("mlp.gate", count, hidden, "router", quantised=False)
    top_k = text.integer("num_experts_per_tok", "num_experts_per_token")
    routing = Routing(
        "sigmoid"
        if text.text("scoring_func", default="sigmoid" if correction else "softmax") == "sigmoid"
        else "softmax",
        text.flag("norm_topk_prob", default=correction),
        text.integer("n_group", default=1, low=0),
        biased=correction,
    )
    return [
        replace(gate, created_dtype=gate_dtype) if gate_dtype else gate,
        *([score_correction("mlp.gate.e_score_correction_bias", count)] if correction else []),
        *(site.gated_mlp(hidden, inter * shared, at="mlp.shared_experts", role="shared_experts") if shared else []),
        site.experts(count, hidden, inter, top_k, at="mlp.experts", routing=routing),
    ]


def score_correction(name: str, count: int) -> Param:
    """fused_moe's router adds it in FP32, and checkpoints keep it so"""
    return Param(name, (count,), "F32", "router", created_dtype="F32")


def nextn_modules(site: Site, hidden: int, vocab: int, block: list[Module], *, own_vocab: bool) -> list[Module]:
    """deepseek_mtp.py DeepSeekMultiTokenPredictorLayer around a decoder layer. Embedding and head are the target's;
    most of DeepSeek's and GLM-4's checkpoints store them once more in the layer."""
    builder = site.b
    head = builder.stores(f"{site.prefix}.shared_head.head.weight", own_vocab)
    table = builder.stores(f"{site.prefix}.embed_tokens.weight", own_vocab)
    return [
        site.norm("enorm", hidden),
        site.norm("hnorm", hidden),
        site.replicated("eh_proj", hidden, 2 * hidden, "other", quantised=False),
        site.norm("shared_head.norm", hidden),
        Vocab("shared_head.head", vocab, hidden, builder.dtype, "lm_head", stored=head),
        *block,
        Vocab("embed_tokens", vocab, hidden, builder.dtype, "embed", stored=table),
    ]
