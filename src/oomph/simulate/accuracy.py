"""How far the simulated times were from published ones, by kind of model and by what links its GPUs: speeds of other
people that were written down first and predicted once (tests/truth/speeds-second.jsonl, docs/simulate.md). Every screen
that shows a speed takes its error from here."""

from typing import Literal

from msgspec import Struct

Layout = Literal["one", "nvlink", "pcie"]  # of the GPUs that share every layer

FEW = 5  # published speeds of a kind, below which a figure is called rough


class SpeedError(Struct, frozen=True):
    kind: str  # of deployment, as a reader says it
    numbers: int  # published speeds; 0 = none of this engine
    near: int  # so many of them were within a factor of 1.3
    close: int  # ... of 1.9
    nine_of_ten: float  # nine of ten were within this factor
    first_tokens: int  # published times to the first token
    first_near: int  # so many of them were within a factor of 2

    @property
    def is_rough(self) -> bool:
        """Fewer than half were within 1.9, or there are too few to say."""
        return self.numbers < FEW or 2 * self.close < self.numbers

    def sentence(self) -> str:
        """Within a sentence of its own, or as the end of another."""
        if not self.numbers:
            return f"no published speed was compared; twice {self.kind} is assumed, a factor of {self.nine_of_ten:g}"
        near = f"{self.near} were" if self.near != 1 else "one was"
        if not self.near:
            near = "none was"
        more = f", {self.close} within 1.9" if self.close > self.near else ""
        rough = ": a rough estimate" if self.is_rough else ""
        return f"of {self.numbers} published speeds of {self.kind} {near} within 1.3 times{more}{rough}"


# Judged on 16 Nov 2026 in three rounds. Where fewer than ten were, `nine_of_ten` is from all rows of the kind.
ERRORS: dict[tuple[bool, Layout], SpeedError] = {
    (False, "one"): SpeedError("dense models on one GPU", 15, 11, 14, 1.51, 11, first_near=11),
    (False, "nvlink"): SpeedError("dense models on GPUs with NVLink", 2, 1, 2, 1.7, 1, first_near=1),
    (False, "pcie"): SpeedError("dense models on GPUs without NVLink", 2, 0, 2, 1.5, 2, first_near=2),
    (True, "one"): SpeedError("models with experts on one GPU", 19, 15, 19, 1.41, 13, first_near=11),
    (True, "nvlink"): SpeedError("models with experts on GPUs with NVLink", 4, 2, 2, 2.0, 1, first_near=0),
    (True, "pcie"): SpeedError("models with experts on GPUs without NVLink", 1, 0, 1, 1.9, 0, first_near=0),
}

# llama.cpp and Ollama, one user (tests/truth/speeds-local.jsonl, tools/accuracy_llamacpp_speed.py --local), 18 Nov
# 2026: 46 rows written down first, predicted once; five name models or cards that are not known. Lengths of prompts
# are not given, 50 tokens were assumed. Five rows with experts say little of nine in ten: their factor is wider.
LLAMACPP_DENSE = SpeedError("dense models with llama.cpp and one user", 36, 32, 34, 1.65, 19, first_near=14)
LLAMACPP_EXPERTS = SpeedError("models with experts with llama.cpp and one user", 5, 5, 5, 1.6, 4, first_near=2)

# SGLang (tools/accuracy_speed.py --sglang), 18 Nov 2026: 38 rows written down first, predicted once with the shares of
# the peak that were set on vLLM's speeds. Rows on several GPUs are not held.
SGLANG_DENSE = SpeedError("dense models on one GPU with SGLang", 30, 28, 29, 1.23, 28, first_near=27)
SGLANG_EXPERTS = SpeedError("models with experts on one GPU with SGLang", 8, 6, 8, 1.41, 8, first_near=8)


def speed_error(has_experts: bool, layout: Layout) -> SpeedError:
    return ERRORS[has_experts, layout]


def taken_over(has_experts: bool, layout: Layout) -> SpeedError:
    """For an engine or a vendor none of whose speeds was compared: vLLM's error on NVIDIA's cards, twice as far."""
    other = speed_error(has_experts, layout)
    return SpeedError(
        f"vLLM's error on NVIDIA's cards for {other.kind}", 0, 0, 0, 2 * other.nine_of_ten - 1, 0, first_near=0
    )
