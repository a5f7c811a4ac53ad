"""A model whose weights alone are larger than the card that the text names: where memory ran out is then no question.

A name says how many parameters a model has ("70B"), and its quantisation; for a text whose lines do not say the stage
that is enough. A plan is more exact, and needs the model itself.
"""

from typing import Final

from oomph.doctor.case import Case, place
from oomph.doctor.reading.meanings import TROUBLES, WEAK
from oomph.doctor.reading.story import says_loaded
from oomph.doctor.rebuild import gpu_row
from oomph.text.late import late_pattern

_BILLIONS: Final = late_pattern(r"(?<![\w.])(?:\d{1,2}x)?(\d{1,4}(?:\.\d{1,2})?)[Bb](?![A-Za-z0-9])")
_HALF_A_BYTE: Final = late_pattern(
    r"(?i)awq|gptq|int4|4[-_ ]?bit|w4a|fp4|bnb|bitsandbytes|(?<![a-z0-9])q[2-5](?![a-z0-9])"
)
_ONE_BYTE: Final = late_pattern(r"(?i)fp8|int8|8[-_ ]?bit|w8a|(?<![a-z0-9])q8(?![a-z0-9])")
_LARGEST: Final = 141 * 10**9  # of one card that such texts name (H200); a larger one names itself
BASES: Final = ("guess", "said")


def weight_bytes(name: str, quantization: str = "") -> int:
    """About; 0 = the name does not say."""
    sizes = [float(size) for size in _BILLIONS.findall(name.replace("-", " ").replace("_", " "))]
    words = f"{name} {quantization}"
    each = 0.5 if _HALF_A_BYTE.search(words) else 1.0 if _ONE_BYTE.search(words) else 2.0
    return round(max(sizes, default=0.0) * each * 10**9)


def with_size(case: Case) -> Case:
    """A guessed stage is the load where the weights cannot fit."""
    worded = case.death.kind not in WEAK or "OutOfMemory" in case.death.quote
    memory = case.memory and case.death.kind not in TROUBLES and worded
    if not case.failed or not memory or case.death.basis not in BASES or case.stage in ("weights_load", "host_ram"):
        return case
    if says_loaded(case.claims):
        return case  # somebody says that they are on the card
    if any(claim.outcome == "well" and "runtime_request" in claim.named("during") for claim in case.claims):
        return case  # or that it has answered
    if case.stage == "kv_check" and case.death.basis == "said":
        return case  # the check comes behind the load, and people tell it with its figures
    story = " ".join(claim.text for claim in case.claims)
    weights = weight_bytes(case.rebuilt.model or _title(case), f"{case.flag('quantization') or ''} {story}")
    ranks = case.tp * max(1, case.whole("pipeline_parallel_size") or 1)
    if weights / ranks <= (_card(case) or _LARGEST):
        return case
    note = f"about {weights / 10**9:.0f} GB of weights cannot be on this card: the stage follows from that"
    return place(case, "weights_load", case.death.basis, note)


def _title(case: Case) -> str:
    return next((o.text for o in case.observations if o.text.startswith("# ")), "")


def _card(case: Case) -> int:
    if case.gpus:
        return case.gpus[0].total_bytes
    row = gpu_row(case.total or 0, named=case.named_gpu) if case.named_gpu else None
    return case.total or (row.total_bytes if row else 0)
