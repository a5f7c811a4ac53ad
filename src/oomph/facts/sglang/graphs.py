"""When SGLang captures prefill graphs: on by default since 0.5.10, and what switches them off.

Origins: `server_args.py` _handle_piecewise_cuda_graph (0.5.10 to 0.5.13), then
_disable_tc_piecewise_cudagraph_if_incompatible and _disable_breakable_cudagraph_if_incompatible (0.5.14 on;
`arg_groups/cuda_graph_hook.py` since 0.5.19).
"""

from oomph.facts.changes import Facts, Span, changes, rows, since
from oomph.facts.sglang.architectures import evolving


class Off(Span, frozen=True):
    """A statement about a deployment (engines/sglang/graphs.py) under which no prefill graph is captured."""

    when: str


class PrefillGraphs(Facts):
    # "asked for": only with --enable-piecewise-cuda-graph
    default = changes("asked for", ("0.5.10", "tc_piecewise"), ("0.5.15", "breakable"))
    piecewise_for_images = changes(False, ("0.5.16", True), ("0.5.22", False))  # validated multimodal models
    breakable_for_images = since("0.5.18")  # those that are validated for both keep breakable graphs

    piecewise_off = rows(
        Off("listed model"),
        Off("drafts", until="0.5.11"),
        Off("attention data parallel"),
        Off("torch compile"),
        Off("pipeline"),
        Off("all-to-all"),
        Off("adapters"),
        Off("images without piecewise"),
        Off("gguf"),
        Off("host memory"),
        Off("deterministic"),
        Off("disaggregated"),
        Off("symmetric memory"),
        Off("expert recorder"),
        Off("context parallel"),
    )
    breakable_off = rows(
        Off("latent attention", until="0.5.17"),
        Off("latent attention, not sparse", since="0.5.17", until="0.5.18"),
        Off("nemotron", since="0.5.17", until="0.5.18"),
        Off("pipeline", since="0.5.19"),
        Off("delta attention", since="0.5.20"),
        Off("deepseek v4"),
        Off("context parallel"),
        Off("decode context parallel", since="0.5.16"),
        Off("adapters", until="0.5.17"),
        Off("all-to-all", until="0.5.17"),
        Off("attention data parallel", until="0.5.17"),
        Off("two batches", since="0.5.17"),
        Off("all-to-all, not validated", since="0.5.17"),
        Off("images without breakable"),
    )
    # after the kernels are known: a captured prefill would leave TensorRT-LLM's latent attention
    off_with_trtllm_mla = since("0.5.16")
    # cuda_graph_hook.py apply_muse_glimmer_prefill_cuda_graph_max_bs_default
    small_graphs = evolving("", ("0.5.18", "+MuseGlimmerForCausalLM +MuseGlimmerForConditionalGeneration"))
    small_graph_tokens = changes(512)
    validated_all_to_all = changes(frozenset(("none", "deepep", "megamoe", "flashinfer")))
