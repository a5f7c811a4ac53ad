"""What a rule is written with: the case that it looks at, what it says of it, and the advice that rules share."""

from oomph.doctor import advice
from oomph.doctor.case import Case
from oomph.doctor.rule import Candidate, Rejected, Remedy, Rule, Tier, rule
from oomph.doctor.words import levers

__all__ = ("Candidate", "Case", "Rejected", "Remedy", "Rule", "Tier", "advice", "levers", "rule")
