"""SGLang's pools: what a token takes, how many there are, what stands beside them."""
