"""Pure Mamba and Mamba 2 models: Mamba, Falcon Mamba, Codestral Mamba. vLLM: models/mamba.py, mamba2.py."""

from __future__ import annotations

from oomph.ir.model import Module
from oomph.sources.arch.base import Builder, Site, Skeleton
from oomph.sources.arch.mamba import Mamba1, Mamba2, mamba1_modules, mamba2_modules
from oomph.sources.config import Config
from oomph.units import cdiv


def build(builder: Builder) -> Skeleton:
    text = builder.text
    second = builder.architecture == "Mamba2ForCausalLM"
    # MambaConfig, FalconMambaConfig, Mamba2Config
    text.fill(conv_kernel=4, use_conv_bias=True, expand=2, tie_word_embeddings=not second)
    text.fill(
        **({"state_size": 128, "n_groups": 8, "num_heads": 128, "head_dim": 64} if second else {"state_size": 16})
    )
    hidden = text.integer("hidden_size")
    mixer = _second(text) if second else _first(text)
    layers = []
    for i in range(text.integer("num_hidden_layers", high=10_000)):
        site = builder.site(f"backbone.layers.{i}")
        layers.append(builder.layer(i, site.prefix, [mixer.mixer], [*_modules(site, mixer), site.norm("norm", hidden)]))
    root = builder.head(
        text.integer("vocab_size"),
        hidden,
        embed="backbone.embeddings",
        norm="backbone.norm_f.weight",
        tied=text.flag("tie_word_embeddings"),
        everywhere=True,
    )
    return Skeleton(tuple(layers), root)


def _modules(site: Site, mixer: Mamba1 | Mamba2) -> list[Module]:
    return mamba2_modules(site, mixer, "mixer") if isinstance(mixer, Mamba2) else mamba1_modules(site, mixer, "mixer")


def _first(text: Config) -> Mamba1:
    hidden = text.integer("hidden_size")
    auto = text.get("time_step_rank", default="auto") == "auto"
    return Mamba1(
        hidden,
        text.integer("intermediate_size", default=text.integer("expand") * hidden),
        text.integer("state_size"),
        text.integer("conv_kernel"),
        cdiv(hidden, 16) if auto else text.integer("time_step_rank"),
        conv_bias=text.flag("use_conv_bias"),
        proj_bias=text.flag("use_bias"),
    )


def _second(text: Config) -> Mamba2:
    hidden = text.integer("hidden_size")
    return Mamba2(
        hidden,
        text.integer("intermediate_size", default=text.integer("expand") * hidden),
        text.integer("state_size"),
        text.integer("conv_kernel"),
        text.integer("n_groups"),
        text.integer("num_heads"),
        text.integer("head_dim"),
        conv_bias=text.flag("use_conv_bias"),
        proj_bias=text.flag("use_bias"),
        chunk=text.integer("chunk_size", default=256),
    )
