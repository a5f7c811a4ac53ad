"""P01: Profiling the largest image or video does not fit.

What it is: before serving, vLLM encodes the largest item of the heaviest modality (video, usually) at the
checkpoint's own maximum resolution. The peak is also kept as a reserve for good.

How to recognise it: the OOM comes after "Encoder cache will be initialized ..." and before any torch.compile line, or
the traceback is inside the vision or audio tower. V0 prints that the profiling sequence is too short for the worst
case of multi-modal embeddings.

Look-alikes: P02 (attention without flash kernels), P03 (the language model's own forward).

What fixes it: --limit-mm-per-prompt with video 0, --language-model-only, --mm-processor-kwargs with max_pixels,
--skip-mm-profiling with a lower utilization.

What does not: context length or utilization.

Evidence: gpu_model_runner.py:5888 (0.21.0); vllm PR 41723, issues 27992, 34209.
"""

from oomph.doctor.reading.towers import tells_of_images
from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import human

TOWER = (
    "embed_multimodal",
    "get_multimodal_embeddings",
    "visual",
    "vision",
    "_process_image",
    "_process_video",
    "audio_tower",
    "siglip",
    "vit_",
    "get_dummy_mm",
)


@rule("profile_run")
def match(case: Case) -> Finding | None:
    if case.stage != "profile_run" or not (case.failed or case.has("mm_worst_case")):
        return None
    worst = case.value("mm_worst_case", "tokens")
    inside = case.in_traceback(*TOWER) or case.in_tower
    after_budget = case.before("encoder_budget", "mm_profile") and not case.before("dynamo", "compiled")
    is_claim = case.told_short_at("profile_run") and tells_of_images(case.claims, "profile_run")
    near = after_budget and (case.oom is not None or case.death.functions)
    if not (inside or worst or is_claim or near):
        return None
    items, modality = case.value("encoder_budget", "items"), case.first("encoder_budget")
    text = "vLLM runs the largest multi-modal item the model allows before it serves, and that run did not fit."
    if worst:
        text += f" The worst case of one prompt is {worst:,} tokens of images and video."
    if items and modality is not None:
        budget = case.value("encoder_budget", "budget") or 0
        text += f" It used {items} {modality.values.get('modality')} item(s), {budget:,} tokens of encoder budget."
    tried = case.oom_value("tried")
    if tried:
        text += f" {human(tried)} were missing."
    remedies = (
        "fewer_images",
        "text_only",
        "smaller_images",
    )
    return Finding(
        Tier.COMPUTED if inside or worst or is_claim else Tier.LIKELY,
        text,
        case.line("encoder_budget", "mm_worst_case", "torch_oom"),
        remedies,
        {"context": "the encoder's budget is not limited by the context length"},
    )
