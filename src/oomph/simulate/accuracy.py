"""How far the simulated times were from published ones: measured once on the half of tests/truth/speeds.jsonl that
nothing was set on (`python tools/accuracy_speed.py --judge`), by kind of model."""

from __future__ import annotations

from msgspec import Struct


class SpeedError(Struct, frozen=True):
    kind: str  # of model, as a reader says it
    numbers: int  # published speeds
    seven_of_ten: float  # so many were within this factor
    nine_of_ten: float
    worst: float
    first_token: float  # eight of ten times to the first token were within this factor
    first_tokens: int  # published ones


# 15 Nov 2026, 20 and 31 speeds that could be simulated: 17 and 24 within 1.3, 20 and 29 within 1.9.
DENSE = SpeedError("dense models", 20, 1.16, 1.31, 1.46, 1.80, 11)
EXPERTS = SpeedError("models with experts", 31, 1.22, 1.75, 2.37, 1.83, 15)

# llama.cpp, decoding of one user (tools/accuracy_llamacpp_speed.py --judge), 15 Nov 2026: dense 1.03, 1.13, 1.18 and
# 1.26 times off; of models with experts one speed is held, 1.11 times off, so that their factor is chosen wider.
LLAMACPP_DENSE = SpeedError("dense models with llama.cpp", 4, 1.18, 1.26, 1.26, 2.0, 0)
LLAMACPP_EXPERTS = SpeedError("models with experts with llama.cpp", 1, 1.5, 1.6, 1.6, 2.0, 0)


def taken_over(has_experts: bool) -> SpeedError:
    """For an engine none of whose speeds was compared: vLLM's error, twice as far, from no published speed."""
    other = speed_error(has_experts)
    return SpeedError(
        f"vLLM's error for {other.kind}", 0, 2 * other.seven_of_ten - 1, 2 * other.nine_of_ten - 1, 2 * other.worst - 1,
        2 * other.first_token - 1, 0,
    )  # fmt: skip


def speed_error(has_experts: bool) -> SpeedError:
    return EXPERTS if has_experts else DENSE
