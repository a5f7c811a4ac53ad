"""llama-quantize's mixtures, tensor by tensor, against the real one (a dry run) and against published file sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import toys
from native import Native

from oomph.engines.llamacpp.convert import quantize, to_gguf
from oomph.engines.llamacpp.tensors import tensors_of
from oomph.errors import CannotPlan
from oomph.facts.llamacpp.quantize import About
from oomph.sources.gguf.header import read
from oomph.sources.gguf.model import gguf_model
from oomph.sources.load import load_model

FTYPES = {
    "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "Q2_K": 10,
    "Q3_K_S": 11, "Q3_K_M": 12, "Q3_K_L": 13,
    "Q4_K_S": 14, "Q4_K_M": 15, "Q5_K_S": 16, "Q5_K_M": 17, "Q6_K": 18, "Q2_K_S": 21, "IQ3_XS": 22,
    "IQ4_NL": 25, "IQ3_S": 26, "IQ3_M": 27, "IQ4_XS": 30,
}  # fmt: skip
LINE = re.compile(r"\] +(\S+) +- \[.*?type = +(\w+), size = +[\d.]+ MiB(?: -> +[\d.]+ MiB \((\w+)\))?")
MODELS: dict[str, tuple[str, dict[str, Any], About]] = {
    "dense": ("dense", {"layers": 18}, About(18, 0, 4, imatrix=False)),
    "tied, no groups": ("qwen3", {"layers": 9, "kv": 8, "tied": True}, About(9, 0, 1, imatrix=False)),
    "8 experts": ("moe", {"layers": 9, "experts": 8, "used": 2, "expert_ff": 256}, About(9, 8, 4, imatrix=False)),
    "16 experts": ("moe", {"layers": 9, "experts": 16, "used": 2, "expert_ff": 256}, About(9, 16, 4, imatrix=False)),
    "odd rows": ("dense", {"layers": 8, "ff": 800, "embd": 288, "head": 36}, About(8, 0, 4, imatrix=False)),
    "mla": ("mla", {"layers": 5}, About(5, 4, 8, imatrix=False)),
}


@pytest.fixture(scope="module")
def native() -> Iterator[Native]:
    pytest.importorskip("llama_cpp_py_sync", reason="llama-cpp-py-sync (a prebuilt llama.cpp) is not installed")
    try:
        made = Native(gpus=0)
    except OSError as refused:
        pytest.skip(f"the prebuilt llama.cpp cannot be loaded here: {refused}")
    yield made
    made.close()


@pytest.mark.parametrize("name", MODELS)
def test_every_tensor_gets_the_real_type(native: Native, tmp_path: Path, name: str) -> None:
    kind, numbers, about = MODELS[name]
    path = toys.make(tmp_path / "model.gguf", kind, **numbers, weights="F16")
    tensors = tensors_of(gguf_model(name, read(path)))
    wrong = []
    for mixture, ftype in FTYPES.items():
        answer = native.ask(path=str(path), out=str(tmp_path / "out.gguf"), ftype=ftype)
        real = {t: (new or old).upper() for t, old, new in LINE.findall("".join(answer["lines"]))}
        if answer["error"]:  # a type without a fallback for these rows
            assert name == "odd rows", (mixture, answer["lines"][-3:])
            continue
        ours = {t.name: t.dtype for t in quantize(tensors, mixture, about)}
        assert real.keys() == ours.keys()
        wrong += [f"{mixture} {t}: {ours[t]}, llama-quantize {real[t]}" for t in real if real[t] != ours[t]]
    assert not wrong, "\n".join(wrong[:12])


# bytes of the tensors in files that were published with these mixtures
PUBLISHED = {
    ("meta-llama/Llama-3.1-8B-Instruct", "Q4_K_M"): 4_912_898_304,
    ("meta-llama/Llama-3.1-8B-Instruct", "Q8_0"): 8_532_934_912,
}


# sizes of whole files in GB as their repositories list them; a vocabulary in the header adds up to 10 MB
LISTED = {
    "Qwen/Qwen3-4B": {"BF16": 8.05, "Q8_0": 4.28, "Q6_K": 3.31, "Q5_K_M": 2.89, "Q5_K_S": 2.82, "Q4_1": 2.60,
                      "Q4_K_M": 2.50, "Q4_K_S": 2.38, "Q4_0": 2.38},
    "Qwen/Qwen3-30B-A3B": {"BF16": 61.10, "Q8_0": 32.48, "Q6_K": 25.10, "Q5_K_M": 21.74, "Q5_K_S": 21.10},
    "google/gemma-3-12b-it": {"IQ3_XS": 5.21, "Q4_0": 6.91, "Q5_K_S": 8.23},
    # rounded up to a tenth
    "microsoft/phi-4": {"Q2_K": 5.6, "IQ3_XXS": 5.9, "Q3_K_L": 8.0, "IQ4_XS": 8.0, "Q4_K_S": 8.5, "Q4_K_M": 9.2,
                        "Q5_K_M": 10.7, "Q6_K": 12.1},
}  # fmt: skip


@pytest.mark.parametrize("model", LISTED)
def test_listed_sizes(model: str) -> None:
    loaded = load_model(model)
    for quant, listed in LISTED[model].items():
        off = listed - to_gguf(loaded, quant).nbytes / 1e9
        assert -0.005 <= off <= (0.16 if model == "microsoft/phi-4" else 0.026), (quant, off)


@pytest.mark.parametrize(("model", "quant"), PUBLISHED)
def test_published_sizes(model: str, quant: str) -> None:
    made = to_gguf(load_model(model), quant)
    assert made.nbytes == pytest.approx(PUBLISHED[model, quant], rel=0.0005)


def test_a_mixture_of_somebodys_own_is_refused() -> None:
    with pytest.raises(CannotPlan, match="UD-Q4_K_XL"):
        to_gguf(load_model("Qwen/Qwen3-8B"), "UD-Q4_K_XL")
