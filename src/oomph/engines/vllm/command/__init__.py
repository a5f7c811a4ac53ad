"""What people type for vLLM, to a Deployment and back: the command, its words, LLM(...), containers."""
