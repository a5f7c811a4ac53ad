"""Why a plan dies or is close, in a sentence or two with its figures."""

from __future__ import annotations

from oomph.ir import Plan
from oomph.units import gib


def reasons(plan: Plan) -> tuple[str, ...]:
    if plan.verdict.outcome == "fits" or not plan.ranks:
        return ()
    rank = plan.ranks[min(plan.verdict.rank, len(plan.ranks) - 1)]
    terms, resolved = rank.terms, plan.resolved
    weights, total = terms["weights"].bytes, rank.total_bytes
    stage = plan.verdict.stage or plan.verdict.first_to_break
    if stage == "weights_load":
        return (f"The weights take {gib(weights)} of the {gib(total)} of this GPU.",)
    if stage == "profile_run":
        temporary, blocks = terms["temporary_kv"].bytes, int(resolved["temporary_blocks"])
        if "state" in terms and terms["state"].bytes > temporary:
            slots = int(resolved["max_batch_size"])
            return (
                f"Beside {gib(weights)} of weights the recurrent states of {slots:,} slots (max_batch_size) take "
                f"{gib(terms['state'].bytes)}.",
            )
        field = resolved["temporary_pool_follows"]
        text = f"Beside {gib(weights)} of weights the temporary KV pool takes {gib(temporary)} ({blocks:,} blocks)"
        if temporary > total // 20 and field:
            each = "a block per request" if field == "max_batch_size" else "the blocks of a whole request"
            text += f": {field} {resolved[field]:,} asks for {each}"
        return (f"{text}; the first warm-up and a prefill of {resolved['max_num_tokens']:,} tokens must fit as well.",)
    if stage == "kv_check":
        peak = terms["peak"].bytes
        return (f"The dummy run's peak is {gib(peak)} of {gib(total)}: its share of the rest holds no KV cache.",)
    served, wanted = int(resolved["served_max_seq_len"]), int(resolved["max_seq_len"])
    lines = []
    if served < wanted:
        lines.append(f"The KV cache holds {served:,} of the {wanted:,} tokens of a full request.")
    reserve = int(resolved["reserve_bytes"])
    logits = terms["decode_logits"].bytes
    if logits > reserve > 0:
        lines.append(
            f"The KV cache leaves {gib(reserve)} for run time; the dummy prefill has not seen the logits of a full "
            f"batch, {gib(logits)} for {resolved['max_batch_size']:,} requests."
        )
    return tuple(lines)
