"""What a rule names, as it is done: the engine's own rows for a log, what is done about the machine, and what guides
advise that moves nothing.

A rule names a lever by what it does and gives the figure that its log proves, if any. An engine that does not have it
leaves it out: nobody gets another engine's flag. Where no line says whose log it is, levers are told in plain words.
"""

import re
from collections.abc import Iterable

from oomph.doctor.case import Case
from oomph.doctor.rule import Finding, Rule
from oomph.engines.common.case_levers import CaseRow, Named
from oomph.engines.registry import DEFAULT, all_engines, engine_named
from oomph.ir import Change, Judged
from oomph.units import gib

_OTHER_GPU = "or choose another GPU (CUDA_VISIBLE_DEVICES)"
_DROP_CACHES = "sync; echo 3 | sudo tee /proc/sys/vm/drop_caches   (before the start)"


def _host(label: str, cost: str = "", rank: int = 0) -> CaseRow:
    return CaseRow(label, cost, rank, kind="host")


HOST: dict[str, CaseRow] = {
    "again": _host("start it again as it is"),
    "whole_log": _host("give the whole log from its first line, with every worker's lines"),
    "nothing": _host("nothing to fix: read concurrency x max_model_len"),
    "end_process": _host("end process {n} and wait for its memory; then start unchanged"),
    "init": _host(
        "docker run --init (or a pod with shareProcessNamespace), so that children end with the server", "", 2
    ),
    "free_card": _host(f"end the process that holds the card, {_OTHER_GPU}"),
    "free_card_last": _host(
        "end what else is on the card, or choose another GPU (nvidia-smi, CUDA_VISIBLE_DEVICES)", "", 7
    ),
    "one_gpu_each": _host("if these are the ranks of one engine: give each its own GPU"),
    "wait_for_memory": _host(
        "if an engine was just stopped: wait until its memory is returned, then start again",
        "some seconds, up to a minute on unified memory",
    ),
    "wait": _host("wait about a minute between stop and start"),
    "wait_for_worker": _host("wait, or look for the worker that printed an error"),
    "one_after_the_other": _host("start the engines one after the other"),
    "stable_neighbours": _host("start again when the other processes on this GPU are stable"),
    "smaller_step": _host("a smaller batch per step, shorter sequences, gradient checkpointing", "slower steps"),
    "smaller_optimizer": _host("an optimizer with 8-bit states, or LoRA instead of all weights", "", 1),
    "smaller_build": _host("a larger GPU for this step, or fewer workers and a smaller maximum batch in it"),
    "smaller_model": _host("a smaller quantisation of the same model, or more GPUs for it", "", 1),
    "less_at_once": _host("a smaller cache, a shorter context or fewer requests at once", "", 1),
    "free_rank": _host("free GPU {n} of other processes"),
    "alone": _host("keep other processes off this GPU", "", 1),
    "display": _host("run the display on another adapter; close programs that draw", "", 1),
    "drop_caches": _host(_DROP_CACHES, "the files are read again"),
    "look_at_both": _host("free the GPU (nvidia-smi) and look at the host's memory (free -h, ulimit -l)"),
    "shm": _host("docker run --ipc=host   (or --shm-size=16g)"),
    "more_host_memory": _host("more host memory, or a higher limit of the container", "host memory", 2),
    "host_memory_for_offload": _host(
        "more host memory or a higher container limit: twice the offloaded size while loading", "", 4
    ),
    "free_host": _host("free memory on the host", "", 1),
    "wired_limit": _host("sudo sysctl iogpu.wired_limit_mb=N", "less is left for macOS itself", 4),
    "restart_at_intervals": _host("restart the server at intervals, and try another release", "", 3),
    "smaller_item": _host("send a smaller image or a shorter video", "", 1),
    "one_process_per_engine": _host("one process per engine", "", 1),
    "end_first_engine": _host("shut the first engine down (del, gc.collect()) before the second", "", 1),
    "free_before_wake": _host("free the card before wake_up"),
    "wake_in_steps": _host('wake_up(tags=["weights"]), then wake_up(tags=["kv_cache"])', "two steps", 1),
    "free_before_resume": _host("free the card before resume_memory_occupation"),
    "resume_in_steps": _host("resume the weights first, the KV cache when the trainer has let go (tags)", "", 1),
    "message": _host("do what the message says; its words lead to the engine's issue tracker", "", 1),
    "another_release": _host("the newest release, or the last one that worked", "an upgrade", 2),
}  # fmt: skip

# What guides advise that is no setting of the engine.
POPULAR = {
    "quantize_flag": "--quantization on a checkpoint that is already quantised",
    "full_precision_first": "wait until vLLM stops loading full-precision weights first",
    "shm": "a larger --shm-size", "reboot": "restart the container or the machine", "gpu_flags": "GPU memory flags",
    "empty_cache": "torch.cuda.empty_cache()", "draft_tokens": "fewer speculative tokens",
    "reload": "loading it again", "e5m2": "--kv-cache-dtype fp8_e5m2", "e4m3": "--kv-cache-dtype fp8_e4m3",
    "printed_share": "the higher --gpu-memory-utilization that the log proposes", "more_layers": "a higher num_gpu",
    "layers_on_cpu": "num_gpu 0",
}  # fmt: skip

# A lever in plain words, for a text in which no line says whose it is.
PLAIN = {
    "share_down": "a smaller share of the card for the engine", "share_up": "a larger share of the card for the engine",
    "context": "a shorter context", "sequences": "fewer requests at the same time",
    "batch": "fewer tokens in one batch", "kv_dtype": "the KV cache in FP8", "no_graphs": "no CUDA graphs",
    "fewer_graphs": "CUDA graphs for fewer batch sizes", "more_gpus": "more GPUs (tensor parallelism)",
    "offload": "a part of the weights in host memory", "no_drafts": "no speculative decoding",
    "block_size": "another block size", "quantize_flag": "quantising a checkpoint that is quantised",
    "fewer_images": "fewer or smaller images in a request", "smaller_images": "fewer or smaller images in a request",
}  # fmt: skip
_A_FLAG = re.compile(r"(?:^|(?<=[\s(`]))--?[a-z][a-z0-9-]+")
_A_VARIABLE = re.compile(r"\b(?:VLLM|SGLANG|OLLAMA|TLLM|TRTLLM)_[A-Z_]+")


def names_a_flag(text: str) -> bool:
    """A setting that some engine has; `ss -ltnp` and `docker run --gpus` are everybody's."""
    if _A_VARIABLE.search(text):
        return True
    flags = _A_FLAG.findall(text)
    return any(engine.knows_flag(flag) for flag in flags for engine in all_engines())


def changes(case: Case, named: Iterable[Named | Change]) -> list[Change]:
    """What these levers are on this log, in the order of what they cost; those that its engine lacks are left out."""
    engine = engine_named(case.rebuilt.engine or DEFAULT)
    listed: list[Change] = []
    for entry in named:
        if isinstance(entry, Change):
            name, change = entry.lever, entry
        else:
            name, figure = entry if isinstance(entry, tuple) else (entry, None)
            lever = HOST[name].of(name, case, figure) if name in HOST else engine.case_lever(case, name, figure)
            if lever is None:
                continue
            change = lever.changes[0]
        if not case.rebuilt.engine and names_a_flag(change.label):
            if name not in PLAIN:
                continue
            change = Change(change.lever, PLAIN[name], change.kind, cost=change.cost, rank=change.rank)
        if change.label not in {one.label for one in listed}:
            listed.append(change)
    return sorted(listed, key=lambda one: one.rank)


def useless(case: Case, rule: Rule, finding: Finding) -> tuple[Judged, ...]:
    """What guides advise and what does not help here: the rule's own reasons, then what the failed stage does not read.
    Nothing that the rule itself names."""
    own = {entry if isinstance(entry, str) else entry[0] for entry in finding.levers if not isinstance(entry, Change)}
    reasons = dict(finding.useless)
    if case.failed and rule.about_memory:
        computed = {**engine_named(case.rebuilt.engine or DEFAULT).against(case), **_not_fragmented(case)}
        reasons |= {name: why for name, why in computed.items() if name not in reasons}
    judged = []
    for name, why in reasons.items():
        if name in own or not (label := _as_advised(case, name, why)):
            continue
        judged.append(Judged(Change(_row(case, name), label), "nothing", why=why))
    return tuple(judged)


def _not_fragmented(case: Case) -> dict[str, str]:
    tried, reserved = case.oom_value("tried"), case.oom_value("reserved")
    if case.oom is None or not tried or reserved is None or reserved >= tried:
        return {}
    return {
        "expandable": f"only {gib(reserved)} is cached and unused, less than the {gib(tried)} asked for: this is no "
        "fragmentation"
    }


def _as_advised(case: Case, name: str, why: str) -> str:
    """As guides word it; "" where the engine has no such setting, or where only a flag could name it."""
    row = engine_named(case.rebuilt.engine or DEFAULT).case_rows(case).get(name)
    label = row.popular if row is not None else POPULAR.get(name, "")
    if case.rebuilt.engine or not label:
        return label
    if names_a_flag(why):
        return ""
    return label if not names_a_flag(label) else PLAIN.get(name, "")


def _row(case: Case, name: str) -> str:
    row = engine_named(case.rebuilt.engine or DEFAULT).case_rows(case).get(name)
    return (row.lever or row.field or name) if row is not None else name
