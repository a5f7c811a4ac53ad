"""Pure Mamba and Mamba 2 models: Mamba, Falcon Mamba, Codestral Mamba. vLLM: models/mamba.py, mamba2.py."""

from __future__ import annotations

from oomph.ir.model import Module
from oomph.sources.arch.base import Builder, Site, Skeleton
from oomph.sources.arch.mamba import Mamba1, Mamba2, mamba1_modules, mamba2_modules
from oomph.sources.config import Config
from oomph.units import cdiv


def build(b: Builder) -> Skeleton:
    t = b.text
    second = b.architecture == "Mamba2ForCausalLM"
    # MambaConfig, FalconMambaConfig, Mamba2Config
    t.fill(conv_kernel=4, use_conv_bias=True, expand=2, tie_word_embeddings=not second)
    t.fill(**({"state_size": 128, "n_groups": 8, "num_heads": 128, "head_dim": 64} if second else {"state_size": 16}))
    hidden = t.integer("hidden_size")
    mixer = _second(t) if second else _first(t)
    layers = []
    for i in range(t.integer("num_hidden_layers", high=10_000)):
        s = b.site(f"backbone.layers.{i}")
        layers.append(b.layer(i, s.prefix, [mixer.mixer], [*_modules(s, mixer), s.norm("norm", hidden)]))
    root = b.head(
        t.integer("vocab_size"),
        hidden,
        embed="backbone.embeddings",
        norm="backbone.norm_f.weight",
        tied=t.flag("tie_word_embeddings"),
        everywhere=True,
    )
    return Skeleton(tuple(layers), root)


def _modules(s: Site, mixer: Mamba1 | Mamba2) -> list[Module]:
    return mamba2_modules(s, mixer, "mixer") if isinstance(mixer, Mamba2) else mamba1_modules(s, mixer, "mixer")


def _first(t: Config) -> Mamba1:
    hidden = t.integer("hidden_size")
    auto = t.get("time_step_rank", default="auto") == "auto"
    return Mamba1(
        hidden,
        t.integer("intermediate_size", default=t.integer("expand") * hidden),
        t.integer("state_size"),
        t.integer("conv_kernel"),
        cdiv(hidden, 16) if auto else t.integer("time_step_rank"),
        conv_bias=t.flag("use_conv_bias"),
        proj_bias=t.flag("use_bias"),
    )


def _second(t: Config) -> Mamba2:
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
