# ruff: noqa: E501 - seeds are lines
import atheris

with atheris.instrument_imports(include=["oomph"]):
    from oomph.commands import justfile, makefile, texts
    from oomph.commands.call import Around

from common import mutate_text, run

SEEDS = [
    b"M ?= Qwen/Qwen3-8B # a\nA := $(M)$(M)\nB += ${A}\n.PHONY: serve\nserve: dep\n\t@vllm serve $(M) \\\n\t  --seed $(B) $$HOME\n",
    b"A0=x\nA1=$(A0)$(A0)\nA2=$(A1)$(A1)\nA3=$(A2)$(A2)\nall::\n\tvllm serve m/m --seed $(A3)\n",
    b"ifeq ($(A),1)\nB = x\nelse ifdef C\nB = y\nelse\nB = z\nendif\nserve:\n\tvllm serve m/m --seed $(B)\n",
    b'model := "org/m"\nserve m="org/m" *args:\n    vllm serve {{m}} {{args}}\n',
]


def one(data: bytes) -> None:
    text = data.decode("utf-8", "replace").replace("\0", "")
    makefile.recipes(text, {})
    justfile.recipes(text, {})
    texts.calls(text, "Makefile", {}, Around())


if __name__ == "__main__":
    run(one, SEEDS, mutate_text)
