"""Host memory that is page-locked for the GPU: CUDA refuses it in the same words as its own memory."""

from collections.abc import Sequence
from typing import Final

from oomph.ir.log_kinds import LogKind
from oomph.logs.clean import Line
from oomph.text.late import late_pattern

_PINNED: Final = late_pattern(
    r"\bpin_memory=(?!False)|\.pin_memory\(|\bcudaHost(?:Alloc|Register)\b|\bcuda_?host_?register\b|CachingHostAllocator"
    r"|/mem_cache/(?:pool_host/|memory_pool_host)|\balloc_with_(?:pin_memory|host_register)\b"
)
BARE: Final[LogKind] = "cuda_error_oom"  # an allocation on the card names its size and the card's total
NEAR: Final = 4  # lines of a traceback above its error


def is_pinned(kind: str | None, at: int, lines: Sequence[Line]) -> bool:
    """The call that failed with CUDA's bare words locked memory of the host."""
    if kind != BARE:
        return False
    return any(_PINNED.search(line.text[:1000]) for line in lines if at - NEAR <= line.number <= at)
