"""Logs built to hurt: every one ends in an explanation or in one sentence, in bounded time."""

from __future__ import annotations

import random
import time
from functools import partial

import pytest

from oomph.doctor.explain import explain as full_explain
from oomph.errors import InputError, OomphError
from oomph.logs.clean import clean
from oomph.logs.parse import ALL, observe
from oomph.logs.reader import RawLine, read_text

explain = partial(full_explain, plan=False)  # the rules alone; planning is tested in tests/doctor/test_verify.py

PIECES = ("a.", "1", " ", "\t", "(", "{'a': ", "1 GiB ", "=", "Process 1 has 1 GiB ", "[rank1]: ", "> ", "[", "\\",
          "|   - ", "_", "Jan 1 00:00:00 a b: ", "-1,", "<a: ")  # fmt: skip


def test_no_row_blows_up() -> None:
    """Every regex on 16 KiB of its own literal mixed with what its groups like to eat."""
    for row in ALL:
        for piece in PIECES:
            for text in (row.needle + piece * 9000, piece * 9000 + row.needle, (row.needle + piece) * 2000):
                start = time.process_time()
                row.match(text[:16384])
                assert time.process_time() - start < 1.5, (row.kind, piece)


@pytest.mark.parametrize("piece", PIECES)
def test_long_lines_are_cleaned_in_no_time(piece: str) -> None:
    start = time.process_time()
    clean(RawLine(1, piece * (262144 // len(piece))))
    assert time.process_time() - start < 3


@pytest.mark.parametrize(
    "text",
    [
        "non-default args: {" + "'a': {" * 20000,
        "non-default args: {'model': 'x', 'n': " + "9" * 100_000 + "}",
        "Initializing a V1 LLM engine (v0.21.0) with config: " + "a=[" * 60_000,
        "vllm serve " + "--a '" * 8000,
        "vllm serve m \\\n" * 3000,
        "Model loading took 9" + "9" * 5000 + " GiB memory and 1 seconds",
        "Available KV cache memory: 1e308 GiB\nAvailable KV cache memory: ...... GiB",
        "CUDA out of memory. Tried to allocate 1.2.3.4 GiB. GPU 0 has a total capacity of 0.00 GiB of which 0 bytes is",
        "To serve at least one request with the model's max seq len (0), (0.0 GiB KV cache is needed, which is larger "
        "than the available KV cache memory (0.0 GiB).",
        "GPU KV cache size: ,,, tokens\nMaximum concurrency for 0 tokens per request: 0.00x",
        "Overriding num_gpu_blocks=0 with num_gpu_blocks_override=0\nProfiling CUDA graph memory: x\n"
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 0 bytes.",
        "Add 1 padding layers, may waste at most 0.00% KV cache memory\nModel loading took 0 GiB memory",
        "Free memory on device (0.0/0.0 GiB) on startup is less than desired GPU memory utilization (0.0, 0.0 GiB)",
        "Load weight end. avail mem=0.00 GB, mem usage=0.00 GB.\n"
        "Not enough memory. Please try to increase --mem-fraction-static.",
        "version \ud800 0.21.0\nModel loading took 1 GiB",
    ],
)
def test_values_that_cannot_be(text: str) -> None:
    start = time.process_time()
    try:
        explain(text)
    except OomphError as error:
        assert isinstance(error, InputError)
    assert time.process_time() - start < 10


def test_random_mixtures_of_real_lines_never_raise() -> None:
    words = [row.needle for row in ALL if row.needle]
    words += ["0", "1.5", "GiB", "MiB", "(", ")", ":", "\n", " ", "=", "tokens", "x"]
    chance = random.Random(5)
    for _ in range(400):
        text = " ".join(chance.choice(words) for _ in range(chance.randrange(1, 120)))
        try:
            explain(text)
        except OomphError as error:
            assert "\n" not in error.message


def test_half_a_line() -> None:
    whole = (
        "ValueError: To serve at least one request with the model's max seq len (65536), (4.76 GiB KV cache is needed,"
        " which is larger than the available KV cache memory (1.56 GiB)."
    )
    for cut in range(len(whole)):
        try:
            explain("Model loading took 3.10 GiB memory and 1 seconds\n" + whole[:cut])
        except InputError:
            pytest.fail("a cut line must not make the rest unreadable")


def test_observations_are_bounded() -> None:
    text = "Available KV cache memory: 3.10 GiB\n" * 30_000
    found = observe([clean(line) for line in read_text(text).lines])
    assert len([o for o in found if o.kind == "available_kv"]) <= 4000
