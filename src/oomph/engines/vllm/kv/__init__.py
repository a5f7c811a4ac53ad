"""The KV cache: layers, pages, groups, blocks, the check, and what is printed."""
