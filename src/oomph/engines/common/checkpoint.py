"""The checkpoint that a command names, for the engines that read GGUF files beside repositories."""

import re

from oomph.ir import Model
from oomph.sources.load import load_once
from oomph.sources.place import path_here

_FILE_OF_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+/.+", re.ASCII)


def load_checkpoint(name: str) -> Model:
    """A GGUF file that is not on this machine says by its name what it is, as it does to llama.cpp's plans."""
    is_absent_file = name.lower().endswith(".gguf") and not path_here(name) and not _FILE_OF_REPOSITORY.fullmatch(name)
    if not is_absent_file:
        return load_once(name)
    from oomph.engines.llamacpp.source import gguf_for

    return gguf_for(name)[0]
