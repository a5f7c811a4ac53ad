"""Why a llama.cpp or Ollama plan dies: what of the GPU's memory is taken by what."""

from __future__ import annotations

from oomph.ir import Plan
from oomph.units import gib


def reasons(plan: Plan) -> tuple[str, ...]:
    if plan.verdict.outcome == "fits" or not plan.ranks:
        return ()
    rank = plan.ranks[min(plan.verdict.rank, len(plan.ranks) - 1)]
    terms = {name: term.bytes for name, term in rank.terms.items()}
    cache = terms["kv_cache"] + terms["state"]
    parts = f"weights {gib(terms['weights'])}, cache {gib(cache)}, compute {gib(terms['compute'])}"
    taken = rank.used_by_others_bytes + sum(terms.values())
    return (f"{parts} and the driver's share need {gib(taken)} of the GPU's {gib(rank.total_bytes)}.",)
