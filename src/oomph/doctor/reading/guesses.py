"""The stage of a failure without a traceback, without a line before it and without a word of whoever tells of it: the
figures of PyTorch's message are the last resort."""

import re
from collections.abc import Sequence

from oomph.engines.registry import all_engines, name_of
from oomph.engines.vllm.release import positions
from oomph.facts.vllm.facts import at
from oomph.facts.vllm.versions import NEWEST, RELEASES
from oomph.ir import StageName
from oomph.ir.observation import Observation

FULL = 0.965  # of a card, allocated by PyTorch: above every budget people set, so no KV cache was ever sized
BUDGET = round(at(NEWEST).limits.utilization + 0.01, 2)  # above every default of gpu_memory_utilization
UNUSED = 0.003  # of a card, cached and unused: less than that only while parameters are created, one after the other
# of a card in private pools: more than graphs take, so the pools are sleep mode's (device_allocator/cumem.py), where
# the weights and the KV cache live from the start
SLEEPERS = 0.2
DEFAULT = at(RELEASES[0]).limits.utilization  # of the old releases, whose logs are mostly pasted so
FILLED = 0.85  # of the budget, at least, what PyTorch holds once there is a KV cache: the rest is context and NCCL
WEIGHTS = 0.3  # of a card: with less than that it is another process than the engine


def _reading_a_file(observations: Sequence[Observation]) -> bool:
    """llama.cpp describes the file before it loads a tensor (llama-model-loader.cpp, llama-model.cpp: print_info)."""
    last = next((o for o in reversed(observations) if o.kind.startswith(("lc_", "ol_"))), None)
    return last is not None and ("llama_model_loader: " in last.text or "print_info: " in last.text)


def _of_llama(observation: Observation) -> bool:
    """llama.cpp's line, or its name, or that of a program around it."""
    if observation.kind != "engine_named":
        return observation.kind.startswith(("lc_", "ol_"))
    around = {name for engine in all_engines() if engine.runs for name in (engine.name, engine.runs)}
    return name_of(str(observation.values.get("engine", ""))) in around


def guess(failure: Observation, observations: Sequence[Observation]) -> StageName:
    """A bare PyTorch line. Graph pools exist only after capture; a buffer of a whole card is sized by context."""
    values = failure.values
    tried, total, allocated = values.get("tried"), values.get("total"), values.get("allocated")
    if allocated == 0:
        return "weights_load"  # nothing of the model is there yet
    if isinstance(tried, int) and isinstance(total, int) and tried >= total * 0.6:
        return "kv_alloc"
    pools = values.get("pools")
    if isinstance(pools, int) and not (isinstance(total, int) and pools > total * SLEEPERS):
        return "runtime_request"  # graphs exist; the sampler's warm-up behind them says so itself (sampler_oom)
    if isinstance(allocated, int) and isinstance(total, int) and allocated >= total * BUDGET:
        cached = _cached(failure)
        few = UNUSED if allocated >= total * FULL else UNUSED / 3
        if cached is not None and cached < total * few:
            return "weights_load"
    if failure.kind == "memory_short" and _reading_a_file(observations):
        return "weights_load"
    if failure.kind == "x_bad_address":
        return "runtime_request"  # a kernel that ran: of one that runs at a start other lines tell
    if failure.kind == "x_slow_start" and "to start" in failure.text and "llama" in failure.text:
        return "weights_load"  # Ollama waits for a runner that loads (llm/server.go)
    if failure.kind == "memory_short" and any(_of_llama(observation) for observation in observations):
        return "weights_load"
    if failure.kind == "tr_oom" and "[TRT]" in failure.text:
        # TensorRT itself, which builds or reads an engine; the executor's lines say TensorRT-LLM
        return "other" if any(observation.kind == "tr_building" for observation in observations) else "weights_load"
    if failure.kind == "tr_oom":
        return "kv_alloc"  # the C++ runtime's buffers and pools: an engine that is too large has words of its own
    if failure.kind == "cuda_error_oom" and any(_of_llama(observation) for observation in observations):
        # ggml's scratch pool; its buffers have a message of their own
        return "weights_load" if _reading_a_file(observations) else "runtime_request"
    if failure.kind == "torch_oom":
        before = starting(failure) or _no_graphs(failure, observations) or _no_cache(failure, observations)
        return "profile_run" if before else "runtime_request"
    if failure.kind == "cuda_error_oom" and not _printed(failure):
        return "other"  # said of it in a sentence, and of any moment
    return "startup_free_memory" if failure.kind in ("cuda_error_oom", "nccl_oom") else "other"


def _printed(failure: Observation) -> bool:
    """A program printed this line: who, where or an exception's class stands before the words."""
    return bool(failure.process or "source" in failure.values or _OF_A_PROGRAM.match(failure.text))


_OF_A_PROGRAM = re.compile(r"\W{0,4}(?:[\w.]{1,60}(?:Error|Exception)\b|CUDA|HIP|MUSA|NPU|\[|\(|\w{1,40}: )")


def _no_graphs(failure: Observation, observations: Sequence[Observation]) -> bool:
    """The whole message, and no private pools in it: nothing was captured yet, unless capture is off.

    torch names the pools of graphs in the message where they hold anything; releases that raise torch.OutOfMemoryError
    (not torch.cuda's) are taken to be new enough for that, which no source was read for.
    """
    whole = "reserved" in failure.values or "allocated by PyTorch, and" in failure.text  # cut behind the pools' place
    whole = whole and "pools" not in failure.values
    return (
        whole
        and "torch.OutOfMemoryError" in failure.text
        and not any(observation.kind == "eager_given" for observation in observations)
    )


def _no_cache(failure: Observation, observations: Sequence[Observation]) -> bool:
    """Far less is allocated than the budget, and nobody else is on the card: the KV cache would have filled it."""
    allocated, total = failure.values.get("allocated"), failure.values.get("total")
    if not isinstance(allocated, int) or not isinstance(total, int) or "others" in failure.values:
        return False
    return WEIGHTS * total < allocated < FILLED * (_budget(observations) or DEFAULT) * total


def _budget(observations: Sequence[Observation]) -> float | None:
    shares = [observation.values.get("util") for observation in observations if observation.kind == "util_given"]
    return next((u for u in shares if isinstance(u, float) and 0 < u <= 1), None)


def _cached(failure: Observation) -> int | None:
    """Reserved and not allocated; the older wording gives both together."""
    cached, together, own = (failure.values.get(name) for name in ("reserved", "held", "allocated"))
    if isinstance(cached, int):
        return cached
    return max(0, together - own) if isinstance(together, int) and isinstance(own, int) else None


STARTS = 300  # V0's engine/multiprocessing/engine.py: run_mp_engine's handler is behind this line, the loop's before it


def starting(frame: Observation) -> bool:
    """Printed by V0's start, or by the handler that says "EngineCore failed to start" at (patched: near) its place."""
    file, _, line = str(frame.values.get("source", "")).partition(":")
    if file == "engine.py":
        return int(line or 0) >= STARTS
    places = positions().get(("engine_failed", file), ())
    return file == "core.py" and any(abs(int(line or 0) - place) <= 5 for _, place in places)
