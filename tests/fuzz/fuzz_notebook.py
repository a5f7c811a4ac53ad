# ruff: noqa: E501 - seeds are lines
import json

import atheris

with atheris.instrument_imports(include=["oomph"]):
    from oomph.commands import texts
    from oomph.commands.call import Around

from common import mutate_json, run

PYTHON = "from vllm import LLM\nN = 2 ** 3 // 4\nllm = LLM(model='org/m', tensor_parallel_size=N, **{'seed': 1})\n"
SEEDS = [
    json.dumps({"nbformat": 4, "metadata": {}, "cells": [{"cell_type": "code", "source": lines}]}).encode()
    for lines in (["!vllm serve org/m ", "--seed 1"], PYTHON, "%%bash\nvllm serve org/m\n", "import subprocess\nsubprocess.run(['vllm', 'serve', 'm/m'])")
]  # fmt: skip


def one(data: bytes) -> None:
    texts.calls(data.decode("utf-8", "replace").replace("\0", ""), "a.ipynb", {}, Around())


if __name__ == "__main__":
    run(one, SEEDS, mutate_json)
