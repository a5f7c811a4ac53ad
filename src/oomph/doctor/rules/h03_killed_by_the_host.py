"""H03: The host killed the process.

The kernel or the orchestrator killed the process.

What it is: a cgroup, pod or machine limit of host memory.

How to recognise it: OOMKilled, exit code 137, signal 9, and no CUDA error.

Look-alikes: L11 (while loading), K13 (a connector's pool), R07 (growth while serving).

What fixes it: a higher limit, or less of what fills it.

What does not: GPU flags.

Evidence: the exit status itself.
"""

import re

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import gib


@rule("host_ram", engines=("vllm", "sglang", "trtllm", "llamacpp", "ollama"))
def match(case: Case) -> Finding | None:
    if case.stage != "host_ram" or not (case.has("host_kill", "container_kill", "sigkill", "ray_kill") or _told(case)):
        return None
    killed = case.first("host_kill")
    text = "The process was ended from outside for the host's memory; no GPU allocation failed."
    if case.has("sigkill") and not case.has("host_kill", "container_kill", "ray_kill"):
        text = (
            "The process was killed from outside; no GPU allocation failed. Mostly it is the host's memory or a "
            "container's limit; a supervisor or a person can do it too."
        )
    if case.unified:
        text = (
            "The kernel ended a process because the machine's memory was full. CPU and GPU share it here: what the "
            "engine reserves, its load and the page cache of its files all count."
        )
    if killed is not None and killed.values.get("anon"):
        shared = killed.values.get("shmem")
        text += f" It held {gib(int(killed.values['anon']))} of anonymous"
        text += f" and {gib(int(shared))} of shared memory." if shared is not None else " memory."
    return Finding(
        Tier.LIKELY,
        text,
        case.line("host_kill", "container_kill", "sigkill", "ray_kill"),
        ("share_down", "drop_caches", "free_host") if case.unified else ("more_host_memory",),
        {},
        settle="dmesg or kubectl describe pod: which limit, and how much was held",
    )


def _told(case: Case) -> bool:
    """Somebody says that the kernel or a limit of the host's memory ended it."""
    sentences = (case.death.quote, *(claim.text for claim in case.claims if case.told_short_at("host_ram")))
    return case.death.kind in ("memory_short", "said_failed") and any(KILLED.search(text) for text in sentences)


KILLED = re.compile(
    r"(?i)OOM[- ]?kill|\breaps?\b|\bnoyau\b.{0,20}\btu[eé]"
    r"|(?:oom|out[- ]of[- ]memory)[- ](?:killer|reaper)|\bkill(?:s|ed)\b"
    r"|\bray OOM|(?:kernel|system|host|cgroup)[^.]{0,20} OOM"
    r"|杀(?:掉|死|了)|被\s?kill|干掉|abgeschossen|getötet|beendet (?:den|das|die)"
    r"|\b(?:the|linux|der|vom) kernel\b.{0,40}\b(?:process|prozess|enginecore|worker)\b"  # a kernel of CUDA ends none
)
