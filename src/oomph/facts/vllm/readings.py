"""Schemes of a quantisation config that not every release reads, and what is built in their place."""

from __future__ import annotations

from oomph.facts.changes import Facts, Span, rows
from oomph.ir import Scheme


class Reading(Span, frozen=True, kw_only=True):
    """`becomes`: the scheme of modules that the config gives `method` and `format`; None = built unquantised."""

    method: str
    format: str
    becomes: Scheme | None = None


class Readings(Facts):
    schemes = rows(
        # modelopt.py ModelOptMixedPrecisionConfig.get_quant_method: an algorithm it does not know is left unquantised
        Reading(method="modelopt_fp4", format="mixed W4A16_NVFP4", until="0.22.0"),
        Reading(method="modelopt_mxfp8", format="mixed MXFP8", until="0.25.0"),
        # models/deepseek_v4/quant_config.py (0.22.0) reads moe_quant_algo; before, experts were MXFP4 whatever it says
        Reading(
            method="modelopt_fp4",
            format="ModelOpt experts in an FP8 checkpoint",
            until="0.22.0",
            becomes=Scheme("mxfp4", 4, "float", "group", 32),
        ),
    )
