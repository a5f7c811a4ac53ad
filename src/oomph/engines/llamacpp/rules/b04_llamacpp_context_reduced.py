"""B04: the context was made smaller without being asked.

Llama.cpp or Ollama made the context smaller without being asked.

What it is: where -c is not given, --fit lowers the context (to 4,096 tokens at the least) until every GPU keeps 1 GiB
free. Ollama does the same once after a failed load, if the context was its own default.

How to recognise it: "context size reduced from 262144 to 65536"; Ollama: "reducing automatic context and retrying
once" with old_num_ctx and new_num_ctx.

Look-alikes: "n_ctx_seq < n_ctx_train" only says that less than the trained length was asked for.

What fixes it: -c N with the context that is needed (layers then move to the CPU), an 8-bit cache, a smaller
quantisation.

What does not: -c 0 in the hope of more: it means the whole trained length, and layers move to the CPU for it.

Evidence: llama.cpp PR 16653 (llama_params_fit); Ollama llm/server.go.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.ir.log_kinds import LogKind


@rule("kv_alloc", "weights_load", engines=("llamacpp", "ollama"), failure=False)
def match(case: Case) -> Finding | None:
    if case.failed or not case.has("lc_fit_context", "ol_retry_context"):
        return None
    kind: LogKind = "lc_fit_context" if case.has("lc_fit_context") else "ol_retry_context"
    before, after = case.value(kind, "before"), case.value(kind, "after")
    if not before or not after:
        return None
    who = "llama.cpp's --fit" if kind == "lc_fit_context" else "Ollama, after a load that failed,"
    text = f"{who} lowered the context from {before:,} to {after:,} tokens so that the model stays on the GPU."
    remedies = (
        "kv_dtype",
        ("context_up", before),
    )
    return Finding(Tier.COMPUTED, text, case.line(kind), remedies)
