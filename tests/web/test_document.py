"""The one-file report: it says what the plan says, asks nobody for anything, and runs nothing."""

import re
from pathlib import Path
from typing import Any

import pytest
from browser import Watched, faults

from oomph.answers.plan import plan
from oomph.errors import InputError
from oomph.web.document import document, write_document
from oomph.web.page import page_of

COMMANDS = {
    "fits": ("vllm serve Qwen/Qwen3-8B --api-key hunter2", "H100"),
    "short": ("vllm serve Qwen/Qwen3-32B -tp 2", "2x RTX 3090"),
    "llama.cpp": ("llama-server -hf unsloth/Qwen3-8B-GGUF:Q4_K_M -c 8192", "RTX 4090"),
}


def page(made):
    return document(page_of(made), "a plan")


@pytest.fixture(scope="module", params=COMMANDS)
def made(request):
    command, gpu = COMMANDS[request.param]
    return page(plan(command, gpu=gpu))


def test_nothing_comes_from_outside(made):
    assert "default-src 'none'" in made and "<script" not in made and "style=" not in made
    assert not re.search(r"(?:src|href)=|url\(|@import", made)
    assert "hunter2" not in made


def test_what_it_shows(made):
    assert "<svg" in made and "The basis of each term on GPU 0" in made and 'class="fill weights"' in made
    assert "FITS" in made or "WILL NOT START" in made
    assert "What works" in made or "What gives more" in made or "llama.cpp" in made


def test_names_are_text():
    text = page(plan("vllm serve Qwen/Qwen3-8B --served-model-name '<b>x</b>'", gpu="H100"))
    assert "<b>x</b>" not in text and "&lt;b&gt;x&lt;/b&gt;" in text


def test_a_place_that_cannot_be_written(tmp_path: Path):
    with pytest.raises(InputError, match="cannot be written"):
        write_document(page_of(plan("vllm serve Qwen/Qwen3-8B", gpu="H100")), "a plan", str(tmp_path))


SERVICES = "services:\n" + "".join(
    f"  {name}:\n    image: vllm/vllm-openai:v0.21.0\n    command: --model {model} --max-model-len 8192\n"
    for name, model in (("chat", "Qwen/Qwen3-8B"), ("large", "Qwen/Qwen3-32B"))
)
LOG = "INFO 07-01 12:00:00 [__init__.py:1] vLLM API server version 0.21.0\n" + (
    "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`.\n"
)
EVERY_COMMAND = {
    "plan": ["plan", "--gpu", "RTX 4090", "FILES/compose.yaml"],
    "check": ["check", "--gpu", "RTX 4090", "FILES/compose.yaml"],
    "explain": ["explain", "FILES/server.log"],
    "inspect": ["inspect", "Qwen/Qwen3-8B"],
    "what-if": ["what-if", "--gpu", "RTX 4090", "--", "vllm", "serve", "Qwen/Qwen3-8B"],
    "diff": ["diff", "--gpu", "H100", "--to-gpu", "H200", "--", "vllm", "serve", "Qwen/Qwen3-8B"],
    "fit": ["fit", "Qwen/Qwen3-0.6B", "--only", "--gpu", "RTX 4090"],
    "models": ["models", "qwen3-8b", "--gpu", "RTX 4090"],
    "gpus": ["gpus", "5070"],
    "gpus MODEL": ["gpus", "Qwen/Qwen3-0.6B", "--only", "--card", "RTX 4090"],
    "compare": ["compare", "Qwen/Qwen3-8B", "--gpu", "RTX 4090"],
}


@pytest.mark.parametrize("name", EVERY_COMMAND)
def test_every_command_writes_its_view(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    from oomph.cli.main import main

    (tmp_path / "compose.yaml").write_text(SERVICES)
    (tmp_path / "server.log").write_text(LOG)
    command, *words = EVERY_COMMAND[name]
    path = tmp_path / "answer.html"
    with pytest.raises(SystemExit) as ended:
        main([command, "--html", str(path), *(word.replace("FILES", str(tmp_path)) for word in words)])
    text = path.read_text()
    assert ended.value.code in (None, 0, 1, 4) and capsys.readouterr().out
    assert "default-src 'none'" in text and 'class="view' in text and not re.search(r"(?:src|href)=|url\(", text)
    if name in ("plan", "check"):
        assert text.count('class="view plan"') == 2 and "What works" in text


def shown(tab: Watched, path: Path) -> Any:
    """The file in a browser; it says nothing and asks nobody."""
    tab.console.clear()
    tab.requests.clear()
    tab.page.set_viewport_size({"width": 400, "height": 800})
    tab.page.emulate_media(color_scheme="dark")
    tab.page.goto(path.as_uri())
    return tab.page


def test_a_browser_shows_it_under_its_policy_and_axe_finds_nothing(made, tmp_path: Path, tab: Watched):
    pytest.importorskip("axe_playwright_python")
    path = tmp_path / "plan.html"
    path.write_text(made)
    page = shown(tab, path)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(22, 24, 28)"
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert tab.console == [] and tab.requests == [path.as_uri()]
    assert faults(page) == []


def test_a_simulation_in_a_file_draws_its_charts_under_its_policy(tmp_path: Path, tab: Watched):
    from oomph.simulate import api
    from oomph.simulate.workloads import Arrivals, Shape

    setup = api.prepare("vllm serve Qwen/Qwen3-0.6B", gpu="H100")
    load = api.Load(Shape(200, 50), Arrivals(users=8))
    path = tmp_path / "load.html"
    write_document(page_of(api.judge(setup, api.spread(setup, load), api.Target())), "a load", str(path))
    assert "unsafe" not in path.read_text().split("<style>")[0]
    shown(tab, path).wait_for_selector("canvas")
    assert tab.console == [] and tab.requests == [path.as_uri()]
