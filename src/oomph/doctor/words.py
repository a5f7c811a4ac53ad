"""What moves memory, in the words of the engine that failed: a rule names levers, the engine has a table of words.

vLLM's own remedies are in doctor/advice.py, because they are planned. A lever that an engine does not have is left out:
nobody gets another engine's flag.
"""

import re
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from oomph.doctor.case import Case
from oomph.doctor.rule import Kind, Rejected, Remedy
from oomph.engines.llamacpp.log.context import SMALLEST, context_of
from oomph.engines.protocol import LeverWords
from oomph.engines.registry import DEFAULT, all_engines, engine_named


def table(case: Case) -> Mapping[str, LeverWords]:
    """The words of the case's engine; empty where the rules' own words, which are vLLM's flags, are the right ones."""
    return engine_named(case.rebuilt.engine or DEFAULT).lever_words(case)


# what a rule that several engines share says in vLLM's words -> the lever of the others
_SHARED = {"util_down": ("fraction_down",), "util_up": ("fraction_up",), "batched_tokens": ("chunk", "batched_tokens"),
           "max_num_seqs": ("requests", "max_num_seqs"), "max_model_len": ("context",), "eager": ("eager",),
           "kv_dtype": ("kv_dtype",), "offload": ("offload",), "capture": ("capture",)}  # fmt: skip
_VLLM_ONLY = ("--gpu-memory-utilization", "--max-num-batched-tokens", "--max-num-seqs", "--max-model-len",
              "--enforce-eager", "--swap-space", "--max-cudagraph-capture-size", "--kv-offloading-size")  # fmt: skip


def translated(case: Case, remedies: Sequence[Remedy]) -> list[Remedy]:
    """Remedies that a shared rule has put into vLLM's words, in those of the case's engine; or left out."""
    if not table(case):
        return list(remedies)
    remedies_here: list[Remedy] = []
    for remedy in remedies:
        foreign = any(flag in remedy.change for flag in _VLLM_ONLY)
        remedies_here += levers(case, *_SHARED.get(remedy.lever, ())) if foreign else [remedy]
    return remedies_here


# the levers in plain words, for a text in which no line says whose it is: nobody gets another engine's flag
_PLAIN = {
    "util_down": "a smaller share of the card for the engine", "util_up": "a larger share of the card for the engine",
    "fraction_down": "a smaller share of the card for the engine",
    "fraction_up": "a larger share of the card for the engine",
    "max_model_len": "a shorter context", "context": "a shorter context", "requests": "fewer requests at the same time",
    "max_num_seqs": "fewer requests at the same time", "batched_tokens": "fewer tokens in one batch",
    "chunk": "fewer tokens in one batch", "kv_dtype": "the KV cache in FP8", "eager": "no CUDA graphs",
    "capture": "CUDA graphs for fewer batch sizes", "tp_up": "more GPUs (tensor parallelism)",
    "offload": "a part of the weights in host memory", "no_spec": "no speculative decoding",
    "block_size": "another block size", "quantize_flag": "quantising a checkpoint that is quantised",
    "images": "fewer or smaller images in a request", "mm_limit": "fewer or smaller images in a request",
}  # fmt: skip
_A_FLAG = re.compile(r"(?:^|(?<=[\s(`]))--?[a-z][a-z0-9-]+")
_A_VARIABLE = re.compile(r"\b(?:VLLM|SGLANG|OLLAMA|TLLM|TRTLLM)_[A-Z_]+")


def _names_a_flag(change: str) -> bool:
    """A setting that some engine has; `ss -ltnp` and `docker run --gpus` are everybody's."""
    if _A_VARIABLE.search(change):
        return True
    flags = _A_FLAG.findall(change)
    return any(engine.knows_flag(flag) for flag in flags for engine in all_engines())


def plain(case: Case, remedies: Sequence[Remedy]) -> list[Remedy]:
    """Where no line says whose log it is: the levers in words, and none that only a flag could name."""
    if case.rebuilt.engine:
        return list(remedies)
    worded: list[Remedy] = []
    for remedy in remedies:
        if not _names_a_flag(remedy.change):
            worded.append(remedy)
        elif remedy.lever in _PLAIN and _PLAIN[remedy.lever] not in {one.change for one in worded}:
            worded.append(replace(remedy, change=_PLAIN[remedy.lever], flags={}))
    return worded


def plain_advice(case: Case, rejected: Sequence[Rejected]) -> list[Rejected]:
    """The same of what would not help."""
    if case.rebuilt.engine:
        return list(rejected)
    return [
        one if not _names_a_flag(one.advice) else replace(one, advice=_PLAIN[one.lever])
        for one in rejected
        if not _names_a_flag(one.why) and (one.lever in _PLAIN or not _names_a_flag(one.advice))
    ]


def foreign(case: Case, advice: str) -> bool:
    return bool(table(case)) and any(flag in advice for flag in _VLLM_ONLY)


def levers(case: Case, *names: str | tuple[str, float | int | str], first: Sequence[str] = ()) -> tuple[Remedy, ...]:
    """These levers in the words of the case's engine; ("context", 8192) gives a number, `first` are tried first."""
    known = table(case)
    remedies = []
    for entry in names:
        name, number = entry if isinstance(entry, tuple) else (entry, None)
        words = known.get(name)
        if words is None:
            continue
        if number is None and (below := _below(case, name, words)) is not None:
            number = below
            if not number:
                continue  # it is at its least already
        shown = words.unknown if number is None else f"{number:g}" if isinstance(number, float) else str(number)
        rank = -len(first) + list(first).index(name) if name in first else words.rank
        change = words.change.replace("{n}", shown)
        kind: Kind = "model" if name == "quant" else "hardware" if name == "tp_up" else "flag"
        flags = {words.field: number if number is not None else _typed(words.unknown)} if words.field else {}
        lever = "checkpoint" if name == "quant" else name
        remedies.append(Remedy(lever, change, kind, flags, costs=words.costs, rank=rank))
    return tuple(remedies)


# what a lever lowers, as flags call it: lowered further than it is, never raised
_LOWERED: dict[str, tuple[str, ...]] = {
    "fraction_down": ("mem_fraction_static", "kv_cache_free_gpu_memory_fraction", "free_gpu_memory_fraction"),
    "context": ("context_length", "max_seq_len"), "requests": ("max_running_requests",),
    "batched_tokens": ("max_num_tokens",), "max_num_seqs": ("max_batch_size",),
}  # fmt: skip


def _below(case: Case, name: str, words: LeverWords) -> float | int | None:
    """Less than what is in force, where the usual value is not less; None: the usual value will do."""
    current = next((value for flag in _LOWERED.get(name, ()) if (value := case.flag(flag)) is not None), None)
    if name == "context" and current is None:
        current = context_of(case) or None
    usual = _typed(words.unknown)
    if isinstance(current, bool) or not isinstance(current, (int, float)) or isinstance(usual, str) or usual < current:
        return None
    if isinstance(current, float):
        return round(current - 0.1, 2) if current > 0.3 else 0
    least = SMALLEST if name == "context" else 2
    return max(least, current // 2) if current > least else 0


def _typed(text: str) -> int | float | str:
    """A value of a table of words as a flag has it."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
