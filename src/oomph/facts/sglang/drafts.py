"""Speculative decoding: the settings that SGLang chooses for a drafter, and when a drafter is counted.

Origins: `server_args.py` _handle_speculative_decoding and auto_choose_speculative_params (to 0.5.13),
`arg_groups/speculative_hook.py` (0.5.14 on), `managers/scheduler.py` init_memory_pools (0.5.14).
"""

from oomph.facts.changes import Facts, changes, since

Choice = tuple[int, int, int]  # speculative_num_steps, speculative_eagle_topk, speculative_num_draft_tokens
CHAIN: Choice = (3, 1, 4)
TREE: Choice = (5, 4, 8)
FAMILY = frozenset(("EAGLE", "EAGLE3", "STANDALONE", "FROZEN_KV_MTP"))  # SpeculativeAlgorithm.is_eagle, is_standalone


class Drafts(Facts):
    # before the pools are sized the drafter is loaded, and a token's rows in its layers are part of a cell
    counted = since("0.5.14")
    windows_counted = since("0.5.15")  # the same for models with two pools
    requests = changes(48)  # max_running_requests where nobody says it
    trees = changes(frozenset(("LlamaForCausalLM", "Grok1ForCausalLM", "Grok1VForCausalLM")))
    other_models = changes(TREE, ("0.5.10", CHAIN))  # what a model that neither list names gets
    chains = changes(
        frozenset(
            (
                "DeepseekV32ForCausalLM", "DeepseekV3ForCausalLM", "DeepseekV2ForCausalLM", "GptOssForCausalLM",
                "Glm4MoeForCausalLM", "Glm4MoeLiteForCausalLM", "GlmMoeDsaForCausalLM", "BailingMoeForCausalLM",
                "BailingMoeV2ForCausalLM", "BailingMoeV2_5ForCausalLM", "MistralLarge3ForCausalLM",
                "PixtralForConditionalGeneration", "MiMoV2ForCausalLM", "MiMoV2FlashForCausalLM",
            )
        )
    )  # fmt: skip
