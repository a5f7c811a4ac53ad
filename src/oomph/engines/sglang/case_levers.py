"""What moves SGLang's memory, in a log that no plan is made of."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from oomph.engines.common.case_levers import CaseRow, in_force
from oomph.engines.sglang.safe_fraction import UNPLANNED

if TYPE_CHECKING:
    from oomph.doctor.case import Case

FLAGS = {
    "share_down": CaseRow(
        "--mem-fraction-static {n}", "less KV cache", 1, "mem_fraction_static_down", 0.8, "mem_fraction_static",
        below=in_force("mem_fraction_static"), popular="lower --mem-fraction-static",
    ),
    "share_up": CaseRow(
        "--mem-fraction-static {n}", "less room for activations and graphs", 1, "mem_fraction_static_up",
        0.92, "mem_fraction_static", popular="raise --mem-fraction-static", most=UNPLANNED,
    ),
    "batch": CaseRow("--chunked-prefill-size {n}", "long prompts in more steps", 1, "", 2048, "chunked_prefill_size"),
    "sequences": CaseRow(
        "--max-running-requests {n}", "fewer requests at once", 2, "", 32, "max_running_requests",
        below=in_force("max_running_requests"),
    ),
    "fewer_graphs": CaseRow(
        "--cuda-graph-max-bs-decode {n}", "larger batches run without graphs", 2, "cuda_graph_max_bs", 16,
        "cuda_graph_max_bs_decode",
    ),
    "no_graphs": CaseRow(
        "--disable-cuda-graph", "slower decoding", 6, "disable_cuda_graph", flags={"disable_cuda_graph": True}
    ),
    "context": CaseRow(
        "--context-length {n}", "shorter requests", 3, "", 32768, "context_length", below=in_force("context_length")
    ),
    "kv_dtype": CaseRow(
        "--kv-cache-dtype fp8_e5m2", "KV values are kept in 8 bits", 4, "kv_cache_dtype",
        flags={"kv_cache_dtype": "fp8_e5m2"},
    ),
    "more_gpus": CaseRow("--tp {n}", "needs more GPUs", 8, "more_gpus", kind="hardware"),
    "offload": CaseRow(
        "--cpu-offload-gb {n}", "every step reads them over PCIe", 7, "", 8, "cpu_offload_gb", kind="offload"
    ),
    "checkpoint": CaseRow(
        "a smaller quantisation of the same model", "another checkpoint to download", 5, kind="checkpoint"
    ),
    "backend": CaseRow("another --attention-backend", "other kernels", 1),
    "host_pool": CaseRow("--hicache-size {n}", "fewer prefixes are kept", 1, field="hicache_size"),
    "no_host_pool": CaseRow(
        "without --enable-hierarchical-cache", "prefixes that leave the GPU are computed again", 3,
        "enable_hierarchical_cache", flags={"enable_hierarchical_cache": None},
    ),
    "workspace": CaseRow("SGLANG_FLASHINFER_WORKSPACE_SIZE={n}", "so many bytes of the card", 0, kind="environment"),
    "balance_check": CaseRow(
        "SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK=0", "the fullest card sets the size of every pool", 3,
        kind="environment",
    ),
}  # fmt: skip


# until 0.5.14 the limit of captured batches was one flag; its spelling was gone with 0.5.20 (facts/sglang/flag_rows.py)
_ONE_LIMIT = {
    **FLAGS,
    "fewer_graphs": replace(FLAGS["fewer_graphs"], label="--cuda-graph-max-bs {n}", field="cuda_graph_max_bs"),
}
_OLD_WORDS = re.compile(r"--cuda-graph-max-bs\b(?!-)|ServerArgs\(|Capture cuda graph (?:begin|end)\b")


def rows(case: "Case") -> Mapping[str, CaseRow]:
    """As the release of the log spells them; where its lines do not tell, as the newest does."""
    kinds = ("sg_args", "sg_capture_begin", "sg_capture_end", "sg_capture_failed", "command")
    is_older = any(_OLD_WORDS.search(o.text) for o in case.observations if o.kind in kinds)
    return _ONE_LIMIT if is_older else FLAGS
