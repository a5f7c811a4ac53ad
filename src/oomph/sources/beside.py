"""What a server needs of a model's folder beside its weights: the tokenizer, and the defaults of its requests."""

import os

from oomph.errors import OomphError
from oomph.sources.json_input import read_object
from oomph.sources.place import path_here

# transformers' tokenizer classes read one of these (VOCAB_FILES_NAMES); Mistral's own reads tekken.json
_TOKENIZERS = frozenset((
    "tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json", "vocab.txt", "spiece.model",
    "sentencepiece.bpe.model", "tekken.json", "tiktoken.model", "tokenization_kimi.py",
))  # fmt: skip
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
_OTHER_WEIGHTS = (".gguf", ".engine", ".ckpt", ".msgpack", ".h5", ".npcache", ".tensors")
_GENERATION = "generation_config.json"


def lacks_tokenizer(name: str) -> bool:
    """A folder with weights and no tokenizer; one with a config.json alone stands for a model, and is none."""
    folder = path_here(name)
    try:
        files = os.listdir(folder) if folder and os.path.isdir(folder) else []
    except OSError:
        return False
    has_weights = any(file.endswith(_WEIGHTS) for file in files)
    return has_weights and not any(file in _TOKENIZERS or file.endswith((".tiktoken", ".model")) for file in files)


def lacks_weights(name: str) -> bool:
    """A folder that stands for a model: its config.json, and nothing that an engine could load."""
    folder = path_here(name)
    try:
        files = os.listdir(folder) if folder and os.path.isdir(folder) else []
    except OSError:
        return False
    return "config.json" in files and not any(file.endswith((*_WEIGHTS, *_OTHER_WEIGHTS)) for file in files)


def answer_limit(name: str) -> int:
    """How many tokens an answer has at most where its request does not say: generation_config.json, max_new_tokens."""
    folder = path_here(name)
    path = os.path.join(folder, _GENERATION) if folder else ""
    if not path or not os.path.isfile(path):
        return 0
    try:
        limit = read_object(path).get("max_new_tokens")
    except OomphError:
        return 0
    return limit if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0 else 0
