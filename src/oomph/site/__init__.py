"""The catalogue as a static site: a page per checkpoint and per card, every figure a plan."""
