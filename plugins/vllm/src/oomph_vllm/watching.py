"""What is read around each hooked call, in whichever process it runs.

A worker keeps its stages and what vLLM measured; the engine makes the plan beside the start and joins both when it is
ready. An error is written down where it is first seen: the hook that is innermost names the stage.
"""

import os
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
_LOOP, _END, _GONE = "engine_loop", "engine_ends", "engine_gone"
_OF_THE_ENGINE = ("engine_start", "kv_check", _LOOP)  # run where workers may be processes of their own


class Engine:
    """What this process has seen of one engine. A process may have several, one after another or at once."""

    def __init__(self, config: Any, its_run: run.Run) -> None:
        self.config, self.run = config, its_run
        self.rank, self.device = 0, None
        self.plan: planning.Planned | None = None
        self.record: dict[str, Any] = {
            "oomph_record": 1, "engine": {"name": "vllm", "version": version()}, "pid": os.getpid(), "stages": [],
            "measured": {},
        }  # fmt: skip

    @property
    def name(self) -> str:
        return f"rank{self.rank}"

    def look_at(self, owner: Any) -> None:
        """A worker knows its rank from the start and its device once it is initialised."""
        self.rank = int(getattr(owner, "rank", self.rank) or 0)
        self.device = self.device or getattr(owner, "device", None)


_engines: dict[tuple[int, str], Engine] = {}  # by process: a worker that is forked has seen nothing yet


def _engine_of(args: Sequence[Any]) -> Engine:
    config = _config_among(args)
    its_run = run.of(config)
    return _engines.setdefault((os.getpid(), its_run.name), Engine(config, its_run))


def _config_among(args: Sequence[Any]) -> Any:
    """The configuration that the function was called with, or that its object keeps."""
    return next((found for each in args if (found := _config_of(each)) is not None), None)


def _config_of(each: Any) -> Any:
    if (config := getattr(each, "vllm_config", None)) is not None:
        return config
    return each if hasattr(each, "model_config") and hasattr(each, "parallel_config") else None


def version() -> str:
    return str(getattr(sys.modules.get("vllm.version"), "__version__", "") or "")


def before(hook: Hook, args: Sequence[Any], _: Any) -> None:
    if hook.stage in (_GONE, _LOOP):
        return
    if hook.stage == _END:
        is_server = hook.name.startswith("MPClient")
        for its_run in run.of_instance(_config_among(args)) if is_server else (_engine_of(args).run,):
            _note_end(its_run)
        return
    engine = _engine_of(args)
    if hook.stage == "engine_start":
        _engine_starts(engine)
        return
    engine.look_at(args[0] if args else None)
    if hook.stage == "weights_load":
        recording.begin()
    stage = {"stage": hook.stage, "at": time.time(), "before": state.gpu(engine.device)}
    engine.record["stages"].append(stage)
    if hook.stage != "kv_check":
        engine.record["reached"] = hook.stage
        engine.run.write(engine.name, engine.record)


def after(hook: Hook, args: Sequence[Any], result: Any) -> None:
    if hook.stage == _GONE and hook.name.startswith("EngineDeadError"):
        _look_for_kills()
    if hook.stage in ("engine_start", _GONE, _LOOP, _END):
        return
    engine = _engine_of(args)
    engine.look_at(args[0] if args else None)
    if hook.stage == "runtime_request":
        _serves(hook, args, engine)
        return
    record = engine.record
    stage: dict[str, Any] = next((each for each in reversed(record["stages"]) if each["stage"] == hook.stage), {})
    stage |= {"seconds": round(time.time() - stage.get("at", time.time()), 3), "after": state.gpu(engine.device)}
    record["measured"] |= _measured(hook.stage, args[0] if args else None, result, engine)
    if hook.stage == "kv_check":
        _engine_ready(engine)
        return
    engine.run.write(engine.name, record)


def _serves(hook: Hook, args: Sequence[Any], engine: Engine) -> None:
    """OOMPH=watch: the engine's process sees the requests, a worker sees the card."""
    if hook.name == "Scheduler.schedule":
        serving.look_at_scheduler(args[0])
    elif engine.rank == 0:
        record = engine.record
        ready: dict[str, Any] = next((each for each in record["stages"] if each["stage"] == "sampler_warmup"), {})
        allocated = int(ready.get("after", {}).get("allocated", 0))
        serving.look_at_card(state.gpu(engine.device), allocated, int(record["measured"].get("activation_peak", 0)))


def _is_due() -> bool:
    return mode() == "watch" and serving.is_due()


def _measured(stage: str, owner: Any, result: Any, engine: Engine) -> dict[str, int]:
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
        values["activation_peak"] = _activation(owner, engine)
    if stage in ("cudagraph_capture", "cudagraph_profile") and isinstance(result, int):
        values["captured" if stage == "cudagraph_capture" else "cudagraph"] = result
    if stage == "sampler_warmup":
        values["ready_free"] = state.gpu(engine.device).get("free")
    return {name: int(value) for name, value in values.items() if isinstance(value, int | float)}


def _activation(owner: Any, engine: Engine) -> int | None:
    """Since `total_consumed` exists (0.27) vLLM's figure is what the budget keeps free, without what the pass left
    behind: the peak itself is PyTorch's, read before graphs are captured for their estimate."""
    peak = value_at(owner, "peak_activation_memory")
    if not isinstance(peak, int | float):
        return None
    if value_at(owner, "total_consumed") is None:
        return int(peak)
    stages = {each["stage"]: each for each in engine.record["stages"]}
    before = stages["profile_run"].get("before", {})
    graphs = stages.get("cudagraph_profile", {}).get("before") or state.gpu(engine.device)
    return int(graphs["allocated_peak"]) - int(before["allocated"]) if before and graphs else None


def _engine_starts(engine: Engine) -> None:
    """The plan, in a thread beside the start; with OOMPH=refuse, or before workers are forked, it is waited for."""
    config = engine.config
    if config is None or not _speaks_for_all(config):
        return
    run.forget_old()
    engine.run.write("engine", {"pid": os.getpid(), "command": words(config)})
    engine.plan = planning.Planned(config, version(), engine.run, say=mode() != "quiet")
    several = int(value_at(config, "parallel_config.world_size") or 1) > 1
    if mode() == "refuse" or several:
        engine.plan.wait()
    if mode() == "refuse" and engine.plan.answer.get("verdict", {}).get("outcome") == "fails":
        raise Refused(f"oomph: {lines.verdict(engine.plan.answer)} (OOMPH=refuse)")


def _speaks_for_all(config: Any) -> bool:
    """The first replica, on the first node, and of engines that a launcher such as torchrun starts the first one."""
    is_launched = value_at(config, "parallel_config.distributed_executor_backend") == "external_launcher"
    rank = os.environ.get("RANK", "0") if is_launched else "0"
    return not run.replica(config) and not value_at(config, "parallel_config.node_rank_within_dp") and rank == "0"


def _engine_ready(engine: Engine) -> None:
    """Planned against measured, and the record for `oomph learn`."""
    rank = engine.run.read("rank0") or engine.record
    engine.run.write("engine", {**engine.run.read("engine"), "pid": os.getpid(), "reached": "runtime_request"})
    if engine.plan is None:
        return
    engine.plan.wait()
    record = {
        **rank, "kind": "start", "card": state.card(), "command": words(engine.config), "planned": engine.plan.answer,
        "environment": environment(),
    }  # fmt: skip
    engine.run.write("start", record)
    if mode() != "quiet":
        lines.say(lines.ledger(engine.plan.answer, rank["measured"]))
    engine.plan.learn(rank["measured"])


def failed(hook: Hook, args: Sequence[Any], error: BaseException) -> None:
    if isinstance(error, _NOT_DEATHS) or hook.stage == _END or getattr(error, "_oomph_seen", False):
        return
    if hook.stage == _GONE:
        _look_for_kills(error)
        return
    error._oomph_seen = True  # type: ignore[attr-defined]
    engine = _engine_of(args)
    engine.look_at(args[0] if args else None)
    if hook.stage in _OF_THE_ENGINE:
        if engine.run.has_death():
            return  # a worker in a process of its own has said it
        if engine.run.lost("rank*.json"):
            _say_killed(engine.run, error)
            return
    _say_death(hook, args, error, engine)


def _say_death(hook: Hook, args: Sequence[Any], error: BaseException, engine: Engine) -> None:
    """Every rank that dies writes its record; the first of them explains it."""
    index = getattr(engine.device, "index", 0) or 0
    record = {
        **engine.record, "kind": "death", "card": state.card(index), "environment": environment(),
        "command": words(engine.config) if engine.config is not None else [], "gpus": _cards(engine),
        "rank": engine.rank,
        "death": {
            "stage": _stage(hook, engine), "error": type(error).__name__, "message": str(error)[:4000],
            "part": part_of(error), "frames": frames_of(error)[-40:], "gpu": state.gpu(engine.device),
            "holders": state.holders(index), "host": state.host(),
            "batch": _batch(args),
        },
        "log": [*log_lines.kept(), *"".join(traceback.format_exception(error)).splitlines()],
    }  # fmt: skip
    if (snapshot := recording.write(engine.rank)) is not None:
        record["snapshot"] = str(snapshot)
    file = engine.run.write(f"death-{engine.name}", record)
    if engine.run.claim("said", otherwise=engine.rank == 0):
        record["explanation"] = planning.explained(record)
        file = engine.run.write(f"death-{engine.name}", record) or file
        if mode() != "quiet":
            lines.say(lines.death(record, file))


def _cards(engine: Engine) -> list[dict[str, Any]]:
    """The cards as the plan found them before the engine took anything."""
    if engine.plan is not None:
        engine.plan.wait()
    return list(engine.run.read("cards").get("gpus", []))


def _note_end(its_run: run.Run) -> None:
    """A server that is stopped ends its engine, with SIGKILL (v1/utils.py shutdown, --shutdown-timeout 0): what is
    gone afterwards was not killed from outside."""
    if not its_run.lost("rank*.json"):
        its_run.claim("ended", otherwise=False)


def _look_for_kills(error: BaseException | None = None) -> None:
    """In the process that waits for engines: a kill leaves no error, only a process that is gone."""
    for its_run in run.of_this_group():
        has_ended = its_run.has_death() or (its_run.folder / "ended").exists()
        if not has_ended and its_run.lost():
            _say_killed(its_run, error)


def _say_killed(its_run: run.Run, error: BaseException | None) -> None:
    rank, engine = next(iter(its_run.lost("rank*.json")), its_run.read("rank0")), its_run.read("engine")
    if not rank or not its_run.claim("said", otherwise=False):
        return
    stage = str(engine.get("reached") or rank.get("reached", "other"))
    record = {
        **rank, "kind": "death", "card": state.card(), "gpus": its_run.read("cards").get("gpus", []),
        "environment": environment(), "command": engine.get("command", []),
        "death": {"stage": stage, "host": state.host(), "killed": True},
        "log": [*log_lines.kept(), *str(error or "").splitlines(), lines.KILLED.format(lines.stage_words(stage))],
    }  # fmt: skip
    file = its_run.write("killed", record)
    if mode() != "quiet":
        lines.say(lines.killed(record, file))


def _stage(hook: Hook, engine: Engine) -> str:
    """The engine's own process has started nothing itself: what it waited for is what its workers had reached."""
    if hook.stage == _LOOP:
        return "runtime_request"
    reached = [each["stage"] for each in engine.record["stages"] if "after" not in each]
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
