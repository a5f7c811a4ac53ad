"""oomph foresees and explains GPU memory in LLM serving."""
