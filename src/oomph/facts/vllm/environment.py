"""The VLLM_* variables that move GPU memory, with what each release takes and assumes (vllm/envs.py)."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

from oomph.errors import CommandError
from oomph.facts.vllm.versions import Range, parse
from oomph.units import MIB

Kind = Literal["bool", "maybe_bool", "int", "str", "ints"]
_TRUE = ("1", "true")


class Variable(Range, frozen=True):
    name: str
    kind: Kind
    default: bool | int | str | None
    moves: str  # what it changes
    choices: tuple[str, ...] = ()
    replaced_by: str = ""  # once gone


ROWS: tuple[Variable, ...] = (
    Variable("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "bool", False, "the graph estimate is taken off the KV cache",
             since="0.18.0", until="0.20.0"),
    Variable("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "bool", True, "the graph estimate is taken off the KV cache",
             since="0.20.0"),
    Variable("VLLM_USE_V2_MODEL_RUNNER", "bool", False, "which model runner", since="0.12.0", until="0.22.0"),
    Variable("VLLM_USE_V2_MODEL_RUNNER", "maybe_bool", None, "which model runner; unset: by model", since="0.22.0"),
    Variable("VLLM_USE_V1", "bool", True, "the V0 engine was still there", until="0.11.1"),
    Variable("VLLM_ATTENTION_BACKEND", "str", None, "attention kernels and their workspaces", until="0.15.0",
             replaced_by="--attention-backend"),
    Variable("VLLM_KV_CACHE_LAYOUT", "str", None, "the order of a page's dimensions", choices=("NHD", "HND"),
             until="0.29.0"),
    Variable("VLLM_KV_CACHE_LAYOUT", "str", None, "the order of dimensions, and with it how groups share memory",
             choices=("LBNHC", "LBHNC", "LHBNC", "NHD", "HND", "BLHNC", "BLNHC", "BHLNC"), since="0.29.0"),
    Variable("VLLM_SSM_CONV_STATE_LAYOUT", "str", None, "the order of a convolution state", choices=("SD", "DS"),
             since="0.20.0"),
    Variable("VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE", "int", 394 * MIB, "bytes of FlashInfer's workspace",
             since="0.11.1"),
    Variable("VLLM_USE_FLASHINFER_SAMPLER", "maybe_bool", None, "the sampler's peak", until="0.21.0"),
    Variable("VLLM_USE_FLASHINFER_SAMPLER", "bool", True, "the sampler's peak", since="0.21.0"),
    Variable("VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE", "bool", False, "chunked layers keep one chunk",
             since="0.10.2", until="0.14.0"),
    Variable("VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE", "bool", True, "chunked layers keep one chunk",
             since="0.14.0"),
    Variable("VLLM_ENABLE_STARTUP_PLAN", "bool", False, "the KV size of an earlier start is used", since="0.26.0"),
    Variable("VLLM_PP_LAYER_PARTITION", "ints", None, "layers of each pipeline stage"),
    Variable("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "bool", False, "a context beyond the model's is let through"),
    Variable("VLLM_ALLREDUCE_USE_SYMM_MEM", "bool", False, "symmetric-memory buffers", since="0.10.2", until="0.11.0"),
    Variable("VLLM_ALLREDUCE_USE_SYMM_MEM", "bool", True, "symmetric-memory buffers", since="0.11.0"),
    Variable("VLLM_ALLREDUCE_USE_FLASHINFER", "bool", False, "FlashInfer's all-reduce workspace",
             since="0.17.0", until="0.29.0"),
    Variable("VLLM_ALLREDUCE_USE_FLASHINFER", "bool", True, "FlashInfer's all-reduce workspace", since="0.29.0"),
    Variable("VLLM_USE_NCCL_SYMM_MEM", "bool", False, "NCCL's registered buffers", since="0.11.0"),
    Variable("VLLM_DEEPEP_BUFFER_SIZE_MB", "int", 1024, "DeepEP's buffers", since="0.11.0"),
    Variable("VLLM_MAX_TOKENS_PER_EXPERT_FP4_MOE", "int", 163840, "scales of NVFP4 expert activations"),
    Variable("VLLM_MLA_DISABLE", "bool", False, "MLA models cache full keys and values"),
    Variable("VLLM_FUSED_MOE_CHUNK_SIZE", "int", 32768, "tokens an expert layer takes at once", until="0.12.0"),
    Variable("VLLM_FUSED_MOE_CHUNK_SIZE", "int", 16384, "tokens an expert layer takes at once",
             since="0.12.0", until="0.18.0"),
    Variable("VLLM_ENABLE_FUSED_MOE_ACTIVATION_CHUNKING", "bool", True, "whether it does so", until="0.18.0"),
    Variable("VLLM_MOE_DP_CHUNK_SIZE", "int", 256, "tokens an expert layer sends at once", until="0.20.0"),
    Variable("VLLM_ENABLE_MOE_DP_CHUNK", "bool", True, "whether it does so", since="0.13.0", until="0.20.0"),
    Variable("VLLM_SPARSE_INDEXER_MAX_LOGITS_MB", "int", 512, "the sparse indexer's logits", since="0.19.0"),
    Variable("VLLM_WEIGHT_OFFLOADING_DISABLE_UVA", "bool", False, "offloaded weights are copied in", since="0.17.0"),
    Variable("VLLM_REPLICATE_EMBED", "bool", False, "the whole embedding on each rank", since="0.29.0"),
    Variable("VLLM_PLE_CPU_OFFLOAD", "bool", True, "per-layer embeddings on the host", since="0.30.0", until="0.31.0"),
    Variable("VLLM_BATCH_INVARIANT", "bool", False, "larger attention workspaces", since="0.19.0"),
    Variable("VLLM_DISABLE_COMPILE_CACHE", "bool", False, "every start compiles anew"),
    Variable("VLLM_TEST_FORCE_FP8_MARLIN", "bool", False, "FP8 weights repacked for Marlin", until="0.29.0"),
    Variable("VLLM_MXFP4_USE_MARLIN", "maybe_bool", None, "MXFP4 weights repacked for Marlin", until="0.24.0",
             replaced_by="--moe-backend marlin"),
    Variable("VLLM_USE_FLASHINFER_MOE_FP4", "bool", False, "the NVFP4 expert kernel", until="0.24.0",
             replaced_by="--moe-backend"),
    Variable("VLLM_NVFP4_GEMM_BACKEND", "str", None, "the NVFP4 kernel and its padding", since="0.11.1", until="0.24.0",
             replaced_by="--linear-backend"),
    Variable("VLLM_USE_DEEP_GEMM", "bool", False, "DeepGEMM's scales", until="0.11.0"),
    Variable("VLLM_USE_DEEP_GEMM", "bool", True, "DeepGEMM's scales", since="0.11.0"),
    Variable("VLLM_USE_SIMPLE_KV_OFFLOAD", "bool", False, "how KV blocks go to host memory", since="0.19.0"),
    Variable("VLLM_USE_BREAKABLE_CUDAGRAPH", "bool", False, "how graphs are cut", since="0.22.0"),
)  # fmt: skip


def value(name: str, environment: Mapping[str, str], version: str) -> Any:
    """What the release makes of the variable: its value, its default, or None where it does not read it."""
    row = next((row for row in ROWS if row.name == name and row.holds(version)), None)
    if row is None:
        return None
    text = environment.get(name)
    return row.default if text is None else _parsed(row, text)


@lru_cache(maxsize=64)
def _rows_at(version: str) -> dict[str, Variable]:
    return {row.name: row for row in ROWS if row.holds(version)}


def check(environment: Mapping[str, str], version: str) -> tuple[str, ...]:
    """Raise on a value that the release refuses; the notes name what it no longer or does not yet read."""
    notes = []
    here = _rows_at(version)
    for name, text in environment.items():
        if name in here:
            _parsed(here[name], text)
            continue
        rows = [row for row in ROWS if row.name == name]
        if not rows:
            continue
        until = rows[-1].until
        if until and parse(version) >= parse(until):
            instead = f"; use {rows[-1].replaced_by}" if rows[-1].replaced_by else ""
            notes.append(f"{name} is not read since vLLM {until}{instead}")
        else:
            notes.append(f"{name} is not read by vLLM {version}: it came with {rows[0].since}")
    return tuple(notes)


def _parsed(row: Variable, text: str) -> Any:
    if row.kind in ("bool", "maybe_bool"):
        if text.strip().lower() in _TRUE:
            return True
        if text.strip().lower() == "false":
            return False
        return _int(row, text) != 0
    if row.kind == "int":
        return _int(row, text)
    if row.kind == "ints":
        return tuple(_int(row, part) for part in text.split(","))
    if row.choices and text not in row.choices:
        raise CommandError(f"{row.name}={text}: it must be one of {', '.join(row.choices)}")
    return text


def _int(row: Variable, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise CommandError(f"{row.name}={text[:40]}: it must be a whole number") from None
