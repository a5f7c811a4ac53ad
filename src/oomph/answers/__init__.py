"""From a question to its answer: plan, check, compare, diff, inspect, report."""
