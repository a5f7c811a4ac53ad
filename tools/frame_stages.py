"""Which functions of an engine only one stage runs, from its sources: frame_stages.py vllm=FOLDER [sglang=FOLDER ...]

FOLDER is an unpacked wheel. A call graph by name is walked from the functions that open each stage; what a layer's
forward reaches is left out, because profiling, capture and requests all run it. Every function that only one stage
reaches is then placed by doctor/reading/places.py, and the two are compared: how many agree, and which do not.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path

from oomph.doctor.reading.places import place_stage

Calls = dict[str, dict[str, set[str]]]  # function -> file -> what it calls

ROOTS: dict[str, dict[str, tuple[str, ...]]] = {
    "vllm": {
        "weights_load": ("load_model", "process_weights_after_loading", "create_weights", "load_weights",
                         "load_draft_model", "load_lora_model", "reload_weights"),
        "profile_run": ("profile_run", "determine_available_memory", "determine_num_available_blocks", "_dummy_run"),
        "kv_check": ("get_kv_cache_configs", "get_kv_cache_config", "raise_if_cache_size_invalid", "get_kv_cache_spec"),
        "kv_alloc": ("initialize_from_config", "initialize_kv_cache", "initialize_kv_cache_tensors",
                     "_init_cache_engine", "initialize_attn_backend"),
        "cudagraph_capture": ("capture_model", "kernel_warmup", "compile_or_warm_up_model", "_warm_up_model"),
        "runtime_request": ("execute_model", "sample_tokens", "step_with_batch_queue", "schedule", "update_from_output",
                            "add_request", "generate", "create_chat_completion", "create_completion", "run_busy_loop"),
        "startup_free_memory": ("init_device", "request_memory", "init_worker_distributed_environment"),
        "other": ("create_engine_config", "get_config", "create_model_config", "verify_with_parallel_config",
                  "__post_init__"),
    },
    "sglang": {
        "weights_load": ("load_model", "process_weights_after_loading", "create_weights", "load_weights"),
        "kv_check": ("profile_max_num_token", "profile_available_bytes"),
        "kv_alloc": ("init_memory_pool", "_create_buffers"),
        "cudagraph_capture": ("init_cuda_graphs", "init_device_graphs", "capture", "capture_one_batch_size"),
        "runtime_request": ("event_loop_normal", "event_loop_overlap", "run_batch", "get_next_batch_to_run",
                            "process_input_requests", "handle_generate_request", "generate_request",
                            "forward_batch_generation", "process_batch_result"),
        "startup_free_memory": ("init_torch_distributed", "init_distributed_environment"),
        "other": ("check_server_args", "prepare_server_args"),
    },
}  # fmt: skip
FORWARD = ("forward", "__call__", "apply", "forward_cuda", "forward_native", "compute_logits", "sample")
LAYERS = ("/models/", "/layers/", "/attention/", "/sample/", "/sampling/", "/compilation/")
MANY = 60  # definitions of one name: more than that is a word, not a function
# methods that everything has: an edge through them says nothing
COMMON = frozenset(
    (*FORWARD,
     "__init__", "__enter__", "__exit__", "__getattr__", "__getitem__", "get", "update", "append", "add", "pop",
     "run", "call", "wrapper", "items", "keys", "values", "clear", "copy", "start", "stop", "close", "join",
     "put", "read", "write", "set", "reset", "size", "to", "init", "build", "create", "check", "main", "step",
     "send", "recv", "next", "warmup", "encode", "decode", "execute", "launch", "load", "register",
     "synchronize", "all_reduce", "all_gather", "name", "dtype", "shape", "device", "max", "min", "sum", "view",
     "cpu", "cuda", "float", "half", "empty", "zeros", "info", "debug", "error", "warning", "format", "split",
     "replace", "index", "count", "extend", "quantize")
)  # fmt: skip


def read_calls(folder: Path) -> Calls:
    calls: Calls = defaultdict(lambda: defaultdict(set))
    for path in folder.rglob("*.py"):
        if any(part in ("tests", "third_party", "benchmarks") for part in path.parts):
            continue
        try:
            tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                calls[node.name][str(path)] |= {name for call in ast.walk(node) for name in _called(call)}
    return calls


def _called(node: ast.AST) -> set[str]:
    """The name that a call calls, the method that it asks the workers for, and methods that it hands over."""
    if not isinstance(node, ast.Call):
        return set()
    names = {node.func.attr} if isinstance(node.func, ast.Attribute) else set()
    names |= {node.func.id} if isinstance(node.func, ast.Name) else set()
    given_on = [*node.args, *(keyword.value for keyword in node.keywords)]
    if "collective_rpc" in names and given_on and isinstance(given_on[0], ast.Constant):
        names.add(str(given_on[0].value))
    return names | {value.attr for value in given_on if isinstance(value, ast.Attribute)}


def reach(calls: Calls, roots: set[str], other_roots: set[str]) -> set[str]:
    seen: set[str] = set()
    waiting = [name for name in roots if name in calls]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for called in (one for names in calls[name].values() for one in names):
            if called in calls and called not in COMMON | other_roots and len(calls[called]) <= MANY:
                waiting.append(called)
    return seen


def only_one(calls: Calls, stages: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """Function -> the one stage that reaches it."""
    every_root = {name for names in stages.values() for name in names}
    reached = {stage: reach(calls, set(names), every_root - set(names)) for stage, names in stages.items()}
    shared: set[str] = set()
    for name in FORWARD:
        for path, names in calls.get(name, {}).items():
            if any(part in path for part in LAYERS):
                shared |= names & calls.keys() - COMMON
    shared = reach(calls, shared, every_root)
    made_first = {name for names in calls.get("__init__", {}).values() for name in names} & calls.keys() - COMMON
    shared_by_start = shared | reach(calls, made_first, every_root)
    alone: dict[str, str] = {}
    for stage, names in reached.items():
        elsewhere = set().union(*(others for other, others in reached.items() if other != stage))
        alone |= dict.fromkeys(names - elsewhere - (shared if stage == "weights_load" else shared_by_start), stage)
    return alone


def main() -> int:
    for argument in sys.argv[1:]:
        engine, _, folder = argument.partition("=")
        calls = read_calls(Path(folder))
        agree, different = 0, defaultdict(list)
        for name, stage in only_one(calls, ROOTS[engine]).items():
            for path in calls[name]:
                placed = place_stage([name], [path])
                agree += placed == stage
                if placed not in (None, stage):
                    different[placed, stage].append(f"{Path(path).name}:{name}")
        wrong = sum(map(len, different.values()))
        print(f"{folder}: {agree} functions of one stage are placed there, {wrong} elsewhere")
        for (placed, stage), names in sorted(different.items(), key=lambda pair: -len(pair[1])):
            print(f"    {placed}, but only {stage} reaches it: {len(names)}, such as {', '.join(names[:4])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
