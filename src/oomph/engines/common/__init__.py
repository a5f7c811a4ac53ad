"""What several engines share: PyTorch's allocator, how a model is divided, what layers create, rank plans."""
