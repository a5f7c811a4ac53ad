"""T01: TensorRT-LLM: the estimation run does not fit.

What it is: after loading, dummy requests of the full length fill max_num_tokens and CUDA graphs are warmed up, on a
small temporary KV cache. What that takes is the peak that the KV budget is computed from.

How to recognise it: weights are loaded, the line with the peak of memory usage profiling is missing, and CUDA runs
out.

Look-alikes: T02 (the KV pool itself).

What fixes it: a smaller max_batch_size (since 1.2.0rc8 the temporary cache has a block for each of its 2,048 slots),
max_num_tokens, max_seq_len or fewer graph sizes; more ranks.

What does not: free_gpu_memory_fraction: it is applied to what is left afterwards.

Evidence: TensorRT-LLM _util.py KvCacheCreator; TensorRT-LLM PR 5933.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import gib, human


@rule("profile_run", "other")
def match(case: Case) -> Finding | None:
    if not case.failed or not (case.memory or case.has("tr_oom")) or case.before("tr_budget", "tr_kv"):
        return None
    if case.stage not in match.stages or case.has("tr_component"):
        return None
    if not _pytorch_backend(case):
        return None  # an engine that was built before: nothing is estimated when it is loaded
    weights = case.value("tr_weights", "weights") or case.value("tr_created", "weights")
    tried = case.oom_value("tried")
    text = "The estimation run, one full batch and the CUDA graphs, did not fit beside the weights"
    text += f" ({gib(weights)})." if weights else "."
    if tried:
        text += f" {human(tried)} were missing."
    remedies = (
        "sequences",
        "batch",
        "no_graphs",
        "checkpoint",
    )
    why = "the fraction is taken of what is left after this run"
    rejected = {"share_down": why}
    return Finding(Tier.LIKELY, text, case.line("tr_weights", "tr_created", "torch_oom", "tr_oom"), remedies, rejected)


def _pytorch_backend(case: Case) -> bool:
    """A line, a frame or a program of the backend that estimates; it is the only one since 1.0."""
    own = case.has("tr_weights", "tr_created", "tr_loaded", "tr_features", "tr_args", "tr_step", "tr_budget")
    if own or case.in_traceback("/_torch/", "create_py_executor") or case.within("1.0.0", "") is True:
        return True
    is_engine = case.has("tr_built", "tr_triton", "tr_building", "tr_engine", "tr_context", "tr_oom")
    programs = {str(observation.values.get("engine", "")) for observation in case.all("engine_named")}
    return not is_engine and bool(programs & {"trtllm-serve", "trtllm-bench", "TorchLlmArgs", "extra_llm_api_options"})
