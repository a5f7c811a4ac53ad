"""pack(): several services on one machine. Do they fit together, on which card, in which order, with which share?

problem.py   what is decided, as plain integers, and the check that every answer must pass
exact.py     OR-Tools CP-SAT (the extra `pack`): the best answer, proven
plain.py     the same without it: a bounded search, which says that it proves nothing
services.py  deployments to the options of the problem, by planning them
pack.py      the answer: placement, order and shares, planned again one after the other
"""
