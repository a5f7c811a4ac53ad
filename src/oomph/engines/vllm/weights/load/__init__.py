"""A load played through PyTorch's allocator, place by place."""
