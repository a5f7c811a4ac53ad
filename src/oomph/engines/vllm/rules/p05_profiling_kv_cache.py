"""P05: The graph profiler's throw-away KV cache does not fit.

The throw-away KV cache of the graph profiler is huge on hybrid models.

What it is: to estimate what CUDA graphs will take, vLLM first builds a "minimal" KV cache of as many blocks as the
largest captured batch has tokens (512 by default), one tensor per layer of a group. On hybrid models a block is as
large as a recurrent state, megabytes, so this cache can be larger than the card. It is freed again and never used.

How to recognise it: "Overriding num_gpu_blocks=0 with num_gpu_blocks_override=N", a flag nobody set, and
profile_cudagraph_memory in the traceback. The allocation that failed is N pages exactly, and what was allocated
beyond the weights is a whole number of them.

Look-alikes: K10 (the real KV cache: initialize_from_config in the traceback), C01 (capture).

What fixes it: fewer captured tokens: --max-num-seqs (blocks = min(sequences x (1 + drafted tokens) x 2, 512)) or
--max-cudagraph-capture-size; --kv-cache-memory-bytes, which skips the pass; --enforce-eager; a 16-bit state dtype;
0.26 and newer take min(max_num_seqs, capture size).

What does not: utilization, up or down; the context length; prefix caching; leaving out the draft model;
VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0, which only drops the result.

Evidence: gpu_model_runner.py:5800 and 5864 (0.19.1); vllm PR 48483 (0.26.0) says it was used by mistake.
"""

from oomph.doctor.ledger import number
from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import GIB, MIB, gib


@rule("cudagraph_profile", at_stage=True, since="0.18.0", dated=False)
def match(case: Case) -> Finding | None:
    blocks = next(
        (
            number(observation, "blocks")
            for observation in case.all("blocks_override")
            if observation.values.get("before") == 0
        ),
        None,
    )
    tried, half = case.oom_value("tried"), case.oom_value("tried_half") or 0
    text = (
        "vLLM was building the throw-away KV cache on which it tries out CUDA graphs; the real one had not been "
        "sized yet."
    )
    page = page_of(tried, half, blocks) if blocks and tried else 0
    if blocks and page:
        count = tensors(case)
        text += (
            f" {blocks} blocks (one per token of the largest captured batch) x {page / MIB:.4g} MiB a page = "
            f"{page * blocks / GIB:.5g} GiB per tensor, exactly what was asked for."
        )
        weights, allocated = case.value("weights", "weights"), case.oom_value("allocated")
        if weights and allocated and allocated > weights:
            done = round((allocated - weights) / (page * blocks) - 0.1)
            text += f" {done} such tensors already lay beside {gib(weights)} of weights."
        if count:
            text += f" {count} are needed: {page * blocks * count / GIB:.4g} GiB in all."
    context = case.account.get("context") or 0
    if context > 2 * GIB and case.tp == 1:
        text += (
            f" Besides, {gib(context)} on the card belong to this process but not to PyTorch; that much is left "
            "behind by"
            " kernel tuning in the profiling run (P06)."
        )
    drafts = {"no_drafts": "without the draft the blocks are as many and nearly as large"}
    return Finding(
        Tier.SAID if case.memory else Tier.POSSIBLE,
        text,
        case.line("blocks_override", "torch_oom", "padding_layers", "weights"),
        (("sequences", 8), ("fewer_graphs", 32), ("kv_bytes", 3 * GIB), "no_graphs", ("release", "0.26.0")),
        drafts if case.spec else {},
    )


def page_of(tried: int, half: int, blocks: int) -> int:
    """Pages are multiples of 64 KiB in practice; within the printed rounding there is often only one."""
    low, high = (tried - half) / blocks, (tried + half) / blocks
    step = MIB // 16
    whole = [n * step for n in range(int(low // step), int(high // step) + 2) if low <= n * step <= high]
    return whole[0] if len(whole) == 1 else round(tried / blocks)


def tensors(case: Case) -> int:
    """Layers of one group, from "Add N padding layers, may waste at most P%": P = N / layers of the padded type.

    The group size is the smallest number above N that divides layers + N.
    """
    added, percent = case.value("padding_layers", "layers"), case.real("padding_layers", "percent")
    if not added or not percent:
        return 0
    layers = round(added * 100 / percent)
    return next((n for n in range(added + 1, layers + added + 1) if (layers + added) % n == 0), 0)
