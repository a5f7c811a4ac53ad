"""The two functions of kvCacheManager.cpp once more, statement by statement with the names of the source, and nothing
shared with `engines/trtllm/kv/blocks.py`: what the test of 1,000 requests compares."""

from __future__ import annotations

from dataclasses import dataclass


def ceil_div(a: int, b: int) -> int:
    return (a + b - 1) // b


@dataclass
class LlmRequest:
    prompt_len: int
    max_new_tokens: int
    beam_width: int
    num_draft_tokens: int
    is_context_init: bool
    is_first_context_chunk: bool
    is_generation_in_progress: bool
    num_tokens: int  # getNumTokens(0): prompt and generated tokens
    sequence_tokens: int  # of mSequences; 0 = it is not there
    allocated_blocks_per_beam: int
    reusable_allocated_blocks: int


@dataclass
class KVCacheManager:
    tokens_per_block: int
    window_size: int
    temporary_attention_window: int
    max_token_num: int
    chunk_size: int
    enable_block_reuse: bool
    is_variable_window: bool

    def get_needed_blocks_one_step(self, req: LlmRequest, two_steps_look_ahead: bool) -> int:
        if req.is_context_init and req.is_first_context_chunk:
            max_draft_tokens_to_add = req.num_draft_tokens
            prompt_cache_len = min(req.prompt_len + max_draft_tokens_to_add, self.window_size + self.chunk_size)
            num_shared_blocks = prompt_cache_len // self.tokens_per_block
            num_unshared_tokens = prompt_cache_len % self.tokens_per_block
            num_unshared_blocks = ceil_div(num_unshared_tokens, self.tokens_per_block) * req.beam_width
            num_required_blocks = num_shared_blocks + num_unshared_blocks
            if self.enable_block_reuse and not self.is_variable_window:
                num_required_blocks -= min(req.reusable_allocated_blocks, num_shared_blocks)
            return num_required_blocks
        if req.is_generation_in_progress:
            num_curr_tokens = req.sequence_tokens
            generated_tokens = num_curr_tokens - req.prompt_len
            max_tokens_to_add_to_kv_cache = req.max_new_tokens - generated_tokens
            tokens_per_step = req.num_draft_tokens + 1
            max_tokens_to_add = min((2 if two_steps_look_ahead else 1) * tokens_per_step, max_tokens_to_add_to_kv_cache)
            num_next_tokens = num_curr_tokens + max_tokens_to_add
            if num_next_tokens > self.max_token_num:
                return 0
            num_curr_blocks = ceil_div(num_curr_tokens, self.tokens_per_block)
            num_next_blocks = ceil_div(num_next_tokens, self.tokens_per_block)
            return (num_next_blocks - num_curr_blocks) * req.beam_width
        return 0

    def get_remaining_blocks_to_completion(self, req: LlmRequest) -> int:
        limit = self.window_size + self.temporary_attention_window
        num_context_blocks = min(req.prompt_len, limit) // self.tokens_per_block
        num_total_blocks_per_beam = ceil_div(min(req.prompt_len + req.max_new_tokens, limit), self.tokens_per_block)
        num_gen_blocks_per_beam = num_total_blocks_per_beam - num_context_blocks
        num_alloc_blocks_per_beam = req.allocated_blocks_per_beam if req.sequence_tokens else 0
        num_reusable_context_blocks = 0
        if (
            self.enable_block_reuse
            and not self.is_variable_window
            and req.is_context_init
            and req.is_first_context_chunk
            and num_alloc_blocks_per_beam == 0
        ):
            num_reusable_context_blocks = min(req.reusable_allocated_blocks, num_context_blocks)
        is_sliding_window = (req.prompt_len + req.max_new_tokens) > self.window_size
        current_seqlen_in_blocks = ceil_div(req.num_tokens, self.tokens_per_block)
        max_seqlen_in_blocks = ceil_div(req.prompt_len + req.max_new_tokens, self.tokens_per_block)
        will_cross_block_boundary = max_seqlen_in_blocks > current_seqlen_in_blocks
        will_cross_window_block_boundary = max_seqlen_in_blocks > num_total_blocks_per_beam
        num_extra_blocks_per_beam = (
            1 if is_sliding_window and will_cross_block_boundary and will_cross_window_block_boundary else 0
        )
        effective_context_blocks = num_context_blocks - num_reusable_context_blocks
        if num_alloc_blocks_per_beam < effective_context_blocks:
            return (
                effective_context_blocks
                - num_alloc_blocks_per_beam
                + (num_gen_blocks_per_beam + num_extra_blocks_per_beam) * req.beam_width
            )
        effective_total_blocks = num_total_blocks_per_beam - num_reusable_context_blocks
        return (effective_total_blocks - num_alloc_blocks_per_beam + num_extra_blocks_per_beam) * req.beam_width
