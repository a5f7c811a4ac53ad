"""Flags, card and model to the settings that SGLang ends up with, its kernels and its refusals."""
