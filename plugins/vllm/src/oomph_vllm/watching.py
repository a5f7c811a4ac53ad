"""What is read around each hooked call, in whichever process it runs.

A worker keeps its stages and what vLLM measured; the engine makes the plan beside the start and joins both when it is
ready. An error is written down where it is first seen: the hook that is innermost names the stage.
"""

import sys
import time
import traceback
from collections.abc import Sequence
from typing import Any

from oomph_vllm import Refused, lines, log_lines, mode, planning, recording, run, serving, state
from oomph_vllm.config import environment, value_at, words
from oomph_vllm.frames import frames_of, part_of
from oomph_vllm.hooks import Hook, Watch

_NOT_DEATHS = (KeyboardInterrupt, SystemExit, GeneratorExit, Refused)


class Process:
    """What this process has seen so far."""

    rank = 0
    device: Any = None
    config: Any = None
    record: dict[str, Any] | None = None
    plan: "planning.Planned | None" = None


def _record() -> dict[str, Any]:
    if Process.record is None:
        Process.record = {
            "oomph_record": 1, "engine": {"name": "vllm", "version": version()}, "stages": [], "measured": {},
        }  # fmt: skip
    return Process.record


def version() -> str:
    return str(getattr(sys.modules.get("vllm.version"), "__version__", "") or "")


def _name() -> str:
    return f"rank{Process.rank}"


def _look_at(owner: Any) -> None:
    """Who this process is: a worker knows its rank from the start and its device once it is initialised."""
    Process.rank = int(getattr(owner, "rank", Process.rank) or 0)
    Process.config = Process.config or getattr(owner, "vllm_config", None)
    Process.device = Process.device or getattr(owner, "device", None)


def before(hook: Hook, args: Sequence[Any], _: Any) -> None:
    owner = args[0] if args else None
    if hook.stage == "engine_gone":
        return
    if hook.stage == "engine_start":
        _engine_starts(next((each for each in args[1:] if hasattr(each, "model_config")), None))
        return
    _look_at(owner)
    if hook.stage == "weights_load":
        recording.begin()
    stage = {"stage": hook.stage, "at": time.time(), "before": state.gpu(Process.device)}
    record = _record()
    record["stages"].append(stage)
    if hook.stage != "kv_check":
        record["reached"] = hook.stage
        run.write(_name(), record)


def after(hook: Hook, args: Sequence[Any], result: Any) -> None:
    if hook.stage == "engine_start":
        return
    if hook.stage == "engine_gone":
        if hook.name.startswith("EngineDeadError"):
            _engine_gone()
        return
    _look_at(args[0] if args else None)
    if hook.stage == "runtime_request":
        _serves(hook, args)
        return
    record = _record()
    stage: dict[str, Any] = next((each for each in reversed(record["stages"]) if each["stage"] == hook.stage), {})
    stage |= {"seconds": round(time.time() - stage.get("at", time.time()), 3), "after": state.gpu(Process.device)}
    record["measured"] |= _measured(hook.stage, args[0] if args else None, result)
    if hook.stage == "kv_check":
        _engine_ready()
        return
    run.write(_name(), record)


def _serves(hook: Hook, args: Sequence[Any]) -> None:
    """OOMPH=watch: the engine's process sees the requests, a worker sees the card."""
    if hook.name == "Scheduler.schedule":
        serving.look_at_scheduler(args[0])
    elif Process.rank == 0:
        record = _record()
        ready: dict[str, Any] = next((each for each in record["stages"] if each["stage"] == "sampler_warmup"), {})
        allocated = int(ready.get("after", {}).get("allocated", 0))
        serving.look_at_card(state.gpu(Process.device), allocated, int(record["measured"].get("activation_peak", 0)))


def _is_due() -> bool:
    return mode() == "watch" and serving.is_due()


def _measured(stage: str, owner: Any, result: Any) -> dict[str, int]:
    """By the names of `oomph learn`, as vLLM itself counts them."""
    fields = {
        "startup_free_memory": {"free": "init_snapshot.free_memory", "total": "init_snapshot.total_memory",
                                "requested": "requested_memory"},
        "weights_load": {"weights": "model_runner.model_memory_usage"},
        "profile_run": {"available_kv": "available_kv_cache_memory_bytes", "cudagraph": "cudagraph_memory_estimate",
                        "non_torch": "non_torch_memory", "consumed": "total_consumed"},
    }.get(stage, {})  # fmt: skip
    values = {name: value_at(owner, path) for name, path in fields.items()}
    if stage == "profile_run":
        values["activation_peak"] = _activation(owner)
    if stage in ("cudagraph_capture", "cudagraph_profile") and isinstance(result, int):
        values["captured" if stage == "cudagraph_capture" else "cudagraph"] = result
    if stage == "sampler_warmup":
        values["ready_free"] = state.gpu(Process.device).get("free")
    return {name: int(value) for name, value in values.items() if isinstance(value, int | float)}


def _activation(owner: Any) -> int | None:
    """Since `total_consumed` exists (0.27) vLLM's peak includes the graphs' estimate (gpu_worker.py)."""
    peak = value_at(owner, "peak_activation_memory")
    if not isinstance(peak, int | float):
        return None
    applied = value_at(owner, "total_consumed") is not None
    return int(peak) - (int(value_at(owner, "cudagraph_memory_estimate") or 0) if applied else 0)


def _engine_starts(config: Any) -> None:
    """The plan, in a thread beside the start; with OOMPH=refuse, or before workers are forked, it is waited for."""
    if config is None:
        return
    Process.config = config
    if value_at(config, "parallel_config.data_parallel_rank"):
        return  # the first replica speaks for all
    run.forget_old()
    Process.plan = planning.Planned(config, version(), say=mode() != "quiet")
    several = int(value_at(config, "parallel_config.world_size") or 1) > 1
    if mode() == "refuse" or several:
        Process.plan.wait()
    if mode() == "refuse" and Process.plan.answer.get("verdict", {}).get("outcome") == "fails":
        raise Refused(f"oomph: {lines.verdict(Process.plan.answer)} (OOMPH=refuse)")


def _engine_ready() -> None:
    """Planned against measured, and the record for `oomph learn`."""
    rank = run.read("rank0") or _record()
    if Process.plan is None:
        return
    Process.plan.wait()
    record = {
        **rank, "kind": "start", "card": state.card(), "command": words(Process.config), "planned": Process.plan.answer,
        "environment": environment(),
    }  # fmt: skip
    run.write("start", record)
    if mode() != "quiet":
        lines.say(lines.ledger(Process.plan.answer, rank["measured"]))
    Process.plan.learn(rank["measured"])


def failed(hook: Hook, args: Sequence[Any], error: BaseException) -> None:
    if isinstance(error, _NOT_DEATHS) or getattr(error, "_oomph_seen", False):
        return
    if hook.stage == "engine_gone":
        _engine_gone(error)
        return
    error._oomph_seen = True  # type: ignore[attr-defined]
    _look_at(args[0] if args else None)
    if hook.stage == "engine_start" and run.has_death():
        return  # a worker in a process of its own has said it
    index = getattr(Process.device, "index", 0) or 0
    record = {
        **_record(), "kind": "death", "card": state.card(index), "environment": environment(),
        "command": words(Process.config) if Process.config is not None else [], "gpus": _cards(),
        "death": {
            "stage": _stage(hook), "error": type(error).__name__, "message": str(error)[:4000], "part": part_of(error),
            "frames": frames_of(error)[-40:], "gpu": state.gpu(Process.device),
            "holders": state.holders(index), "host": state.host(),
            "batch": _batch(args),
        },
        "log": [*log_lines.kept(), *"".join(traceback.format_exception(error)).splitlines()],
    }  # fmt: skip
    if (snapshot := recording.write(Process.rank)) is not None:
        record["snapshot"] = str(snapshot)
    file = run.write(f"death-{_name()}", record)
    if Process.rank == 0:
        record["explanation"] = planning.explained(record)
        file = run.write(f"death-{_name()}", record) or file
        if mode() != "quiet":
            lines.say(lines.death(record, file))


def _cards() -> list[dict[str, Any]]:
    """The cards as the plan found them before the engine took anything."""
    if Process.plan is not None:
        Process.plan.wait()
    return list((run.read("cards") or {}).get("gpus", []))


def _engine_gone(error: BaseException | None = None) -> None:
    """In the process that waits for the engine: a kill leaves no error, only the stage that was reached."""
    rank = run.read("rank0")
    if rank is None or run.read("killed") or run.has_death():
        return
    stage = "runtime_request" if run.read("start") else str(rank.get("reached", "other"))
    record = {
        **rank, "kind": "death", "card": state.card(), "gpus": _cards(), "environment": environment(),
        "command": list((run.read("start") or {}).get("command", [])),
        "death": {"stage": stage, "host": state.host(), "killed": True},
        "log": [*log_lines.kept(), *str(error or "").splitlines(), lines.KILLED.format(lines.stage_words(stage))],
    }  # fmt: skip
    file = run.write("killed", record)
    if mode() != "quiet":
        lines.say(lines.killed(record, file))


def _stage(hook: Hook) -> str:
    """An executor that fails has started nothing yet, as far as this process knows."""
    reached = [each["stage"] for each in _record()["stages"] if "after" not in each]
    return hook.stage if hook.stage != "engine_start" else (reached[-1] if reached else "other")


def _batch(args: Sequence[Any]) -> dict[str, Any]:
    """The requests of the step that failed: how many, and the one with the most tokens. Never their texts."""
    batch = next((each for each in args if hasattr(each, "num_scheduled_tokens")), None)
    tokens = dict(getattr(batch, "num_scheduled_tokens", {}) or {})
    if not tokens:
        return {}
    largest = max(tokens, key=lambda name: int(tokens[name]))
    images = dict(getattr(batch, "scheduled_encoder_inputs", {}) or {})
    return {
        "requests": len(tokens), "tokens": sum(map(int, tokens.values())), "largest": str(largest)[:80],
        "largest_tokens": int(tokens[largest]), "largest_items": len(images.get(largest, ())),
    }  # fmt: skip


watch = Watch(before, after, failed, _is_due)
