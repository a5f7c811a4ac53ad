"""TensorRT-LLM's KV pools: the budget, its blocks, and what a request needs of them."""
