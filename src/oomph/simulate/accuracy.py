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


def speed_error(has_experts: bool) -> SpeedError:
    return EXPERTS if has_experts else DENSE
