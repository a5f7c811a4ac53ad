"""A worker of NVIDIA Dynamo (`python -m dynamo.vllm --model ...`) as the command of the engine that it starts.

Its flags are the engine's with some of Dynamo's own between them (components/src/dynamo/ENGINE, 0.6): which worker of
a graph it is, how it finds the others. What the engine does not know is Dynamo's, and a note says so.
"""

from collections.abc import Mapping, Sequence

from oomph.commands.call import Call, shown
from oomph.engines.registry import engine_named

_NAMES_MODEL = ("--model", "--model-path")
_FILES = {"--extra-engine-args": "--extra_llm_api_options"}  # Dynamo's name for the file of an engine's options


def is_worker(words: Sequence[str]) -> bool:
    return "-m" in words[1:-1] and words[words.index("-m", 1) + 1].startswith("dynamo.")


def served(words: Sequence[str], environment: Mapping[str, str]) -> Call:
    at = words.index("-m", 1) + 1
    engine = engine_named(words[at].partition(".")[2])
    model, own, left = "", list[str](), list[str]()
    rest = list(words[at + 1 :])
    while rest:
        name, sign, value = rest.pop(0).partition("=")
        values = [value] if sign else []
        while not sign and rest and not rest[0].startswith("--"):
            values.append(rest.pop(0))
        if name in _NAMES_MODEL and values:
            model = values[0]
            continue
        spellings = (_FILES.get(name, name), name.replace("-", "_").replace("__", "--", 1))
        spelling = next((one for one in spellings if engine.knows_flag(one) or one in _FILES.values()), "")
        if spelling:
            own += [spelling, *values]
        else:
            left.append(name)
    notes = [f"{shown(' '.join(left))}: Dynamo's own, not the engine's"] if left else []
    return Call((*engine.serve_command(model or "$MODEL"), *own), dict(environment), notes=tuple(notes))
