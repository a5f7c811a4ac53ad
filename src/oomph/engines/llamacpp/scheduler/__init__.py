"""llama-server's slots for `simulate`: who gets which (slots.py), the prompts kept beside them, and time (loop.py)."""
