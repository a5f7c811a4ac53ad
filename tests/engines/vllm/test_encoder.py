"""Peaks of multimodal encoders against vLLM 0.32.0's own.

`tests/truth/encoders.jsonl`: its processors built the profiling batch, its model class encoded it on tensors of a
size without data, and the bytes alive at once were counted; "_c": not eager. No GPU took part in it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from oomph.engines.vllm.profile.encoder import Encoder, encoder
from oomph.engines.vllm.run import Run
from oomph.facts.vllm.encoders import DEFAULT, PATCHES
from oomph.sources.build import build_model

ROWS = [json.loads(line) for line in (Path(__file__).parents[2] / "truth" / "encoders.jsonl").read_text().splitlines()]
CONFIGS = {row["model"]: row["config"] for row in ROWS if "config" in row}
_WITHIN = 0.06  # of a tower whose tensors were counted; half to twice otherwise


def encoded(name: str, flags: dict[str, Any], engine: str = "vllm==0.32.0") -> Encoder:
    from oomph.answers.bare_plan import parse, with_gpus

    words = ["vllm", "serve", "m"]
    for flag, value in flags.items():
        dashed = f"--{flag.replace('_', '-')}"
        words += [dashed] if value is True else [dashed, value if isinstance(value, str) else json.dumps(value)]
    deployment = with_gpus(parse(words, engine), "H200")
    return encoder(Run(build_model("m", CONFIGS[name]), deployment))


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_peaks_are_vllms(row: dict[str, Any]) -> None:
    own = encoded(row["model"], row["flags"])
    traced = PATCHES.get(CONFIGS[row["model"]]["architectures"][0], DEFAULT).traced
    assert own.traced == traced
    assert (1 - _WITHIN if traced else 0.5) * row["peak"] <= own.peak <= (1 + _WITHIN if traced else 2) * row["peak"]
    if traced:
        assert own.outputs == pytest.approx(row["outputs"], rel=0.02)


def test_pixels_come_as_bytes_where_the_gpu_normalises_them() -> None:
    flags = {"max_model_len": 32768, "max_num_batched_tokens": 8192}
    raw, plain = encoded("qwen3vl-8b", flags), encoded("qwen3vl-8b", {**flags, "no_mm_device_do_normalize": True})
    assert plain.resident - plain.outputs == 2 * (raw.resident - raw.outputs)
    assert encoded("qwen3vl-8b", flags, "vllm==0.31.0") == plain


def test_a_mask_of_all_patches_ended_with_a_release() -> None:
    flags = {"max_model_len": 16384, "max_num_batched_tokens": 8192}
    old, new = (encoded("mistral-small-3.2", flags, f"vllm=={release}").peak for release in ("0.28.0", "0.29.0"))
    assert old > new + 24_200**2


@given(
    name=st.sampled_from(sorted(CONFIGS)),
    context=st.integers(512, 32_768),
    batched=st.integers(512, 65_536),
    seqs=st.integers(1, 512),
    limit=st.integers(1, 8),
)
@settings(max_examples=60, deadline=None)
def test_more_room_for_items_never_takes_less(name: str, context: int, batched: int, seqs: int, limit: int) -> None:
    longest = {"llava-1.5-7b": 4096, "qwen2-audio-7b": 8192}.get(name, 32_768)
    most = {"image": limit, "video": limit, "audio": limit}
    flags = {
        "max_model_len": min(context, longest),
        "max_num_batched_tokens": max(batched, min(context, longest)),
        "max_num_seqs": seqs,
        "limit_mm_per_prompt": most,
    }
    own = encoded(name, flags)
    assert own.peak > 0
    assert own.outputs <= own.resident
    more = encoded(name, {**flags, "max_num_batched_tokens": 2 * flags["max_num_batched_tokens"]})
    assert more.peak >= own.peak
    assert encoded(name, {**flags, "limit_mm_per_prompt": {**most, "image": 0, "video": 0, "audio": 0}}) == Encoder()


def test_a_video_of_internvl_fills_the_context() -> None:
    """internvl.py get_num_frames_with_most_features: the longer the context, the more frames are profiled."""
    short, long = (
        encoded("internvl3-8b-hf", {"max_model_len": n, "max_num_batched_tokens": 8192}) for n in (8192, 32768)
    )
    assert long.peak == pytest.approx(4 * short.peak, rel=0.01)
    images = {"max_model_len": 32768, "max_num_batched_tokens": 8192, "limit_mm_per_prompt": {"video": 0}}
    assert encoded("internvl3-8b-hf", images).peak < long.peak / 4
