"""`oomph run`: plan, start, watch, explain, remember."""
