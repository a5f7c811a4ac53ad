"""Plans against what real llama.cpp printed: loads on a software Vulkan device and on an H200, --fit's decisions.

tests/truth/llamacpp has the rows and the headers of the files (tools/convert_llamacpp.py); the files are written again
with holes for weights. Rows of --fit and "measured" ones are llama.cpp's own measurement without allocating.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import toys
from msgspec.structs import replace

from oomph.answers.bare_plan import run
from oomph.commands import parse_command
from oomph.engines.llamacpp import planner
from oomph.engines.llamacpp.compute import VERIFIED
from oomph.engines.llamacpp.measure import measure
from oomph.ir.plan import Plan
from oomph.sources.gpu import parse_gpus
from oomph.units import MIB

TRUTH = Path(__file__).parents[2] / "truth" / "llamacpp"
CONTEXT = 456  # MiB that a card without a name holds beside the buffers: the software device has no such thing


def stored(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress((TRUTH / name).read_bytes()).splitlines()]


ROWS = stored("rows.jsonl.gz")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder, headers = tmp_path_factory.mktemp("models"), {row["name"]: row for row in stored("models.jsonl.gz")}

    @cache
    def written(name: str) -> Path:
        path = folder / f"{name}.gguf"
        tensors = [(tensor, tuple(shape), dtype) for tensor, shape, dtype in headers[name]["tensors"]]
        toys.write(path, headers[name]["metadata"], tensors)
        return path

    return written


def planned(row: dict[str, Any], file: Callable[[str], Path]) -> Plan:
    flags = [str(file(Path(word).stem)) if word.startswith("m/") else word for word in row["flags"]]
    cuda = row["backend"] == "CUDA"
    device = [] if cuda else ["-dev", ",".join(f"Vulkan{index}" for index in range(row["gpus"]))]
    command = ["llama-server", "-m", str(file(row["model"])), *flags, *device]
    gpus = parse_gpus("H200" if cuda else f"{row['gpus']}x{(row['mib'] + CONTEXT) / 1024:.6f}GiB")
    if cuda and row["mib"]:
        gpus = tuple(replace(gpu, used_bytes=gpu.total_bytes - row["mib"] * MIB) for gpu in gpus)
    neutral = {} if row.get("reordered") else {"GGML_VK_DISABLE_GRAPH_OPTIMIZE": "1"}
    deployment = parse_command(command, engine="llama.cpp==v0.5.0")
    with pytest.MonkeyPatch.context() as patch:
        if not cuda:  # the software device always says that it is empty
            patch.setattr(planner, "free_beside", lambda _, free: free)
        if row["kind"] == "measured":  # llama.cpp counted as --fit does
            patch.setattr(planner, "measure", partial(measure, fitting=True))
        return run(replace(deployment, gpus=tuple(gpus), environment={**deployment.environment, **neutral}))


def buffers(plan: Plan, backend: str) -> dict[str, float]:
    names = {"model": "weights", "KV": "kv_cache", "RS": "state", "compute": "compute"}
    ours = {
        f"{backend}{index} {kind}": rank.terms[term].bytes / MIB
        for index, rank in enumerate(plan.ranks)
        for kind, term in names.items()
    }
    host = plan.resolved["host"]
    return ours | {"host compute": host["compute"] / MIB, "host output": host["output"] / MIB}


def real_buffers(row: dict[str, Any]) -> dict[str, float]:
    if row["kind"] == "measured":
        both = {"Host": ("host compute",)}
        return {
            name: float(value)
            for device, (model, context, compute) in row["mib_of"].items()
            for name, value in (
                (("host compute", compute),)
                if device in both
                else ((f"{device} model", model), (f"{device} KV", context), (f"{device} compute", compute))
            )
        }
    out: dict[str, float] = {}
    for key, value in row["buffers"].items():
        device, kind = key.split()
        on_host = device.endswith("_Host") or device == "CPU"
        if on_host and kind in ("compute", "output"):
            out[f"host {kind}"] = out.get(f"host {kind}", 0.0) + value
        elif not on_host and not device.startswith("CPU"):
            out[key] = value
    return out


def test_every_buffer(file: Callable[[str], Path]) -> None:
    """Of the GPUs within 1 MiB or 1 %, of the host within 5 %, in 998 of 1,000; none of the GPUs' is below by more."""
    wrong: list[tuple[Any, ...]] = []
    below: list[tuple[Any, ...]] = []
    count = 0
    for row in (row for row in ROWS if row["kind"] != "fit"):
        ours, real = buffers(planned(row, file), row["backend"]), real_buffers(row)
        if row["kind"] == "measured":
            for key in [key for key in ours if key.endswith(" RS")]:
                ours[key[:-2] + "KV"] += ours.pop(key)
            ours = {key: float(int(value)) for key, value in ours.items() if key in real}
        for key, value in ours.items():
            count += 1
            printed = real.get(key, 0.0)
            slack = max(1.001, (0.05 if key.startswith("host") else 0.01) * printed)
            if abs(value - printed) > slack:
                wrong.append((row["id"], key, printed, round(value, 2)))
                if value < printed and not key.startswith("host"):
                    below.append(wrong[-1])
    assert count > 1200
    assert not below, below
    assert len(wrong) < 0.002 * count, (len(wrong), count, wrong[:10])


@pytest.mark.parametrize("row", [row for row in ROWS if row["kind"] == "fit"], ids=lambda row: row["id"])
def test_what_fit_decides(row: dict[str, Any], file: Callable[[str], Path]) -> None:
    resolved = planned(row, file).resolved
    assert abs(resolved["n_ctx"] - row["context"]) <= 0.01 * row["context"]
    whole = "..." not in row["overrides"]
    expected = [word for word in row["overrides"] if word != "..."]
    assert resolved["overrides"][: None if whole else len(expected)] == expected
    if row["layers"] < 0:
        assert resolved["offloaded"] == resolved["layers"]
    else:
        assert resolved["offloaded"] == row["layers"]
        assert not any(row["split"]) or resolved["layers_per_gpu"] == row["split"]


def test_architectures_called_exact_have_rows() -> None:
    """A narrow interval is earned: each architecture that has one was loaded for real, and nothing of it was wrong."""
    loaded = {row["metadata"]["general.architecture"] for row in stored("models.jsonl.gz")}
    assert loaded - {"hy_v3"} == VERIFIED
