"""Terms in whole bytes, each with where it comes from and how far it may be off."""

from typing import Literal

from msgspec import Struct

# exact: follows from the engine's source to the byte. formula: derived, small known error. measured: a constant that
# somebody measured. assumed: nobody knows. given: the user or a log said so.
Basis = Literal["exact", "formula", "measured", "assumed", "given"]


# What people call the terms, in every report.
TERM_WORDS = {
    "weights": "weights",
    "load_peak": "peak while loading",
    "context": "CUDA context",
    "runner": "model runner's buffers",
    "activation_peak": "activation peak",
    "non_torch": "memory outside PyTorch",
    "cudagraph": "CUDA graph memory",
    "captured": "memory that captured graphs really take",
    "warm_up": "peak while warming up",
    "serving": "peak while serving",
    "image_transfer": "room for images that another process hands over",
    "available_kv": "memory for the KV cache",
    "kv_cache": "KV cache",
    "state": "recurrent state",
    "compute": "compute buffer",
    "others": "memory that other processes hold",
    "free_before_load": "memory that is free before the load",
    "peak": "peak of the first forward pass",
    "temporary_kv": "cache of the first forward pass",
    "decode_logits": "logits of a decoding step",
    "largest allocation": "largest allocation that the driver allows",
    "system": "memory that the system and other programs hold",
    "host": "memory of the host",
    "asleep": "memory that stays on the GPU in sleep mode",
    "uncounted": "host memory of compilers, tuning and loading",
}


class Term(Struct, frozen=True):
    name: str
    bytes: int
    low: int
    high: int
    basis: Basis
    parts: dict[str, int] = {}
    why: str = ""  # one line: the formula or the source of the figure

    def __post_init__(self) -> None:
        if not self.low <= self.bytes <= self.high:
            raise ValueError(f"term {self.name}: {self.low} <= {self.bytes} <= {self.high} does not hold")


def term(
    name: str, n: int, basis: Basis, *, spread: float = 0.0, why: str = "", parts: dict[str, int] | None = None
) -> Term:
    """A term whose interval is +-`spread` of its value."""
    slack = abs(round(n * spread))
    return Term(name, n, n - slack, n + slack, basis, parts or {}, why=why)
