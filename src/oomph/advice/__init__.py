"""What would help: every change that a person can make, planned once, the same for every command."""

from oomph.advice.advise import advise, judge_all
from oomph.advice.judge import Judge

__all__ = ["Judge", "advise", "judge_all"]
