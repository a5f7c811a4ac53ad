"""What a rule is written with: the case that it looks at, and what it says of it."""

from oomph.doctor.case import Case
from oomph.doctor.rule import Finding, Rule, Tier, rule
from oomph.engines.common.case_levers import Named

__all__ = ("Case", "Finding", "Named", "Rule", "Tier", "rule")
