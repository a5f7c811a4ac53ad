"""CUDA graphs: which are captured, and what they take."""
