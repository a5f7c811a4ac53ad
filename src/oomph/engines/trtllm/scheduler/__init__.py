"""TensorRT-LLM's schedulers for `simulate`: who runs (admission.py), and on which blocks (*_pool.py)."""
