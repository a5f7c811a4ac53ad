"""K06: Fewer recurrent-state blocks than sequences.

What it is: every running sequence of a hybrid model needs one state block, and full CUDA graphs are captured for
max_num_seqs of them. The default of 256 or 1024 is more than fits.

How to recognise it: "max_num_seqs (S) exceeds available Mamba cache blocks (B)".

Look-alikes: K02.

What fixes it: --max-num-seqs at most B; more utilization; 16-bit states; piecewise graphs.

What does not: a shorter context.

Evidence: config/compilation.py:1519 (0.32.0); vllm PR 38270, issue 49064.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule


@rule("kv_check", since="0.20.0")
def match(case: Case) -> Finding | None:
    line = case.first("mamba_blocks")
    if line is None:
        return None
    seqs, blocks = case.value("mamba_blocks", "seqs") or 0, case.value("mamba_blocks", "blocks") or 0
    text = (
        f"{seqs} sequences may run at once, each needs one recurrent-state block, and {blocks} fit: {seqs - blocks} "
        "too many."
        f" The default is sized for the GPU, not for this model."
    )
    nice = next((n for n in (512, 256, 128, 64, 32, 16, 8, 4, 2, 1) if n <= blocks), max(1, blocks))
    state = "state_dtype"
    return Finding(
        Tier.SAID,
        text,
        (line.line,),
        (("sequences", nice), state),
        {"context": "a state block does not depend on the context length"},
    )
