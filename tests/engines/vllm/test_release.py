"""The release from the banner, from where the message stands in its file, or from how it is worded."""

from __future__ import annotations

import pytest

from oomph.engines.vllm.release import bounds, release
from oomph.facts.vllm.versions import NEWEST
from oomph.logs.clean import lines
from oomph.logs.parse import observe
from oomph.logs.reader import read_text


def seen(text: str):  # type: ignore[no-untyped-def]
    return observe(lines(read_text(text).lines))


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("INFO 05-30 01:45:33 [utils.py:306] ▄▄ ▄█ █ █ █ ▀▄▀ █ version 0.21.0", "0.21.0"),
        ("INFO 11-28 11:45:51 [api_server.py:1977] vLLM API server version 0.11.2", "0.11.2"),
        ("Initializing a V1 LLM engine (v0.10.2) with config: model='x'", "0.10.2"),
        ("Initializing an LLM engine (v0.5.0.post1) with config: model='x'", "0.5.0.post1"),
        ("INFO 04-24 10:21:03 [gpu_model_runner.py:4820] Model loading took 18.47 GiB memory and 1 seconds", "0.19.1"),
        ("INFO 04-24 10:21:03 [gpu_worker.py:508] Available KV cache memory: 11.05 GiB", "0.24.0"),
        ("INFO 04-24 10:21:03 [kv_cache_utils.py:1710] GPU KV cache size: 619,202 tokens", "0.21.0"),
        ("INFO 04-24 10:21:03 [gpu_worker.py:460] Available KV cache memory: 11.05 GiB", "0.21.0"),  # a build before
        ("Available KV cache memory: 11.05 GiB", ""),
        ("Initializing a V1 LLM engine (v0.1.dev20073+g8e685d198) with config: model='x'", ""),
    ],
)
def test_release(text: str, version: str) -> None:
    assert release(seen(text))[0] == version


def test_two_positions_agree() -> None:
    text = (
        "INFO 01-01 10:21:03 [gpu_model_runner.py:4566] Model loading took 18.47 GiB memory and 1 seconds\n"
        "INFO 01-01 10:21:03 [gpu_worker.py:456] Available KV cache memory: 11.05 GiB"
    )
    version, basis = release(seen(text))
    assert version == "0.18.1" and "line 1" in basis


def test_wording_bounds_the_release() -> None:
    left = bounds(seen("Profiling CUDA graph memory: PIECEWISE=15 (largest=96)"))
    assert left[0] == "0.18.0" and left[-1] == NEWEST
    assert bounds(seen("# GPU blocks: 80, # CPU blocks: 819"))[-1] == "0.10.2"
