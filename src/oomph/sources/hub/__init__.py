"""A model on the Hugging Face hub: its files over HTTP, and a sentence for everything that can go wrong."""
