"""oomph inside vLLM, against stand-ins for every hooked function: what is printed, recorded and left unchanged."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import oomph
from oomph.doctor import explain
from oomph.logs.reader import read_paths

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "plugins" / "vllm" / "src"))
import standin
from oomph_vllm import hooks

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "plugins" / "vllm" / "src"
QWEN3_8B = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288,
    "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "vocab_size": 151936, "max_position_embeddings": 40960, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip


class Played:
    def __init__(self, output: str, cache: Path) -> None:
        self.output, self.cache = output, cache

    def record(self, name: str) -> dict[str, Any]:
        (file,) = self.cache.glob(f"runs/*/{name}.json")
        return dict(json.loads(file.read_text()))


def play(tmp_path: Path, *, version: str = "0.32.0", mode: str = "", **asked: Any) -> Played:
    standin.write(tmp_path / "site", version)
    model = tmp_path / "model"
    model.mkdir(exist_ok=True)
    (model / "config.json").write_text(json.dumps(QWEN3_8B))
    cache = tmp_path / "cache"
    paths = os.pathsep.join(map(str, (tmp_path / "site", PLUGIN, ROOT / "src")))
    environment = {**os.environ, "PYTHONPATH": paths, "OOMPH_CACHE": str(cache), "OOMPH": mode}
    run = subprocess.run(
        [sys.executable, "-m", "play", json.dumps({"model": str(model), **asked})],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return Played(run.stdout, cache)


@pytest.mark.parametrize("version", ["0.21.0", "0.32.0"])
def test_a_healthy_start_is_planned_measured_and_learnt(tmp_path: Path, version: str) -> None:
    played = play(tmp_path, version=version)
    assert "oomph: FITS" in played.output
    assert re.search(r"held by others now: 0\.53 GiB of 23\.52 GiB \(1\.00 GiB by \w+, pid 1\)", played.output)
    assert "oomph: weights: planned 15.27 GiB, measured 15.27 GiB, inside its interval" in played.output
    assert re.search(r"left when ready: planned \d\.\d\d GiB, measured 1\.00 GiB", played.output)
    assert played.output.rstrip().endswith("result 1985 output")
    measured = played.record("start")["measured"]
    assert measured["available_kv"] == 4684610274 and measured["captured"] == 500000000
    assert (played.cache / "learnt.db").exists()


def test_a_start_that_cannot_work_says_so_and_goes_on(tmp_path: Path) -> None:
    played = play(tmp_path, max_model_len=40000)
    assert "oomph: WILL NOT START at the KV cache check" in played.output
    assert "oomph: this starts: --" in played.output
    assert "result 1985 output" in played.output


def test_refuse_stops_it_before_the_load(tmp_path: Path) -> None:
    played = play(tmp_path, mode="refuse", max_model_len=40000)
    assert "raised Refused oomph: WILL NOT START" in played.output
    assert not list(played.cache.glob("runs/*/rank0.json"))


RELEASES = ["0.20.0", *(f"0.{minor}.0" for minor in range(21, 33))]
HOOKED = """
import importlib, json, sys, oomph_vllm
oomph_vllm.register()
from oomph_vllm.hooks import HOOKS
found = []
for hook in HOOKS:
    owner, _, method = hook.name.rpartition(".")
    module = importlib.import_module(hook.module)
    function = getattr(getattr(module, owner) if owner else module, method)
    found.append([hook.module, hook.name, getattr(function, "_oomph", None) == hook])
print(json.dumps(found))
"""


@pytest.mark.parametrize("release", RELEASES)
def test_every_hook_of_every_release_is_there_once(tmp_path: Path, release: str) -> None:
    standin.write(tmp_path / "site", release)
    paths = os.pathsep.join(map(str, (tmp_path / "site", PLUGIN, ROOT / "src")))
    environment = {**os.environ, "PYTHONPATH": paths, "OOMPH_CACHE": str(tmp_path / "cache"), "OOMPH": "watch"}
    run = subprocess.run([sys.executable, "-c", HOOKED], env=environment, capture_output=True, text=True, check=True)
    rows = json.loads(run.stdout)
    assert len(rows) == len(hooks.HOOKS) and all(is_hooked for *_, is_hooked in rows)


@pytest.mark.parametrize("stage", ["", "cudagraph_capture"])
def test_the_first_model_runner_is_watched_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str) -> None:
    monkeypatch.setenv("VLLM_USE_V2_MODEL_RUNNER", "0")
    played = play(tmp_path, version="0.24.0", fails_at=stage)
    if stage:
        assert played.record("death-rank0")["death"]["stage"] == stage
    else:
        assert played.record("start")["measured"]["captured"] == 500000000


DEATHS = {
    "weights_load": ("while loading the weights", "model.layers.7.mlp.gate_up_proj"),
    "kv_check": ("at the KV cache check", ""),
    "cudagraph_capture": ("while capturing CUDA graphs", ""),
    "runtime_request": ("while serving", ""),
}


def is_explained(played: Played) -> bool:
    """`oomph explain` reads the record as it reads a log."""
    (file,) = played.cache.glob("runs/*/death-rank0.json")
    explanation = oomph.explain(file)
    return explanation.failed and (explanation.model or "").endswith("model")


@pytest.mark.parametrize("stage", DEATHS)
def test_a_death_names_its_stage_and_its_part_and_passes_on(tmp_path: Path, stage: str) -> None:
    played = play(tmp_path, fails_at=stage)
    words, part = DEATHS[stage]
    assert f"oomph: DIED {words}" in played.output
    assert "\nraised " in played.output
    death = played.record("death-rank0")["death"]
    assert death["stage"] == stage and part in death["part"]
    assert is_explained(played)
    assert death["gpu"]["free"] == 2**30 and death["holders"][0]["bytes"] == 2**30
    if stage == "runtime_request":
        assert "the largest, req-b, has 2043 tokens and 2 images or clips" in played.output


LOGGED = """
import logging
for text in ("Received request %s: params: %s", "Request %s details: prompt: %r", "Generated response %s: output: %r"):
    logging.getLogger("vllm.entrypoints.logger").info(text, "id-1", "a patient's name")
logging.getLogger("vllm.engine").info("Initializing a V1 LLM engine")
"""


def test_a_record_holds_no_prompts_secrets_or_paths_of_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "sk-1234567890abcdef")
    monkeypatch.setenv("VLLM_CACHE_ROOT", "/home/jane/cache")
    monkeypatch.setenv("VLLM_USE_V2_MODEL_RUNNER", "1")
    played = play(tmp_path, engines=["weights_load"], first="import oomph_vllm; oomph_vllm.register()" + LOGGED)
    record = played.record("death-rank0")
    text = json.dumps(record)
    assert "Initializing a V1 LLM engine" in text and record["environment"] == {"VLLM_USE_V2_MODEL_RUNNER": "1"}
    assert not any(word in text for word in ("patient", "sk-1234", "jane"))


@pytest.mark.parametrize("is_asked", [True, False])
def test_a_snapshot_is_written_where_one_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_asked: bool
) -> None:
    path = tmp_path / "memory.pickle"
    if is_asked:
        monkeypatch.setenv("OOMPH_SNAPSHOT", str(path))
    record = play(tmp_path, fails_at="runtime_request").record("death-rank0")
    assert path.exists() is is_asked
    assert record.get("snapshot") == (str(path) if is_asked else None)


@pytest.mark.parametrize(
    ("stage", "words"), [("weights_load", "while loading the weights"), ("serving", "while serving")]
)
def test_a_kill_is_told_by_the_process_that_waits(tmp_path: Path, stage: str, words: str) -> None:
    played = play(tmp_path, killed_at=stage)
    assert f"oomph: the engine's process ended {words} without an error of its own" in played.output
    assert "\nraised " in played.output and played.output.count("without an error") == 1
    (file,) = played.cache.glob("runs/*/killed.json")
    explanation = oomph.explain(file)
    assert explanation.stage == "host_ram" and explanation.cause.id == "H03" and words in explanation.evidence[0].text


def test_a_record_is_explained_on_the_card_as_it_was_found(tmp_path: Path) -> None:
    """A neighbour that held 6 GiB at the start is there when remedies are planned."""
    first = "import pynvml as p; p.nvmlDeviceGetMemoryInfo = lambda h, version=None: p.held(6 << 30)"
    played = play(tmp_path, fails_at="kv_check", first=first)
    (card,) = played.record("death-rank0")["gpus"]
    assert 5 << 30 < card["used_bytes"] <= 6 << 30
    (file,) = played.cache.glob("runs/*/death-rank0.json")
    (gpu,) = explain.read_raw(read_paths([str(file)]), None, "").gpus
    assert (gpu.name, gpu.used_bytes) == ("RTX 4090", card["used_bytes"])


def test_off_and_quiet(tmp_path: Path) -> None:
    off = play(tmp_path, mode="0")
    assert "oomph" not in off.output and not off.cache.exists()
    quiet = play(tmp_path, mode="quiet", fails_at="weights_load")
    assert "oomph" not in quiet.output and quiet.record("death-rank0")["death"]["stage"] == "weights_load"


WITHOUT_WAITING = "import oomph_vllm.serving as s; s.LOOK_EVERY_S = 0"


def test_watching_while_it_serves_says_each_thing_once(tmp_path: Path) -> None:
    played = play(tmp_path, mode="watch", steps=3, first=WITHOUT_WAITING)
    assert played.output.count("serving needed 2.00 GiB for a step, profiling 1.19 GiB") == 1
    assert played.output.count("the KV cache is full in 80 steps if the 4 running requests write all they may") == 1
    assert played.output.count("80 preemptions since the last look, with 4 requests running and 0 waiting") == 1
    assert played.output.count("scheduled output") == 3


def test_nobody_looks_while_it_serves_unless_asked(tmp_path: Path) -> None:
    played = play(tmp_path, steps=3, first=WITHOUT_WAITING)
    assert "scheduled output" in played.output and "serving needed" not in played.output
    assert "preemptions" not in played.output


TROUBLES = {
    "throws": "import oomph_vllm.state as s; s.gpu = lambda device: 1 / 0",
    "hangs": "import time, oomph_vllm.state as s, oomph_vllm.hooks as h; h.READING_LIMIT_S = 0.2; "
    "s.gpu = lambda device: time.sleep(60)",
    "finds nothing": "import vllm.v1.worker.gpu_worker as w; del w.Worker.sleep, w.Worker.wake_up",
    "another oomph": "import sys, types; sys.modules['oomph'] = types.ModuleType('oomph')",
    "an oomph that does not learn": "import sys; sys.modules['oomph.machine.learn'] = None",
    "read-only": "import os; os.environ['OOMPH_CACHE'] = '/proc/nowhere'",
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_trouble_of_ours_leaves_vllm_as_it_is(tmp_path: Path, trouble: str) -> None:
    played = play(tmp_path, first=TROUBLES[trouble])
    assert "result 1985 output" in played.output
    assert played.output.count("stopped watching") == (trouble in ("throws", "hangs"))


@pytest.mark.parametrize("trouble", ["another oomph", "an oomph that does not learn"])
def test_a_death_is_recorded_whatever_oomph_is_there(tmp_path: Path, trouble: str) -> None:
    played = play(tmp_path, first=TROUBLES[trouble], fails_at="runtime_request")
    assert played.record("death-rank0")["death"]["stage"] == "runtime_request"


def test_a_death_may_be_read_for_longer_than_a_start() -> None:
    code = (
        "import time, oomph_vllm.hooks as h\n"
        "h.READING_LIMIT_S, h.DEATH_LIMIT_S, ends = 0.05, 60, []\n"
        "def slowly(*_): time.sleep(0.3); ends.append(1)\n"
        "h.safely(slowly, h.HOOKS[0], (), MemoryError())\n"
        "print(ends, h._Trouble.is_over)\n"
        "h.safely(slowly, h.HOOKS[0], (), None)\n"
        "print(ends, h._Trouble.is_over)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (PLUGIN, ROOT / "src")))}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.split("\n")[:2] == ["[1] False", "[1] True"]


def test_being_there_is_light(tmp_path: Path) -> None:
    """Time and memory of `register` in a process that never starts an engine: 15 MB, and 60 ms where nobody is busy."""
    standin.write(tmp_path / "site", "0.32.0")
    code = (
        "import logging, resource, time, oomph_vllm\n"
        "before = resource.getrusage(resource.RUSAGE_SELF)\n"
        "oomph_vllm.register()\n"
        "after = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, after.ru_maxrss - before.ru_maxrss)"
    )
    paths = os.pathsep.join(map(str, (tmp_path / "site", PLUGIN, ROOT / "src")))
    environment = {**os.environ, "PYTHONPATH": paths, "OOMPH_CACHE": str(tmp_path / "cache")}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    seconds, kilobytes = map(float, run.stdout.split())
    assert seconds <= 0.18 and kilobytes <= 15_000


def test_the_page_of_the_documentation_is_the_plugins_own() -> None:
    assert (ROOT / "docs" / "plugin.md").read_text() == (ROOT / "plugins" / "vllm" / "README.md").read_text()
