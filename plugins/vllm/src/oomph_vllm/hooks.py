"""What is hooked in vLLM, one row each, and how a function is wrapped without a change of what it does.

A module that is not imported yet is patched when vLLM imports it: importing it here would cost memory and time in
processes that never use it. `make drift` compares the rows with unpacked releases.
"""

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import logging
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from oomph_vllm import mode

READING_LIMIT_S = 5.0  # one reading may take so long; a longer one is left alone and ends the watching
# ... of a call that failed: the process is ending, and others that start with it have the processors
DEATH_LIMIT_S = 20.0

log = logging.getLogger("vllm.oomph")


class Hook(NamedTuple):
    """One function of vLLM, and the stage of a start that it is."""

    module: str
    name: str  # Class.method
    stage: str
    reads: str  # what is read there, for people
    since: str = "0.20.0"
    until: str = ""  # the first release without it
    mode: str = ""  # the OOMPH=... that asks for it; empty: always


_WORKER, _V1, _V2 = "vllm.v1.worker.gpu_worker", "vllm.v1.worker.gpu_model_runner", "vllm.v1.worker.gpu.model_runner"

HOOKS = (
    Hook("vllm.v1.executor.abstract", "Executor.__init__", "engine_start", "the resolved configuration"),
    Hook("vllm.v1.engine.core", "EngineCore._initialize_kv_caches", "kv_check", "the KV cache's blocks"),
    Hook("vllm.v1.engine.core", "EngineCore.shutdown", "engine_ends", "that the engine ended in order"),
    Hook("vllm.v1.engine.core_client", "MPClient.shutdown", "engine_ends", "that the server ends its engines itself"),
    Hook("vllm.v1.engine.core", "EngineCoreProc.run_busy_loop", "engine_loop", "an error of the engine's own process"),
    Hook("vllm.v1.engine.core", "DPEngineCoreProc.run_busy_loop", "engine_loop", "the same, of a replica"),
    Hook("vllm.v1.engine.utils", "wait_for_engine_startup", "engine_gone", "whether the engine died without a word"),
    Hook("vllm.v1.engine.exceptions", "EngineDeadError.__init__", "engine_gone", "the same, once it serves"),
    Hook(_WORKER, "Worker.init_device", "startup_free_memory", "memory at the first snapshot"),
    Hook(_WORKER, "Worker.load_model", "weights_load", "weights and their peak"),
    Hook(_WORKER, "Worker.determine_available_memory", "profile_run", "what profiling left for the KV cache"),
    Hook(_WORKER, "Worker.initialize_from_config", "kv_alloc", "memory after the KV cache's allocation"),
    Hook(_WORKER, "Worker.compile_or_warm_up_model", "sampler_warmup", "memory when ready"),
    Hook(_WORKER, "Worker.execute_model", "runtime_request", "the batch that died"),
    Hook(_WORKER, "Worker.sleep", "sleep", "what sleeping freed"),
    Hook(_WORKER, "Worker.wake_up", "wake_up", "what waking up took"),
    Hook(
        "vllm.v1.core.sched.scheduler",
        "Scheduler.schedule",
        "runtime_request",
        "free blocks and what requests may write",
        mode="watch",
    ),
    Hook(_V1, "GPUModelRunner.profile_cudagraph_memory", "cudagraph_profile", "the graphs' estimate"),
    Hook(_V1, "GPUModelRunner.capture_model", "cudagraph_capture", "the captured graphs"),
    Hook(_V1, "GPUModelRunner.sample_tokens", "runtime_request", "the batch that died"),
    Hook(_V2, "GPUModelRunner.profile_cudagraph_memory", "cudagraph_profile", "the graphs' estimate"),
    Hook(_V2, "GPUModelRunner.capture_model", "cudagraph_capture", "the captured graphs"),
    Hook(_V2, "GPUModelRunner.sample_tokens", "runtime_request", "the batch that died"),
)

Reading = Callable[[Hook, Sequence[Any], Any], None]


def never() -> bool:
    return False


class Watch(NamedTuple):
    """What is read around a hooked call: (hook, positional arguments, None | result | error)."""

    before: Reading
    after: Reading
    failed: Reading
    is_due: Callable[[], bool] = never  # whether a call while serving is looked at; without OOMPH=watch none is


def install(hooks: Sequence[Hook] = HOOKS, watch: Watch | None = None) -> None:
    """Wrap what is imported, and the rest when it is."""
    if watch is None:
        from oomph_vllm import watching

        watch = watching.watch
    waiting: dict[str, list[Hook]] = {}
    for hook in hooks:
        if hook.mode not in ("", mode()):
            continue
        if (module := sys.modules.get(hook.module)) is not None and _is_complete(module):
            patch(module, hook, watch)
        else:
            waiting.setdefault(hook.module, []).append(hook)
    if waiting:
        sys.meta_path.insert(0, _AfterImport(waiting, watch))


def _is_complete(module: Any) -> bool:
    return not getattr(getattr(module, "__spec__", None), "_initializing", False)


class _AfterImport(importlib.abc.MetaPathFinder):
    """Patches a module when it has been executed; it finds nothing by itself."""

    def __init__(self, waiting: dict[str, list[Hook]], watch: Watch) -> None:
        self.waiting, self.watch, self.inside = waiting, watch, threading.local()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name not in self.waiting or getattr(self.inside, "name", "") == name:
            return None
        self.inside.name = name
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.inside.name = ""
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return None
        hooks, execute = self.waiting[name], spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            self.waiting.pop(name, None)
            for hook in hooks:
                patch(module, hook, self.watch)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def patch(module: Any, hook: Hook, watch: Watch) -> bool:
    """False where the release has no such function: then nothing is read there."""
    owner_name, _, method = hook.name.rpartition(".")
    owner = getattr(module, owner_name, None) if owner_name else module
    original = vars(owner).get(method) if owner is not None else None
    if not callable(original) or getattr(original, "_oomph", None) is not None:
        return False
    setattr(owner, method, wrapped(original, hook, watch))
    return True


def wrapped(original: Callable[..., Any], hook: Hook, watch: Watch) -> Callable[..., Any]:
    """The same call with readings around it. Serving is hot: its failure is looked at, and what `is_due` asks for."""
    serves = hook.stage == "runtime_request"

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not serves:
            safely(watch.before, hook, args, None)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            safely(watch.failed, hook, (*args, *kwargs.values()), error)
            raise
        if not serves or watch.is_due():
            safely(watch.after, hook, args, result)
        return result

    call._oomph = hook  # type: ignore[attr-defined]
    return call


class _Trouble:
    """Said once: a second failure of ours in one process is silent."""

    is_over = False


def safely(reading: Reading, hook: Hook, args: Sequence[Any], outcome: Any) -> None:
    """A reading in a thread of its own: what throws or hangs there leaves vLLM's call as it is.

    `Refused` is the one exception that passes, and only where OOMPH=refuse asks for it.
    """
    from oomph_vllm import Refused

    if _Trouble.is_over:
        return
    errors: list[BaseException] = []

    def read() -> None:
        try:
            reading(hook, args, outcome)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=read, name="oomph", daemon=True)
    thread.start()
    limit = DEATH_LIMIT_S if isinstance(outcome, BaseException) else READING_LIMIT_S
    thread.join(limit)
    if thread.is_alive():
        _give_up(f"reading at {hook.name} took longer than {limit:.0f} s")
    elif errors and isinstance(errors[0], Refused):
        raise errors[0]
    elif errors:
        _give_up(f"reading at {hook.name} failed: {type(errors[0]).__name__}: {errors[0]}")


def stop_watching() -> None:
    """In this process, without a word."""
    _Trouble.is_over = True


def _give_up(why: str) -> None:
    stop_watching()
    log.warning("oomph stopped watching this process, vLLM goes on: %s", why)
