"""Which batch sizes get a CUDA graph (llm_args.py CudaGraphConfig, model_engine.py _filter_cuda_graph_batch_sizes)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oomph.engines.trtllm.options_file import GRAPHS, OFF
from oomph.facts.trtllm.memory import GRAPH_LIMIT


def graph_batch_sizes(
    flags: Mapping[str, Any], by_default: bool, max_batch_size: int, max_num_tokens: int, draft_tokens: int
) -> tuple[int, ...]:
    named = any(field.startswith(f"{GRAPHS}.") for field in flags)
    if flags.get(GRAPHS) == OFF or flags.get("use_cuda_graph") is False:
        return ()
    if not (by_default or named or flags.get("use_cuda_graph")):
        return ()
    sizes = flags.get(f"{GRAPHS}.batch_sizes")
    if not sizes:
        limit = int(flags.get(f"{GRAPHS}.max_batch_size") or 0) or GRAPH_LIMIT
        sizes = _generated(limit, bool(flags.get(f"{GRAPHS}.enable_padding")))
    return _filtered(sorted(set(sizes)), max_batch_size, max_num_tokens, draft_tokens, bool(named))


def _generated(limit: int, padding: bool) -> list[int]:
    """_generate_cuda_graph_batch_sizes: padded batches need fewer graphs. A posted log of 1.2.0rc6 lists them for 256:
    ..., 120, 128, 256."""
    sizes = [1, 2, 4, *range(8, 129, 8)] if padding else [*range(1, 32), 32, 64, 128]
    size = 256
    while size <= limit:
        sizes.append(size)
        size *= 2
    sizes = [size for size in sizes if size <= limit]
    return sizes if sizes and sizes[-1] == limit else [*sizes, limit]


def _filtered(
    sizes: list[int], max_batch_size: int, max_num_tokens: int, draft_tokens: int, padding: bool
) -> tuple[int, ...]:
    """No larger than a batch can be; the largest possible batch is added where a larger size was asked for."""
    most = min(max_batch_size, max_num_tokens // (1 + draft_tokens))
    captured = [size for size in sizes if size <= most]
    if most > 0 and len(captured) < len(sizes) and (not captured or captured[-1] != most):
        captured.append(most)
    return tuple(captured)
