"""Models of nothing but Mamba layers: Mamba, Falcon-Mamba, Mamba-2 (Codestral Mamba).

vLLM: models/mamba.py, mamba2.py.
"""

from __future__ import annotations

from oomph.ir.model import Param
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.decoder import ALL_STAGES, Names, Style, decoder_root
from oomph.sources.arch.mamba import Mamba1, Mamba2, mamba1_modules, mamba2_modules
from oomph.sources.config import Config

_STYLE = Style(everywhere=ALL_STAGES, names=Names(embed="embeddings", norm="norm_f"))


def build(b: Builder) -> Skeleton:
    t = b.text
    second = b.architecture == "Mamba2ForCausalLM"
    t.fill(conv_kernel=4, use_conv_bias=True, expand=2, n_groups=8, tie_word_embeddings=not second)
    t.fill(state_size=128 if second else 16, num_heads=128, head_dim=64)
    # the config classes have no attention; what engines check tensor parallelism against are the Mamba heads
    t.fill(num_attention_heads=t.integer("num_heads") if second else 1)
    hidden = t.integer("hidden_size")
    layers = []
    for i in range(t.integer("num_hidden_layers", high=10_000)):
        s = b.site(f"backbone.layers.{i}")
        if second:
            wide = _mamba2(t)
            modules, mixer = mamba2_modules(s, wide, "mixer"), wide.mixer
        else:
            narrow = _mamba1(t)
            modules, mixer = mamba1_modules(s, narrow, "mixer"), narrow.mixer
        modules.append(Param("norm.weight", (hidden,), b.dtype, "norm"))
        layers.append(b.layer(i, s.prefix, [mixer], modules))
    return Skeleton(tuple(layers), decoder_root(b, _STYLE, "backbone"))


def _mamba1(t: Config) -> Mamba1:
    hidden = t.integer("hidden_size")
    rank = -(-hidden // 16) if t.get("time_step_rank", default="auto") == "auto" else t.integer("time_step_rank")
    return Mamba1(
        hidden,
        t.integer("intermediate_size", default=t.integer("expand") * hidden),
        t.integer("state_size"),
        t.integer("conv_kernel"),
        rank,
        conv_bias=t.flag("use_conv_bias"),
        proj_bias=t.flag("use_bias"),
    )


def _mamba2(t: Config) -> Mamba2:
    hidden = t.integer("hidden_size")
    return Mamba2(
        hidden,
        t.integer("intermediate_size", default=t.integer("expand") * hidden),
        t.integer("state_size"),
        t.integer("conv_kernel"),
        t.integer("n_groups"),
        t.integer("num_heads"),
        t.integer("head_dim"),
        conv_bias=t.flag("use_conv_bias"),
        proj_bias=t.flag("use_bias"),
        chunk=t.integer("chunk_size", default=256),
    )
