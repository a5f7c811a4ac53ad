"""What a log of llama.cpp's or Ollama's tells: its stages, its context, and what follows without an error line."""
