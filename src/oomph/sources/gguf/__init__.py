"""GGUF files: the header, and the Model that it describes."""
