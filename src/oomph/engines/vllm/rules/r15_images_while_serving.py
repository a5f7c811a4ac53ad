"""R15: An image of a request does not fit while serving.

An image or a video of a request does not fit while serving.

What it is: the encoder runs when a request with images comes. Profiling sees one full batch of the largest item that
the settings allow; larger pictures (no pixel limit), several at once or a long video can need more, and preprocessing
on the GPU is not profiled at all.

How to recognise it: the engine was ready, and the traceback goes through the encoder (_execute_mm_encoder,
embed_multimodal, a vision model's file).

Look-alikes: P01 (the same at the start), P07 (a long text prompt), R08 (something else grew).

What fixes it: fewer or smaller items per prompt; lower utilization by what was missing.

What does not: a shorter context, fewer text tokens per step: the encoder's buffers follow the pixels.

Evidence: gpu_model_runner.py _execute_mm_encoder (0.21.0).
"""

from oomph.doctor.reading.towers import tells_of_images
from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import gib, human

FUNCTIONS = ("_execute_mm_encoder", "embed_multimodal", "get_multimodal_embeddings", "_process_image_input",
             "_process_video_input", "get_image_features", "vision_tower", "visual_encoder")  # fmt: skip


@rule("runtime_request", at_stage=True, over=("P07", "R08", "R06"))
def match(case: Case) -> Finding | None:
    is_claim = case.told_short_at("runtime_request") and tells_of_images(case.claims)
    if not (case.in_traceback(*FUNCTIONS) or case.in_tower or is_claim) or not case.memory:
        return None
    tried, free = case.oom_value("tried"), case.oom_value("free")
    text = "A request's image or video was too large for what the budget leaves: the encoder ran out of memory"
    text += f", {human(tried)} were asked for" if tried else ""
    text += f" and {human(free)} of {gib(case.total)} were free." if tried and free is not None and case.total else "."
    share = max(0.03, ((tried or 0) - (free or 0)) / case.total + 0.01) if case.total and tried else 0.05
    remedies = ("fewer_images", "smaller_images", ("share_down", case.util - share))
    why = "the encoder's buffers follow the pixels, not the text"
    rejected = {"context": why, "batch": why}
    tier = Tier.LIKELY if is_claim else Tier.COMPUTED
    return Finding(tier, text, case.line("torch_oom", "frame")[:2], remedies, rejected)
