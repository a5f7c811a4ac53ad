"""What a release does between the KV cache and the first request, and what a request may ask for.

Read from the releases 0.19.0 to 0.32.0; the figures were checked on allocator traces of 0.26.0 on an H200
(tests/truth/h200-served.jsonl). What holds for 0.27.0 and later follows from their source and was not measured.
"""

from typing import Literal

from oomph.facts.changes import Dated, Facts, changes, since
from oomph.units import cdiv


class AfterStart(Facts):
    # kernel_warmup.py: FlashInfer's tuning runs one batch of max_num_batched_tokens, on Hopper and newer cards. The
    # default of the optimisation level O2 (config/vllm.py) was off in 0.21 alone; releases before 0.19.0 were not read.
    tunes_kernels: Dated[bool] = changes(False, ("0.19.0", True), ("0.21.0", False), ("0.22.0", True))
    # gpu/model_runner.py profile_run: until then the V2 runner profiles no image, so that images lie outside the budget
    v2_profiles_encoder = since("0.27.0")
    # gpu/warmup.py: the V2 runner samples once with every sampling option; "": it does not warm up
    v2_warm_up: Dated[Literal["", "all options"]] = changes("", ("0.19.0", "all options"))
    # gpu_worker.py compile_or_warm_up_model: until then the V2 runner warms up after graphs are captured, and what that
    # leaves stays reserved; since then before, and capture begins with an empty cache
    v2_captures_last = since("0.30.0")
    # config/vllm.py: --enforce-eager turns the V2 runner's warm-up off
    v2_eager_is_cold = since("0.31.0")


# What the V2 runner's sampler keeps on the GPU for every sequence (gpu/sample/, gpu/structured_outputs.py; the same in
# 0.26.0 to 0.32.0): int32 ids of allowed words, of biased words with their biases, of stop words, of bad words with
# their offsets, of words whose log-probabilities are asked for.
_V2_SAMPLER_LISTS = 4 * (1024 + 2 * 1024 + 128 + 1024 + (128 + 1) + 128)


def v2_sampler_state(vocabulary: int, drafts: int) -> int:
    """Bytes for every sequence: its lists, counts of every word in its answer and a bit for every word of its prompt
    (penalties.py), and for every token that a step may sample a grammar's bit for every word and an index."""
    bits = 4 * cdiv(vocabulary, 32)
    return _V2_SAMPLER_LISTS + 4 * vocabulary + bits + (1 + drafts) * (bits + 4)


# Bytes for every logit of a batch, beside the logits themselves in the model's dtype.
# V1 (gpu_model_runner.py _dummy_sampler_run): a float32 copy, probabilities, exponential noise.
V1_SAMPLING = 12
# V1 with log-probabilities and penalties (v1/sample/ops/penalties.py, v1/utils.py get_token_bin_counts_and_mask): the
# float32 copy and the log-probabilities, two int64 counts and two masks, the repeated penalties. Traced to the byte.
V1_EVERY_OPTION = 4 + 4 + 2 * 8 + 2 * 1 + 4
# V1 verifying drafts (v1/sample/rejection_sampler.py, equal in 0.19.0 to 0.32.0): the logits of every drafted token
# and of the one after them; of the latter a copy and its float32 form; of the drafted ones two float32 copies. Random
# sampling adds their probabilities and two rows of noise, penalties what they add to the plain sampler. With 256
# sequences and three drafts 104 bytes were counted and 104.6 measured.


def v1_drafted(width: int, drafts: int) -> int:
    """Bytes for every sequence and word of the vocabulary."""
    return (2 + drafts) * width + 4 + drafts * (4 + 4 + 4) + 2 * 4


def v1_drafted_every_option(width: int, drafts: int) -> int:
    return (2 + drafts) * width + 4 + drafts * V1_EVERY_OPTION


# V1's prompt log-probabilities (gpu_model_runner.py:5644, 0.26.0): float32 logits and their log-softmax, for every
# prompt token of a step.
V1_PROMPT_LOGPROBS = 4 + 4
# V2 (gpu/sample/sampler.py, flashinfer sampling.py:1548): a copy in the model's dtype, and three float32 tensors.
V2_SAMPLING = 12
# V2 verifying drafts (gpu/spec_decode/rejection_sampler.py): the logits of every drafted token and of the one after
# them, and a copy where log-probabilities are asked for; the rest is done in place.
V2_PROMPT_CHUNK = 1024  # gpu/sample/prompt_logprob.py: prompt log-probabilities are made for so many tokens at a time
