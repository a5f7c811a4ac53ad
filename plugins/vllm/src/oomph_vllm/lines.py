"""What is printed: log lines of vLLM's own logger, in the words of oomph's screens."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

GIB = 2**30
ROUNDING = GIB // 200  # what is printed has two decimals
_OUTCOMES = {"fits": "FITS", "at_risk": "STARTS, AT RISK", "close": "TOO CLOSE TO CALL", "fails": "WILL NOT START"}
_STAGES = {
    "startup_free_memory": "at the free-memory check", "weights_load": "while loading the weights",
    "profile_run": "in the profiling run", "cudagraph_profile": "while estimating CUDA graphs",
    "kv_check": "at the KV cache check", "kv_alloc": "while allocating the KV cache",
    "cudagraph_capture": "while capturing CUDA graphs", "sampler_warmup": "while warming up",
    "runtime_request": "while serving", "sleep": "while going to sleep", "wake_up": "while waking up",
    "host_ram": "because the host runs out of memory",
}  # fmt: skip
_TERMS = {
    "weights": "weights", "activation_peak": "activations", "non_torch": "outside PyTorch",
    "cudagraph": "CUDA graphs", "available_kv": "KV cache",
}  # fmt: skip


def say(text: Sequence[str]) -> None:
    for line in text:
        logging.getLogger("vllm.oomph").info("oomph: %s", line)


def gib(size: int | float) -> str:
    return f"{size / GIB:.2f} GiB"


def stage_words(stage: str | None) -> str:
    return _STAGES.get(stage or "", f"at {stage}" if stage else "")


def verdict(answer: Mapping[str, Any]) -> str:
    found = answer.get("verdict", {})
    outcome = _OUTCOMES.get(found.get("outcome", ""), "NOT PLANNED")
    if found.get("outcome") in ("fails", "close"):
        room = found.get("margin_bytes", {}).get("expected", 0)
        stage = stage_words(found.get("stage") or found.get("first_to_break"))
        return f"{outcome} {stage}: {gib(abs(room))} {'short' if room < 0 else 'of room'}"
    tokens = answer.get("kv", {}).get("logged_tokens")
    return f"{outcome}, {tokens:,} tokens of KV cache" if tokens else outcome


def foreseen(answer: Mapping[str, Any], holders: Sequence[Mapping[str, Any]], seconds: float) -> list[str]:
    """Six lines: verdict, the tightest stage, who holds the card, where the memory goes, what is left, what to do."""
    rank = (answer.get("ranks") or [{}])[0]
    engine = answer.get("engine", {})
    text = [f"{verdict(answer)} ({engine.get('name')} {engine.get('version')} on {rank.get('gpu', 'this GPU')})"]
    decision, total = answer.get("verdict", {}), int(rank.get("total_bytes", 0))
    if risk := decision.get("risk"):
        text.append(f"at risk: {risk}")
    whose = ", ".join(each for holder in holders if (each := held_by(holder)))
    held = f"{gib(rank.get('used_by_others_bytes', 0))} of {gib(total)}"
    text.append(f"held by others now: {held}{f' ({whose})' if whose else ''}")
    terms = {name: term["bytes"] for name, term in rank.get("terms", {}).items()}
    text.append(
        "planned: " + ", ".join(f"{words} {gib(terms[name])}" for name, words in _TERMS.items() if name in terms)
    )
    if (left := left_when_ready(rank)) is not None and decision.get("fits"):
        text.append(f"left when ready: {gib(left)}")
    fixes = answer.get("advice", {}).get("fixes", [])
    if not decision.get("fits") and fixes:
        text.append(f"this starts: {fixes[0]['change']} ({fixes[0]['cost']})")
    text.append(f"planned in {seconds:.1f} s beside the start; OOMPH=0 turns this off")
    return text


def held_by(holder: Mapping[str, Any]) -> str:
    """Empty for this process itself, and where a container hides what others hold."""
    if holder["is_this"] or not holder["bytes"]:
        return ""
    return f"{gib(holder['bytes'])} by {holder['program'] or 'a program'}, pid {holder['pid']}"


def left_when_ready(rank: Mapping[str, Any]) -> int | None:
    """Serving itself may take more than is held when the server is ready."""
    stages = [stage for stage in rank.get("stages", []) if stage["name"] != "runtime_request"]
    return int(rank["total_bytes"]) - int(stages[-1]["resident_bytes"]) if stages else None


def ledger(answer: Mapping[str, Any], measured: Mapping[str, int]) -> list[str]:
    """Planned against measured, a line per term."""
    rank = (answer.get("ranks") or [{}])[0]
    terms, text = rank.get("terms", {}), []
    captured = measured.get("captured")
    if captured is not None and not measured.get("cudagraph"):  # a runner that makes no estimate
        measured, captured = {**measured, "cudagraph": captured}, None
    for name, words in _TERMS.items():
        if name in measured and name in terms:
            planned, real = int(terms[name]["bytes"]), measured[name]
            low, high = int(terms[name]["low"]) - ROUNDING, int(terms[name]["high"]) + ROUNDING
            inside = "inside" if low <= real <= high else "outside"
            text.append(f"{words}: planned {gib(planned)}, measured {gib(real)}, {inside} its interval")
    if captured is not None:
        text.append(f"CUDA graphs, captured: {gib(captured)}")
    if "ready_free" in measured:
        left = left_when_ready(rank)
        before = f"planned {gib(left)}, " if left is not None else ""
        text.append(f"left when ready: {before}measured {gib(measured['ready_free'])}")
    return text


KILLED = "the engine's process ended {} without an error of its own: it was killed"  # `oomph explain` knows the line


def killed(record: Mapping[str, Any], file: Path | None) -> list[str]:
    died = record["death"]
    text = [KILLED.format(stage_words(died["stage"]))]
    if host := died["host"]:
        text.append(f"host memory: {gib(host['available'])} available of {gib(host['total'])}")
    text.append("whether the host's memory ran out: dmesg -T | grep -i 'killed process', or the pod's OOMKilled")
    if file is not None:
        text.append(f"all of it: {file} (oomph explain {file})")
    return text


def death(record: Mapping[str, Any], file: Path | None) -> list[str]:
    died, explanation = record["death"], record.get("explanation", {})
    part = f", in {died['part']}" if died["part"] else ""
    rank = f", on rank {record['rank']}" if record["rank"] else ""
    text = [f"DIED {stage_words(died['stage'])}{part}{rank}: {died['error']}"]
    if gpu := died["gpu"]:
        others = gpu["total"] - gpu["free"] - gpu["reserved"]
        text.append(
            f"on the card after it: {gib(gpu['allocated'])} allocated, "
            f"{gib(gpu['reserved'] - gpu['allocated'])} reserved and "
            f"unused, {gib(others)} outside PyTorch, {gib(gpu['free'])} free of {gib(gpu['total'])}"
        )
    text += [f"held by another process: {each}" for holder in died["holders"] if (each := held_by(holder))]
    if batch := died["batch"]:
        items = f" and {batch['largest_items']} images or clips" if batch["largest_items"] else ""
        text.append(
            f"the step had {batch['requests']} requests with {batch['tokens']} tokens; the largest, "
            f"{batch['largest']}, has {batch['largest_tokens']} tokens{items}"
        )
    if cause := explanation.get("cause"):
        text.append(f"{cause['title']}: {cause['text']}")
    for remedy in explanation.get("remedies", [])[:3]:
        cost = f" ({remedy['costs']})" if remedy["costs"] else ""
        text.append(f"{'works (planned)' if remedy['verified'] else 'try'}: {remedy['change']}{cost}")
    if file is not None:
        text.append(f"all of it: {file} (oomph explain {file})")
    return text
