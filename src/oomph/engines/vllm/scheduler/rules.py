"""Two rules of vLLM's prefix cache: where a prefill of recurrent layers stops, and which blocks of a window or of
recurrent layers are worth a hash. `block` is Config.block."""

from oomph.simulate.config import Config, Group
from oomph.units import cdiv

PATIENCE = 8  # starts without a new token after which a request that has the whole pool to itself is given up


def aligned_chunk(config: Config, block: int, start: int, new: int, prompt: int, tokens: int, junction: int) -> int:
    """_mamba_block_aligned_split (scheduler.py:255, 0.21.0; :448, 0.32.0): a state is kept where a chunk ends, so a
    chunk ends at a block's end; the last block of a prompt is a chunk of its own. 0: not in this step."""
    stop = max(prompt, tokens - 1)
    if start >= stop or (config.split == "prompt" and tokens > prompt):
        return new
    spare = (
        1 if config.split == "resend" and not config.drop_last_hit else 0
    )  # the same prompt again recomputes its last token
    last = (tokens - spare) // block * block
    if config.drop_last_hit:
        last = max(last - block, 0)
    end = start + new
    inside = config.keeps_inside(start, end, stop, config.checkpoint_position(stop))
    if inside:
        last = 0
    if config.split in ("prompt", "block", "common"):
        if end < last:
            new = new // block * block
        elif start < last < end:
            new = last - start
        common = junction - start  # 0.24 and 0.25 look at it only when a request is admitted
        return common // block * block if config.split == "common" and block <= common < new else new
    if config.split == "stops":
        if end < last:
            end = end // block * block
    elif end < stop:
        most = min(config.budget, config.long_prefill_threshold or config.budget)
        aligned = end // block * block
        if aligned > start or block <= most:  # a block wider than any chunk is crossed in pieces (0.27+)
            end = aligned
    boundary = (start // block + 1) * block
    stops = [last]
    if start % block and not inside and (config.split != "stops" or boundary <= last):
        stops.append(boundary)
    if start < junction < end:
        stops.append(start + (junction - start) // block * block)
    end = min((s for s in stops if start < s < end), default=end)
    return max(end - start, 0)


def cacheable(config: Config, block: int, group: Group, computed: int, hybrid: bool) -> int:
    """Tokens of which blocks may get a hash: with several groups, what a hit could reach (0.23+,
    HybridKVCacheCoordinator.cache_blocks); EAGLE matches one block further and drops it."""
    if config.kept == "all" or not hybrid:
        return computed
    whole = computed // block * block
    return min(computed, whole + group.block_size) if config.drop_last_hit and whole else whole


def kept(
    config: Config, block: int, group: Group, first: int, last: int, prompt: int, junction: int
) -> list[bool] | None:
    """reachable_block_mask: which of the blocks first .. last - 1 get a hash; None: all of them. A window needs only
    the blocks before a point where a hit can end. Since 0.29 (prefix_cache_retention_interval 0) that is only the end
    of the prompt, and where other requests were seen to branch off."""
    if config.kept == "all" or group.kind not in ("window", "align", "all"):
        return None
    if group.kind != "window" and config.kept != "replay":
        return None
    size = group.block_size
    mask = [False] * (last - first)
    shift = 1 if config.drop_last_hit and group.kind == "window" else 0
    wanted = cdiv(group.span - 1, size) + shift if group.kind == "window" else 1
    if config.kept == "reachable":
        segment = block // size
        if wanted >= segment:
            return None
        return [i >= shift and (i - shift) % segment >= segment - wanted for i in range(first, last)]
    for boundary in [*_replays(config, block, prompt), *([junction] if junction else [])]:
        end = boundary // block * block // size + shift
        for i in range(max(first, end - wanted), min(last, end)):
            mask[i - first] = True
    return mask


def _replays(config: Config, block: int, prompt: int) -> list[int]:
    """replay_boundaries: where the same prompt, or a longer one, can resume."""
    if not config.drop_last_hit or config.replays == 1:
        return [prompt - 1]
    return [max((prompt - 1) // block * block - block, 0), max(prompt // block * block - block, 0)]


def replayed(config: Config, block: int, prompt: int) -> int:
    """Where a prompt's last state is kept; 0.32 gives it a hash again in every step that stays in its block
    (_cache_partial_tail_block), so that who would resume there waits (same_step_waits)."""
    if config.drop_last_hit:
        return max(prompt // block * block - block, 0)
    return (prompt - 1) // block * block
