"""L08: Tensor parallelism does not divide the model.

What it is: more GPUs were chosen to cure an OOM, but the attention heads (or a quantised layer's groups and tiles) do
not divide by that number.

How to recognise it: a ValueError at configuration or layer creation, before any memory is taken.

Look-alikes: none; it is no memory error.

What fixes it: a tensor parallel size that divides heads and group sizes, with pipeline parallelism for the rest.

What does not: 3, 5 or 6 ranks for models with 8, 32 or 64 heads.

Evidence: config/model.py:1546 (0.32.0), distributed/utils.py:54.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule


@rule("other")
def match(case: Case) -> Finding | None:
    line = case.first("heads_divide") or case.first("shape_divide")
    if line is None:
        return None
    heads, tp = case.value("heads_divide", "heads"), case.value("heads_divide", "tp") or case.tp
    text = "The split asked for does not exist: "
    if heads:
        good = [n for n in (1, 2, 4, 8, 16) if heads % n == 0]
        text += (
            f"{heads} attention heads cannot be divided over {tp} ranks. Sizes that divide: "
            f"{', '.join(map(str, good))}."
        )
        down = max((n for n in good if n < tp), default=1)
    else:
        text += f"a quantised layer's size does not divide over {tp} ranks in whole groups."
        down = max(1, tp // 2)
    return Finding(Tier.SAID, text, (line.line,), (("fewer_ranks", down), ("stages", down)))
