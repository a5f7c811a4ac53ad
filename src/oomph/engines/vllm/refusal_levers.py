"""What a person can change about a command that vLLM refuses before any memory is touched.

The refusal is read as a user reads it: its words name the setting that is wrong, and what it may be.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from oomph.commands.call import quote
from oomph.engines.common.adapters import adapter_paths, rank_of, read_config
from oomph.engines.vllm.command.values import json_text
from oomph.errors import OomphError
from oomph.facts.vllm.facts import at
from oomph.facts.vllm.flag_values import NO_TOOL_PARSER, UNKNOWN_VALUE
from oomph.facts.vllm.flags import options_of
from oomph.facts.vllm.lora import DEFAULT_RANK, RANKS
from oomph.facts.vllm.versions import NEWEST
from oomph.ir import Change, Lever, Plan
from oomph.sources.load import load_once
from oomph.units import cdiv

_LENGTH = re.compile(r"max_model_len \((\d+)\) is greater than the derived max_model_len \(\w+=(\d+)")
_RANK = re.compile(r"LoRA rank (\d+) is greater than max_lora_rank")
_TOO_SMALL = re.compile(r"max_num_batched_tokens \(\d+\) is smaller than max_model_len \((\d+)\)")
# What is lost without the flag.
_PARSERS = {
    "tool_call_parser": "no automatic tool calls",
    "reasoning_parser": "reasoning is not split from the answer",
}


def refusal_levers(plan: Plan) -> Iterator[Lever]:
    message, flags = plan.verdict.message, plan.deployment.flags
    if words := _LENGTH.search(message):
        yield from _length(flags, int(words[1]), int(words[2]))
        yield from _yarn(plan, int(words[1]))
    elif words := _RANK.search(message):
        rank = next((rank for rank in RANKS if rank >= int(words[1])), RANKS[-1])
        yield _flag("max_lora_rank", rank, "larger slots for adapters")
    elif "LoRA is not enabled" in message:
        yield _slots_for_adapters(flags)
    elif words := _TOO_SMALL.search(message):
        yield _flag("max_num_batched_tokens", int(words[1]), "a larger activation peak")
    elif "does not recognize this architecture" in message and plan.deployment.engine.version != NEWEST:
        yield Lever("release", (Change("release", f"vLLM {NEWEST}", "release", version=NEWEST, cost="an upgrade"),))
    elif "unexpected keyword argument 'layer_idx'" in message:
        yield _plain_attention(flags)
    elif "keyword argument 'chunk_lookback'" in message or "use_alibi_sqrt is not supported" in message:
        yield _flag("attention_backend", "TRITON_ATTN", "the one backend whose kernels do this")
    elif "Bfloat16 is only supported" in message:
        yield _flag("dtype", "half", "another range of values")
    elif "FP8 KV cache is not supported" in message or "kv_cache_dtype" in message:
        yield _flag("kv_cache_dtype", "auto" if "kv_cache_dtype" in flags else "float16", "twice the KV memory")
    else:
        yield from _parsers(plan)
        others = (field for field in UNKNOWN_VALUE if field not in _PARSERS and _is_named(field, flags, message))
        yield from (_without(f"--{field.replace('_', '-')} {flags[field]}", field) for field in others)


def _slots_for_adapters(flags: Mapping[str, Any]) -> Lever:
    """Slots, as large as the adapters of this machine need them."""
    paths = [path for _, path in adapter_paths(flags.get("lora_modules"), "name", "path")]
    files = [file for path in paths if (file := read_config(path)) is not None]
    largest = max((rank_of(config) for _, config in files), default=0)
    label = "--enable-lora"
    slots: dict[str, Any] = {"enable_lora": True}
    if largest > int(flags.get("max_lora_rank") or DEFAULT_RANK):
        rank = next((rank for rank in RANKS if rank >= largest), RANKS[-1])
        label, slots = f"{label} --max-lora-rank {rank}", {**slots, "max_lora_rank": rank}
    return Lever("enable_lora", (Change("enable_lora", label, flags=slots, cost="slots"),))


def _plain_attention(flags: Mapping[str, Any]) -> Lever:
    """Dual-chunk attention has no backend any more; without its key the model is an ordinary one."""
    own = flags.get("hf_overrides")
    value = {**(own if isinstance(own, Mapping) else {}), "dual_chunk_attention_config": None}
    label = f"--hf-overrides {quote(json_text(value))}"
    cost = "beyond 262,144 tokens the model was made for dual-chunk attention"
    return Lever("hf_overrides", (Change("hf_overrides", label, flags={"hf_overrides": value}, cost=cost),))


def _length(flags: Mapping[str, Any], wanted: int, longest: int) -> Iterator[Lever]:
    yield _flag("max_model_len", longest, "as long as the model's config.json says")
    overrides = flags.get("hf_overrides")
    scaled = isinstance(overrides, Mapping) and ("rope_parameters" in overrides or "rope_scaling" in overrides)
    if scaled and isinstance(overrides, Mapping):
        longer = {**overrides, "max_position_embeddings": wanted}
        label = f'"max_position_embeddings": {wanted} in --hf-overrides'
        cost = "since 0.30.0 the factor of YaRN no longer makes the context longer by itself"
        yield Lever("hf_overrides", (Change("hf_overrides", label, flags={"hf_overrides": longer}, cost=cost),))


def _yarn(plan: Plan, wanted: int) -> Iterator[Lever]:
    """What the cards of Qwen2.5 and Qwen3 say of longer inputs: YaRN from 32,768 tokens, by a factor of at most 4."""
    model_type = _model_type(plan.deployment.model)
    factor = cdiv(wanted, _YARN_FROM)
    if model_type not in _YARN or factor > _MOST_YARN:
        return
    yarn: dict[str, Any] = {
        "rope_type": "yarn",
        "factor": float(factor),
        "original_max_position_embeddings": _YARN_FROM,
    }
    field, value = "rope_scaling", yarn  # a flag of its own until 0.11.1
    if field not in options_of(plan.deployment.engine.version).by_field:
        own = plan.deployment.flags.get("hf_overrides")
        longer = {"rope_parameters": {**yarn, "rope_theta": _THETA}, "max_position_embeddings": wanted}
        field, value = "hf_overrides", {**(own if isinstance(own, Mapping) else {}), **longer}
    label = f"--{field.replace('_', '-')} {quote(json_text(value))}"
    cost = "YaRN, as the model's card says: short inputs may lose a little"
    yield Lever("yarn", (Change("yarn", label, flags={field: value}, cost=cost, rank=1),))


# README.md of Qwen/Qwen3-8B and Qwen/Qwen2.5-7B-Instruct, "Processing Long Texts"; rope_theta of their config.json
_YARN = ("qwen2", "qwen2_moe", "qwen3", "qwen3_moe")
_YARN_FROM, _MOST_YARN, _THETA = 32768, 4, 1_000_000


def _model_type(name: str) -> str:
    try:
        return load_once(name).model_type
    except OomphError:
        return ""


def _flag(field: str, value: Any, cost: str) -> Lever:
    return Lever(field, (Change(field, f"--{field.replace('_', '-')} {value}", flags={field: value}, cost=cost),))


def _parsers(plan: Plan) -> Iterator[Lever]:
    """A name of a parser that the release lacks: the name that was meant, a release that has it, or none."""
    flags, version = plan.deployment.flags, plan.deployment.engine.version
    for field, cost in _PARSERS.items():
        name = str(flags.get(field) or "")
        names, newest = (getattr(at(release).values, field) for release in (version, NEWEST))
        if not name or name in names:
            continue
        if name in newest:
            yield Lever("release", (Change("release", f"vLLM {NEWEST}", "release", version=NEWEST, cost="an upgrade"),))
        else:
            from difflib import get_close_matches  # 2 ms to import, and only for a name that does not exist

            yield from (_flag(field, close, "as vLLM spells it") for close in get_close_matches(name, names, 1, 0.75))
        with_it = ("enable_auto_tool_choice",) if field == "tool_call_parser" else ()
        yield _without(f"--{field.replace('_', '-')} {name}", field, *with_it, cost=cost)
    if plan.verdict.message == NO_TOOL_PARSER[1]:
        yield _without("--enable-auto-tool-choice", "enable_auto_tool_choice", cost=_PARSERS["tool_call_parser"])


def _without(words: str, *fields: str, cost: str = "vLLM chooses") -> Lever:
    change = Change(fields[0], f"without {words}", flags=dict.fromkeys(fields), cost=cost)
    return Lever(fields[0], (change,))


def _is_named(field: str, flags: Mapping[str, Any], message: str) -> bool:
    return bool(flags.get(field)) and str(flags[field]).lower() in message.lower()
