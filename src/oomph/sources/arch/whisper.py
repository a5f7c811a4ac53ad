"""Whisper: an audio encoder and a decoder that looks back at it. vLLM: models/whisper.py."""

from __future__ import annotations

from oomph.errors import ConfigError
from oomph.ir.model import Attention, Modality, Module, Param, Role, Tower, Vocab
from oomph.sources.arch.base import Builder, Site, Skeleton
from oomph.sources.arch.decoder import norm


def build(b: Builder) -> Skeleton:
    t = b.text
    # WhisperConfig
    t.fill(vocab_size=51865, num_mel_bins=80, encoder_layers=4, decoder_layers=4, d_model=384)
    t.fill(encoder_attention_heads=6, decoder_attention_heads=6, encoder_ffn_dim=1536, decoder_ffn_dim=1536)
    t.fill(max_source_positions=1500, max_target_positions=448)
    width, heads = t.integer("d_model"), t.integer("decoder_attention_heads")
    t.fill(hidden_size=width, num_attention_heads=heads, num_key_value_heads=heads)
    t.fill(intermediate_size=t.integer("decoder_ffn_dim"))
    source, target, vocab = (
        t.integer("max_source_positions"),
        t.integer("max_target_positions"),
        t.integer("vocab_size"),
    )
    if width % heads:
        raise ConfigError(f"{t.where}: d_model {width} is not divisible by {heads} attention heads")
    head_dim = width // heads
    own = Attention("full", heads, heads, head_dim, head_dim)
    cross = Attention("cross", heads, heads, head_dim, head_dim)
    layers = []
    for i in range(t.integer("decoder_layers", high=10_000)):
        s = b.site(f"model.decoder.layers.{i}")
        layers.append(b.layer(i, s.prefix, [own, cross], _layer(s, width, heads, t.integer("decoder_ffn_dim"), True)))
    encoder = whisper_encoder(
        b,
        "model.encoder",
        width=width,
        heads=t.integer("encoder_attention_heads"),
        inter=t.integer("encoder_ffn_dim"),
        count=t.integer("encoder_layers", high=10_000),
        mels=t.integer("num_mel_bins"),
        positions=source,
    )
    at = "model.decoder"
    root = b.block(
        [
            # whisper.py:600 (0.21.0): nn.Embedding, whole on every rank; the output head is the same table
            Param(f"{at}.embed_tokens.weight", (vocab, width), b.dtype, "embed"),
            Param(f"{at}.embed_positions.weight", (target, width), b.dtype, "embed"),
            *norm(b.site(""), f"{at}.layer_norm", width, True),
            Vocab("proj_out", vocab, width, b.dtype, "lm_head", tied=True, stored=False),
        ]
    )
    return Skeleton(
        tuple(layers),
        root,
        towers=(encoder,),
        modalities=(Modality("audio", source),),
        max_position=target,
        params=(("max_source_positions", source),),
    )


def whisper_encoder(
    b: Builder, prefix: str, *, width: int, heads: int, inter: int, count: int, mels: int, positions: int
) -> Tower:
    s = b.site(prefix)
    first: list[Module] = [
        *_conv(b, "conv1", width, mels),
        *_conv(b, "conv2", width, width),
        Param("embed_positions.weight", (positions, width), b.dtype, "multimodal"),
        *norm(s, "layer_norm", width, True),
    ]
    blocks = ((1, b.block(first)), (count, b.block(_layer(s, width, heads, inter, False, "layers.0."))))
    return Tower(prefix.rpartition(".")[2], "audio", prefix, blocks, count, width, inter, heads)


def _conv(b: Builder, name: str, out: int, inputs: int) -> list[Module]:
    return [
        Param(f"{name}.weight", (out, inputs, 3), b.dtype, "multimodal"),
        Param(f"{name}.bias", (out,), b.dtype, "multimodal"),
    ]


def _layer(s: Site, width: int, heads: int, inter: int, decodes: bool, at: str = "") -> list[Module]:
    role: Role = "attention" if decodes else "multimodal"
    mlp: Role = "mlp" if decodes else "multimodal"
    modules = _attend(s, f"{at}self_attn", width, heads, role, "qkv")
    modules += norm(s, f"{at}self_attn_layer_norm", width, True)
    if decodes:
        modules.append(s.column(f"{at}encoder_attn.q_proj", width, width, role, bias=True))
        modules += _attend(s, f"{at}encoder_attn", width, heads, role, "kv")
        modules += norm(s, f"{at}encoder_attn_layer_norm", width, True)
    return [
        *modules,
        s.column(f"{at}fc1", inter, width, mlp, bias=True),
        s.row(f"{at}fc2", width, inter, mlp, bias=True),
        *norm(s, f"{at}final_layer_norm", width, True),
    ]


def _attend(s: Site, at: str, width: int, heads: int, role: Role, letters: str) -> list[Module]:
    """The checkpoint has no bias for k; vLLM's fused layer has one for all of its parts."""
    dtype, fused = s.b.dtype, f"{at}.{letters}_proj"
    parts = [(f"{at}.{n}_proj", width, heads) for n in letters]
    return [
        s.linear(fused, parts, width, "column", role),
        Param(f"{fused}.bias", (len(letters) * width,), dtype, role, shard_dim=0, stored=False),
        *[Param(f"{at}.{n}_proj.bias", (width,), dtype, role, created=False) for n in letters if n != "k"],
        s.row(f"{at}.out_proj", width, width, role, bias=True),
    ]
