"""A checkpoint's quantisation config: which scheme it gives to which linear layer."""
