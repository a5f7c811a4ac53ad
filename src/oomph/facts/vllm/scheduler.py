"""What vLLM's scheduler does differently from release to release. Read in v1/core/sched/scheduler.py,
kv_cache_manager.py, single_type_kv_cache_manager.py and block_pool.py of each release."""

from typing import Literal

from oomph.facts.changes import Dated, Facts, changes, since, until

Gate = Literal["chunk", "full", "capped"]
Eagle = Literal["each", "spiral", "simple", "once", "past"]
Split = Literal["prompt", "block", "common", "stops", "wide", "resend"]


class SchedulerRules(Facts):
    """The names are those of simulate/config.py, which says what each means."""

    # Waiting -> running. "chunk": the next chunk must fit. "full" (0.19, can_fit_full_sequence): the whole prompt,
    # windows ignored. "capped" (PR 39866): a window group asks for no more than it can ever hold.
    gate: Dated[Gate] = changes("chunk", ("0.19.0", "full"), ("0.20.0", "capped"))
    # --watermark: free blocks that admission leaves alone while something runs (kv_cache_manager.py:363, 0.24.0).
    watermark = since("0.24.0")
    # Blocks leave a window on processed tokens, not on scheduled ones (kv_cache_manager.py, num_in_flight_tokens).
    settled = since("0.26.0")
    # A preempted request waits for the tokens it has in flight (scheduler.py, num_stale_output_tokens).
    stale_waits = since("0.27.0")
    # Asynchronous scheduling knows that the step in flight samples the last token (scheduler.py:287, 0.14.1).
    known_end = since("0.11.1")
    # free_blocks: blocks without a hash go to the head of the free queue (block_pool.py:622, 0.24.0; 0.23: windows
    # only).
    uncached_first = since("0.24.0")
    # --long-prefill-token-threshold is left aside while there is only one request (scheduler.py:640, 0.32.0).
    alone_unthrottled = since("0.31.0")
    # Priority: a victim that stood before the current request moves the scan, scheduled or not (victim_index).
    victim_by_place = since("0.28.0")

    # --- speculation
    # effective_lookahead_tokens: slots for drafts from the first chunk on.
    lookahead_first = since("0.23.0")
    # What a draft model adds to a batch is taken off for max_num_seqs requests (config/vllm.py:1426, 0.21.0), then for
    # each scheduled one (scheduler.py:613, 0.32.0, max_num_new_slots_for_drafting).
    draft_slots: Dated[Literal["no", "seqs", "step"]] = changes("no", ("0.17.0", "seqs"), ("0.28.0", "step"))
    drafts_stay = until("0.14.0")  # _preempt_request forgets the drafts
    # pad_spec_decode: a request that starts with one token gets drafts, if others run; since 0.30 also alone, on a hit.
    pad_drafts: Dated[Literal["no", "running", "any"]] = changes("no", ("0.25.0", "running"), ("0.30.0", "any"))
    # HybridKVCacheCoordinator.find_longest_cache_hit: EAGLE's dropped block. Once for each group; again and again until
    # all groups agree (issue 32802); once if there are two kinds; looked for beyond the hit, so that nothing is lost.
    eagle: Dated[Eagle] = changes(
        "each", ("0.14.0", "spiral"), ("0.15.1", "simple"), ("0.20.0", "once"), ("0.32.0", "past")
    )

    # --- prefix caching of windows and recurrent layers
    # reachable_block_mask; prefix_cache_retention_interval is 0 since 0.29.
    hashes: Dated[Literal["all", "reachable", "replay"]] = changes("all", ("0.23.0", "reachable"), ("0.29.0", "replay"))
    replays = changes(1, ("0.30.0", 2))  # replay_boundaries with EAGLE
    # _mamba_block_aligned_split: of prompts only; of what a preempted request computes again too; where others branch
    # off.
    split: Dated[Split] = changes(
        "prompt",
        ("0.17.0", "block"),
        ("0.24.0", "common"),
        ("0.26.0", "stops"),
        ("0.27.0", "wide"),
        ("0.32.0", "resend"),
    )
    # MambaManager.remove_skipped_blocks: the state before the last; with room for rejected drafts; all before the last.
    align_frees: Dated[Literal["last", "margin", "range"]] = changes(
        "last", ("0.17.0", "margin"), ("0.26.0", "last"), ("0.30.0", "range")
    )
    # cached_blocks_this_step: a recurrent state is not read in the step that computes it.
    same_step_waits = since("0.17.0")

    # --- pipelines
    # EngineCore.step_with_batch_queue fills its queue up although one of the batches is empty (core.py:542, 0.23.0).
    refills = since("0.23.0")
    # AsyncScheduler: pipeline_parallel_size steps between two decodes of a request (next_decode_eligible_step, 0.23.0).
    staggers = since("0.23.0")
    # Whether this release's scheduler was stepped beside ours (tools/real_scheduler); an older one is simulated by the
    # rules of 0.12.0.
    compared = since("0.12.0")

    # What the server answers to a prompt that leaves no room for one token: entrypoints/openai serving_engine.py:676
    # (0.11.0), renderers/params.py:419 (0.21.0) and :528 (0.32.0).
    too_long = changes(
        "This model's maximum context length is {length} tokens. However, your request has {prompt} input tokens. "
        "Please reduce the length of the input messages.",
        (
            "0.18.0",
            "This model's maximum context length is {length} tokens. However, you requested {output} output tokens and "
            "your prompt contains {prompt} input tokens, for a total of {total} tokens. Please reduce the length of "
            "the input prompt or the number of requested output tokens.",
        ),
        (
            "0.32.0",
            "This model's maximum context length is {length} tokens. However, your prompt contains {prompt} input "
            "tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input "
            "prompt.",
        ),
    )
