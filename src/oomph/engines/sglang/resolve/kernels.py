"""The attention kernels that SGLang picks for a model on a card, the page that they want, and its refusals."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from oomph.engines.sglang.resolve.settings import ModelShape
from oomph.facts.sglang.attention import BUILT_FOR, FA4_PAGE, PAGES
from oomph.facts.sglang.facts import Facts
from oomph.ir import Device, Model
from oomph.units import GIB

_LARGE_HOPPER = 60 * GIB  # arg_groups/model_overrides/qwen3_vl.py


class Kernels(Struct, frozen=True):
    attention: str
    prefill: str
    decode: str
    page: int
    refusal: str = ""


def choose_kernels(
    model: Model, shape: ModelShape, facts: Facts, flags: Mapping[str, Any], device: Device, *, spare_states: bool
) -> Kernels:
    """`spare_states`: recurrent states have spare slots (`extra_buffer`), or no radix cache keeps them."""
    prefill, decode = _flag(flags, "prefill_attention_backend"), _flag(flags, "decode_attention_backend")
    attention = prefill if prefill and prefill == decode else _flag(flags, "attention_backend")
    page = int(flags.get("page_size") or 0)
    unset = not (attention or prefill or decode)
    if shape.is_v4:
        attention, page = "dsv4", facts.pools.v4_page
    elif shape.is_sparse:
        attention, page = (attention or ("dsa" if unset else "")), 64
    elif not attention:
        attention, page = _preferred(shape, facts, flags, device, page, spare_states, unset)
    if unset and _decodes_with_flashinfer(model, shape, facts, device):
        decode = "flashinfer"
    attention = attention or _default(shape, facts, flags, device)
    if attention == "fa3" and flags.get("kv_cache_dtype") == "fp8_e5m2":
        attention = "triton"
    page = _page(page, {attention, prefill, decode}, shape, device)
    prefill, decode = prefill or attention, decode or attention
    refusal = _refusal(shape, facts, attention, prefill, decode) or _not_built(device, prefill, decode)
    return Kernels(attention, prefill, decode, page or 1, refusal)


def _flag(flags: Mapping[str, Any], name: str) -> str:
    return str(flags.get(name) or "")


def _one_draft_at_a_time(flags: Mapping[str, Any]) -> bool:
    """utils/common.py is_no_spec_infer_or_topk_one: what the flags say, before defaults are chosen."""
    breadth = flags.get("speculative_eagle_topk")
    return breadth is None or (breadth == 1 and flags.get("page_size") in (None, 1))


def _tensorrt_drafts(flags: Mapping[str, Any]) -> bool:
    drafts, breadth = flags.get("speculative_algorithm"), flags.get("speculative_eagle_topk")
    return _one_draft_at_a_time(flags) and (not drafts or breadth is not None)


def _preferred(
    shape: ModelShape,
    facts: Facts,
    flags: Mapping[str, Any],
    device: Device,
    page: int,
    spare_states: bool,
    unset: bool,
) -> tuple[str, int]:
    """What the architecture's own rule says; "" = nothing."""
    major = device.capability[0]
    if shape.architecture in facts.kernels.linear_attention_hybrids and major == 10:
        return ("trtllm_mha", 64) if spare_states and _tensorrt_drafts(flags) else ("triton", 1)
    nemotron = facts.kernels.nemotron_drafts and shape.architecture.startswith("NemotronH")
    if nemotron and major >= 10 and flags.get("speculative_algorithm") and unset:
        chain = flags.get("speculative_eagle_topk") in (None, 1)
        return ("trtllm_mha", page or 64) if major == 10 and chain else ("triton", page)
    for row in facts.kernels.preferred:
        if shape.architecture in row.architectures.split():
            attention = row.on(major)
            if row.page and attention in ("fa3", "fa4", "trtllm_mha") and not page:
                page = row.page
            return (attention, page) if unset else ("", page)
    return "", page


def _decodes_with_flashinfer(model: Model, shape: ModelShape, facts: Facts, device: Device) -> bool:
    hopper = device.capability[0] == 9 and device.total_bytes >= _LARGE_HOPPER
    return hopper and shape.is_multimodal and model.model_type in facts.kernels.vision_decode


def _default(shape: ModelShape, facts: Facts, flags: Mapping[str, Any], device: Device) -> str:
    """model_override_base.py:277 get_default_attn_backend (0.5.23)."""
    major = device.capability[0]
    if shape.architecture == "WhisperForConditionalGeneration":
        return "flashinfer"
    if shape.is_latent:
        return {9: "fa3", 10: "flashinfer"}.get(major, "triton")
    if major == 9 and _one_draft_at_a_time(flags):
        return "fa3"
    if major == 10 and _tensorrt_drafts(flags):
        return "fa4" if facts.kernels.wide_keys and shape.unequal_widths else "trtllm_mha"
    return "triton" if facts.kernels.sinks and shape.has_sinks else "flashinfer"


def _page(page: int, kernels: set[str], shape: ModelShape, device: Device) -> int:
    for name, (allowed, instead) in PAGES.items():
        if name in kernels and page not in allowed:
            page = instead
    return FA4_PAGE if "fa4" in kernels and not shape.is_latent and device.capability[0] == 10 else page


def _not_built(device: Device, *kernels: str) -> str:
    if device.vendor != "nvidia":
        return ""
    rows = (BUILT_FOR[name] for name in kernels if name in BUILT_FOR)
    return next((words for majors, words in rows if device.capability[0] not in majors), "")


def _refusal(shape: ModelShape, facts: Facts, attention: str, prefill: str, decode: str) -> str:
    for row in facts.kernels.accepted:
        if shape.architecture not in row.architectures.split():
            continue
        allowed, never = row.kernels.split(), row.not_these.split()
        if any((allowed and name not in allowed) or name in never for name in (prefill, decode)):
            return row.text.format(prefill=prefill, decode=decode, attention=attention, architecture=shape.architecture)
    return ""
