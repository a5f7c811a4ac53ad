"""Flags, GPU and model to the settings that vLLM ends up with, its kernels and its refusals."""
