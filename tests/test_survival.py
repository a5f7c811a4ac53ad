"""What `fit` and `gpus` recommend never lies above what posted starts on such a machine survived."""

from __future__ import annotations

import re

import pytest

import oomph
from machine_truth import rows
from oomph.sources.gpu import parse_gpus

DEFAULT = 0.92  # of the newest release
_SHARE = re.compile(r"--gpu-memory-utilization ([0-9.]+)")


def _survived(card: str) -> float:
    """The highest utilisation with which a posted server on such a machine started and kept its host."""
    shares = [0.0]
    for row in rows():
        if row["command"] and row["engine"] == "vllm" and row["outcome"] == "started" and not row["host_lost"]:
            stated = _SHARE.search(row["command"])
            if stated and parse_gpus(row["gpu"])[0].name.split(" (")[0] == card:
                shares.append(float(stated[1]))
    return max(shares)


CASES = [
    ("GB10", "openai/gpt-oss-120b"), ("GB10", "nvidia/Qwen3.6-35B-A3B-NVFP4"), ("Thor", "openai/gpt-oss-20b"),
    ("Strix Halo 128GB gtt 124GiB", "Qwen/Qwen3-VL-8B-Instruct"), ("R9700", "meta-llama/Llama-3.1-8B-Instruct"),
    ("2x R9700", "openai/gpt-oss-20b"),
]  # fmt: skip


@pytest.mark.parametrize(("gpu", "model"), CASES, ids=[f"{gpu}-{model.rpartition('/')[2]}" for gpu, model in CASES])
def test_fit_stays_below_what_survived(gpu: str, model: str) -> None:
    pick = oomph.fit(model, gpu, context=8192).to_dict()["pick"]
    assert pick is not None
    highest = _survived(parse_gpus(gpu)[0].name.split(" (")[0])
    assert 0 < pick["flags"].get("gpu_memory_utilization", DEFAULT) <= highest


def test_gpus_stays_below_what_survived() -> None:
    answer = oomph.gpus("openai/gpt-oss-20b", context=8192, cards=("GB10", "Jetson Thor"), most=0).to_dict()
    assert answer["cards"]
    for card in answer["cards"]:
        stated = _SHARE.search(card["command"])
        assert stated and float(stated[1]) <= _survived(card["gpu"])
