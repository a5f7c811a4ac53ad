"""What starts on a machine really took, and what later plans make of it.

start.py   a log (or vLLM's own startup plan, or its /metrics) to the figures of one start that worked
place.py   where they are kept
store.py   how they are kept, listed and forgotten
apply.py   a plan whose terms were measured before: narrower, and it says so
"""
