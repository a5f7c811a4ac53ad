"""What a plan says beside its figures: what was assumed, what no figure has checked, what the engine does quietly."""

from oomph.engines.trtllm.kv.pool import made_large_by
from oomph.engines.trtllm.timeline import RankState
from oomph.ir import Attention, Deployment, Model
from oomph.text.tables import all_that_hold
from oomph.units import gib


def assumptions(deployment: Deployment, state: RankState) -> tuple[str, ...]:
    unchecked = _unchecked(state)
    lines = all_that_hold(
        (
            not state.peak_pinned,
            "The peak: weights are counted, activations and the memory outside PyTorch are as posted start-ups printed "
            "them; --given peak=SIZE from a log makes the tokens exact",
        ),
        (unchecked, f"From TensorRT-LLM's source, but checked by no posted figure: {', '.join(unchecked)}"),
        (
            deployment.gpus and deployment.gpus[0].unified,
            "Unified memory: the page cache counts as used there; a posted start lost 49 GiB to the checkpoint's own "
            "files. Drop the caches before the start",
        ),
    )
    return tuple(lines)


def _unchecked(state: RankState) -> list[str]:
    settings, cells = state.settings, state.cells
    return all_that_hold(
        (settings.kv_dtype == "F4", "the size of an NVFP4 cache"),
        (len(cells.windows) > 1, "the pools of several windows"),
        (cells.state, "the recurrent states of every slot"),
        (settings.draft_layers, "the pool's further layers for multi-token prediction"),
        (settings.pp_size > 1, "pipeline stages"),
        (not settings.estimates, "a start without the dummy run"),
        (settings.manager_v2, "the pools of the second KV cache manager"),
        (settings.lora_share, "the cache of LoRA adapters"),
        (settings.draft_model, "a drafter with a checkpoint of its own"),
    )


def warnings(model: Model, state: RankState, starts: bool) -> list[str]:
    settings, pool = state.settings, state.pool
    field = made_large_by(settings, state.facts)
    large = getattr(settings, field) if field else 0
    windows = [m for x in model.layers for m in x.mixers if isinstance(m, Attention) and m.kind == "sliding_window"]
    return all_that_hold(
        (
            starts and 0 < pool.served_length < settings.max_seq_len,
            f"it starts, but with {pool.served_length:,} of your {settings.max_seq_len:,} tokens: the pool holds no "
            f"more, and TensorRT-LLM shortens the context without an error",
        ),
        (
            starts and pool.tokens,
            f"the pool takes {settings.free_gpu_memory_fraction:g} of what the dummy prefill left; "
            f"{gib(max(0, state.reserve))} per GPU stay for run time, where logits and larger batches come on top",
        ),
        (
            field and 20 * state.temporary_bytes > state.total,
            f"the temporary pool has {state.temporary_blocks:,} blocks ({gib(state.temporary_bytes)}) because of "
            f"{field} {large:,}: a smaller one frees it, max_num_tokens does not",
        ),
        (
            settings.manager_v2 and settings.host_cache_size is None,
            f"the second KV cache manager pins host memory too: up to {gib(pool.pool_bytes)} per rank, at most half of "
            f"what is available and 0.8 of the limit on locked memory; kv_cache_config.host_cache_size sets it",
        ),
        (
            windows and not settings.windows,
            f"{len(windows)} sliding-window layers hold the whole context: TensorRT-LLM saves nothing there unless "
            f"kv_cache_config.max_attention_window lists the windows",
        ),
        (
            not settings.enable_block_reuse and settings.policy == "MAX_UTILIZATION",
            "MAX_UTILIZATION without block reuse computes a paused request again from its first token",
        ),
    )
