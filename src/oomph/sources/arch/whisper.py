"""Whisper: an audio encoder and a decoder that looks back at it. vLLM: models/whisper.py.

Behind it: Voxtral.
"""

from oomph.errors import ConfigError
from oomph.ir import Attention, Modality, Module, Param, Role, Tower, Vocab
from oomph.sources.arch.base import Builder, Site, Skeleton
from oomph.sources.arch.decoder import decoder_layers, decoder_root, fill, norm
from oomph.sources.arch.llama import LLAMA


def build(builder: Builder) -> Skeleton:
    text = builder.text
    # WhisperConfig
    text.fill(
        vocab_size=51865, num_mel_bins=80, encoder_layers=4, decoder_layers=4, d_model=384, encoder_attention_heads=6,
        decoder_attention_heads=6, encoder_ffn_dim=1536, decoder_ffn_dim=1536, max_source_positions=1500,
        max_target_positions=448,
    )  # fmt: skip
    width, heads = text.integer("d_model"), text.integer("decoder_attention_heads")
    text.fill(hidden_size=width, num_attention_heads=heads, num_key_value_heads=heads)
    text.fill(intermediate_size=text.integer("decoder_ffn_dim"))
    source, target, vocab = (
        text.integer("max_source_positions"),
        text.integer("max_target_positions"),
        text.integer("vocab_size"),
    )
    if width % heads:
        raise ConfigError(f"{text.where}: d_model {width} is not divisible by {heads} attention heads")
    head_dim = width // heads
    own = Attention("full", heads, heads, head_dim, head_dim)
    cross = Attention("cross", heads, heads, head_dim, head_dim)
    layers = tuple(
        site.layer([own, cross], _layer(site, width, heads, text.integer("decoder_ffn_dim"), True))
        for site in builder.sites("model.decoder.layers", text.integer("decoder_layers", high=10_000))
    )
    encoder = whisper_encoder(
        builder,
        "model.encoder",
        width=width,
        heads=text.integer("encoder_attention_heads"),
        inter=text.integer("encoder_ffn_dim"),
        count=text.integer("encoder_layers", high=10_000),
        mels=text.integer("num_mel_bins"),
        positions=source,
    )
    at = "model.decoder"
    root = builder.block(
        [
            # whisper.py:600 (0.21.0): nn.Embedding, whole on every rank; the output head is the same table
            Param(f"{at}.embed_tokens.weight", (vocab, width), builder.dtype, "embed"),
            Param(f"{at}.embed_positions.weight", (target, width), builder.dtype, "embed"),
            *norm(builder.site(""), f"{at}.layer_norm", width, True),
            Vocab("proj_out", vocab, width, builder.dtype, "lm_head", tied=True, stored=False),
        ]
    )
    return Skeleton(
        layers,
        root,
        towers=(encoder,),
        modalities=(Modality("audio", source),),
        max_position=target,
        params=(("max_source_positions", source),),
    )


def whisper_encoder(
    builder: Builder, prefix: str, *, width: int, heads: int, inter: int, count: int, mels: int, positions: int
) -> Tower:
    site = builder.site(prefix)
    first: list[Module] = [
        *site.convolution("conv1", width, mels, 3),
        *site.convolution("conv2", width, width, 3),
        site.tensor("embed_positions.weight", positions, width),
        *norm(site, "layer_norm", width, True),
    ]
    return site.tower(
        prefix.rpartition(".")[2],
        "audio",
        [(1, first), (count, _layer(site, width, heads, inter, False, "layers.0."))],
        count,
        width,
        inter,
        heads,
    )


def decoder_layer(site: Site, width: int, heads: int, inter: int) -> list[Module]:
    """A layer that looks at its own tokens and at an encoder's."""
    return _layer(site, width, heads, inter, True)


def _layer(site: Site, width: int, heads: int, inter: int, decodes: bool, at: str = "") -> list[Module]:
    role: Role = "attention" if decodes else "multimodal"
    mlp: Role = "mlp" if decodes else "multimodal"
    modules = _attend(site, f"{at}self_attn", width, heads, role, "qkv")
    modules += norm(site, f"{at}self_attn_layer_norm", width, True)
    if decodes:
        modules.append(site.column(f"{at}encoder_attn.q_proj", width, width, role, bias=True))
        modules += _attend(site, f"{at}encoder_attn", width, heads, role, "kv")
        modules += norm(site, f"{at}encoder_attn_layer_norm", width, True)
    return [
        *modules,
        site.column(f"{at}fc1", inter, width, mlp, bias=True),
        site.row(f"{at}fc2", width, inter, mlp, bias=True),
        *norm(site, f"{at}final_layer_norm", width, True),
    ]


def _attend(site: Site, at: str, width: int, heads: int, role: Role, letters: str) -> list[Module]:
    """The checkpoint has no bias for k; vLLM's fused layer has one for all of its parts."""
    dtype, fused = site.b.dtype, f"{at}.{letters}_proj"
    parts = [(f"{at}.{n}_proj", width, heads) for n in letters]
    return [
        site.linear(fused, parts, width, "column", role),
        Param(f"{fused}.bias", (len(letters) * width,), dtype, role, shard_dim=0, stored=False),
        *[Param(f"{at}.{n}_proj.bias", (width,), dtype, role, created=False) for n in letters if n != "k"],
        site.row(f"{at}.out_proj", width, width, role, bias=True),
    ]


# Voxtral: Whisper's encoder, four frames to a token, in front of a Mistral language model. vLLM: models/voxtral.py.

_FRAMES = 4  # VoxtralEncoderConfig, downsample_factor


def build_voxtral(builder: Builder) -> Skeleton:
    fill(builder, LLAMA)
    audio = builder.config.sub("audio_config")
    audio.fill(  # VoxtralEncoderConfig
        hidden_size=1280, intermediate_size=5120, num_hidden_layers=32, num_attention_heads=20, num_mel_bins=128,
        max_source_positions=1500,
    )  # fmt: skip
    prefix, outer, head = builder.language_root("language_model.model", "model.language_model")
    width, text = audio.integer("hidden_size"), builder.text.integer("hidden_size")
    encoder = whisper_encoder(
        builder,
        f"{outer}audio_tower",
        width=width,
        heads=audio.integer("num_attention_heads"),
        inter=audio.integer("intermediate_size"),
        count=audio.integer("num_hidden_layers", high=10_000),
        mels=audio.integer("num_mel_bins"),
        positions=audio.integer("max_source_positions"),
    )
    site = builder.site(f"{outer}multi_modal_projector")
    adapter: list[Module] = [
        site.replicated("linear_1", text, _FRAMES * width, "multimodal", quantised=False),
        site.replicated("linear_2", text, text, "multimodal", quantised=False),
    ]
    projector = site.tower("multi_modal_projector", "audio", [(1, adapter)])
    # voxtral.py:114 (0.21.0): audio may be as long as the context
    length = builder.text.integer("max_position_embeddings", default=32768)
    return Skeleton(
        decoder_layers(builder, LLAMA, prefix),
        decoder_root(builder, LLAMA, prefix, head),
        towers=(encoder, projector),
        modalities=(Modality("audio", length),),
    )
