"""What people type for TensorRT-LLM, to a Deployment and back: the command, its options file, LLM(...)."""
