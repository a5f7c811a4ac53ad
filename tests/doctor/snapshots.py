# ruff: noqa: E501 - a row is a line
"""Memory snapshots as torch.cuda.memory._dump_snapshot writes them (torch/cuda/memory.py of 2.13.0 has the shape)."""

import pickle
from pathlib import Path
from typing import Any

GIB, MIB = 1 << 30, 1 << 20
SITE = "/env/lib/python3.12/site-packages"


def frames(*places: str) -> list[dict[str, Any]]:
    """ "vllm/v1/worker/gpu_worker.py:load_model", outermost first; a snapshot has the innermost first."""
    pairs = [place.rsplit(":", 1) for place in places]
    return [{"filename": f"{SITE}/{file}", "line": 10, "name": name} for file, name in reversed(pairs)]


WEIGHTS = frames("vllm/v1/worker/gpu_worker.py:load_model", "vllm/model_executor/layers/linear.py:create_weights")
EXPERTS = frames(
    "vllm/v1/worker/gpu_worker.py:load_model", "vllm/model_executor/layers/fused_moe/layer.py:create_weights"
)
CACHE = frames(
    "vllm/v1/worker/gpu_model_runner.py:initialize_kv_cache",
    "vllm/v1/worker/gpu_model_runner.py:_allocate_kv_cache_tensors",
)
CAPTURE = frames(
    "vllm/v1/worker/gpu_worker.py:compile_or_warm_up_model", "vllm/v1/worker/gpu_model_runner.py:capture_model"
)
PROFILE = frames(
    "vllm/v1/worker/gpu_worker.py:determine_available_memory",
    "vllm/v1/worker/gpu_model_runner.py:profile_run",
    "vllm/model_executor/models/qwen3.py:forward",
)


def segment(
    blocks: list[tuple[int, list[dict[str, Any]]]], cached: int = 0, pool: tuple[int, int] = (0, 0)
) -> dict[str, Any]:
    total = sum(size for size, _ in blocks) + cached
    listed = [{"address": 1 << 40, "size": size, "requested_size": size - 1, "state": "active_allocated", "frames": trace}
              for size, trace in blocks]  # fmt: skip
    if cached:
        listed.append({"address": 1 << 41, "size": cached, "requested_size": 0, "state": "inactive", "frames": []})
    return {"device": 0, "address": 1 << 40, "total_size": total, "allocated_size": total - cached, "active_size": 0,
            "requested_size": 0, "stream": 0, "segment_type": "large", "segment_pool_id": pool, "is_expandable": False,
            "frames": [], "blocks": listed}  # fmt: skip


def dying(trace: list[dict[str, Any]], size: int = 2 * GIB, history: int = 5) -> dict[str, Any]:
    """8 GiB of layers, 6 of experts, a KV cache of 4, a graph's pool and something cached; then it asks for more."""
    segments = [segment([(8 * GIB, WEIGHTS), (6 * GIB, EXPERTS)]), segment([(4 * GIB, CACHE)], cached=512 * MIB),
                segment([(64 * MIB, CAPTURE)], pool=(0, 1)), segment([(32 * MIB, [])])]  # fmt: skip
    allocations = [
        {"action": "alloc", "addr": n, "frames": WEIGHTS, "size": MIB, "stream": 0, "time_us": n}
        for n in range(history)
    ]
    oom = {"action": "oom", "frames": trace, "size": size, "stream": 0, "device_free": 100 * MIB, "time_us": 9}
    return {
        "segments": segments,
        "device_traces": [[*allocations, oom]],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": ""},
    }


def write(path: Path, snapshot: Any) -> str:
    path.write_bytes(pickle.dumps(snapshot))
    return str(path)
