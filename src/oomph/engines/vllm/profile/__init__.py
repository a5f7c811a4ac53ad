"""The profiling pass: its batch, and which tensors are alive at once."""
