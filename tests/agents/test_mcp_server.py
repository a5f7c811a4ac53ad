"""`oomph mcp` as an agent meets it: through the SDK's own client, in process, over pipes and over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from oomph.cli.main import main
from oomph.sources import boundary

# imported by the tests: it takes a second, which every process would spend when it collects them
pytestmark = pytest.mark.skipif(find_spec("mcp") is None, reason="the MCP SDK is not installed")
ROOT = Path(__file__).parents[2]
LOG = "tests/doctor/fixtures/P05.log"
MOST = 6000  # characters of an answer: some 1,500 tokens
CALLS: dict[str, dict[str, Any]] = {
    "plan": {"command": "vllm serve nvidia/Gemma-4-31B-IT-NVFP4 -tp 2", "gpu": "2x RTX 5070 Ti"},
    "explain": {"file": LOG},
    "inspect": {"model": "gemma-4-31b nvfp4"},
    "fit": {"model": "Qwen/Qwen3-8B", "gpu": "T4", "context": 8192},
    "compare": {"model": "Qwen/Qwen3-8B", "gpu": "T4"},
    "models": {"gpu": "T4", "words": "qwen3 8b"},
}


@pytest.fixture(autouse=True)
def _free(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The server looks at one folder only, for as long as its process lives: here that is one test."""
    monkeypatch.chdir(ROOT)
    yield
    boundary._root = ""  # not by monkeypatch, which would put back what the server has set


def ask(work: Callable[[Any], Awaitable[Any]], root: str = ".") -> Any:
    import mcp

    from oomph.agents.server import build

    async def run() -> Any:
        async with mcp.Client(build(root)) as client:
            return await work(client)

    return asyncio.run(run())


def test_the_tools_are_typed() -> None:
    tools = {tool.name: tool for tool in ask(lambda client: client.list_tools()).tools}
    assert sorted(tools) == sorted(CALLS)
    for tool in tools.values():
        assert tool.description and tool.annotations.read_only_hint
        assert tool.input_schema["properties"] and tool.output_schema["properties"]["verdict"]


@pytest.mark.parametrize("name", CALLS)
def test_an_answer_is_whole_and_small(name: str) -> None:
    result = ask(lambda client: client.call_tool(name, CALLS[name]))
    assert not result.is_error, result.content
    assert result.structured_content["verdict"]
    assert json.loads(result.content[0].text) == result.structured_content
    assert len(result.content[0].text) < MOST


def test_a_plan_that_fails_has_stage_cause_remedy_and_basis() -> None:
    answer = ask(lambda client: client.call_tool("plan", CALLS["plan"])).structured_content
    assert answer["outcome"] == "fails" and "loading the weights" in answer["stage"] and answer["cause"]
    assert answer["remedies"] and all(r["basis"] for r in answer["remedies"])
    assert answer["remedies"][0]["command"].startswith("vllm serve")
    assert all(figure["basis"] and re.search(r"[KMG]iB", figure["size"]) for figure in answer["memory"])


def test_a_build_of_ones_own_is_planned_on_a_card_without_code() -> None:
    arguments = {"command": "vllm serve Qwen/Qwen3-0.6B", "gpu": "P40"}
    for own, field, value in ((False, "refusal", "card"), (True, "outcome", "fits")):
        words = {**arguments, "own_build": own}
        assert ask(lambda client, words=words: client.call_tool("plan", words)).structured_content[field] == value


def test_an_explanation_names_its_rule_and_what_it_rests_on() -> None:
    text = (ROOT / LOG).read_text()
    answer = ask(lambda client: client.call_tool("explain", {"log": text})).structured_content
    assert answer["rule"] == "P05" and answer["basis"] and answer["evidence"] and answer["stage"]
    page = ask(lambda client: client.read_resource(f"oomph://rules/{answer['rule']}"))
    assert page.contents[0].text.startswith("P05")
    assert "P05" in ask(lambda client: client.read_resource("oomph://rules")).contents[0].text


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("plan", {"command": "vllm serve Qwen/Qwen3-8B", "gpu": "no such card"}, "command_error"),
        ("plan", {}, "one of the two"),
        ("plan", {"command": "vllm serve Qwen/Qwen3-8B", "file": "x"}, "one of the two"),
        ("plan", {"file": "/etc/hostname", "gpu": "H100"}, "outside of the folder"),
        ("explain", {"file": "/etc/hostname"}, "outside of the folder"),
        ("explain", {"log": "nothing of any engine"}, "input_error"),
        ("inspect", {"model": "nobody knows this"}, "unknown_model"),
        ("fit", {"model": "Qwen/Qwen3-8B", "gpu": "H100", "context": -1}, "context"),
    ],
)
def test_what_is_refused_is_an_error_with_a_sentence(name: str, arguments: dict[str, Any], words: str) -> None:
    result = ask(lambda client: client.call_tool(name, arguments))
    assert result.is_error and words in result.content[0].text and "Traceback" not in result.content[0].text


def test_no_secret_is_answered() -> None:
    command = "HF_TOKEN=hf_abcDEF0123456789abcdef vllm serve Qwen/Qwen3-32B --api-key sk-verysecret12345678"
    result = ask(lambda client: client.call_tool("plan", {"command": command, "gpu": "RTX 4090"}))
    assert "sk-verysecret" not in result.content[0].text and "hf_abcDEF" not in result.content[0].text


def test_over_pipes() -> None:
    import mcp

    environment = {key: value for key, value in os.environ.items() if key != "OOMPH"}
    server = mcp.StdioServerParameters(command=sys.executable, args=["-m", "oomph", "mcp"], env=environment)

    async def run() -> Any:
        async with mcp.Client(server) as client:
            return await client.call_tool("plan", {"command": "vllm serve Qwen/Qwen3-8B", "gpu": "H100"})

    assert asyncio.run(run()).structured_content["outcome"] == "fits"


def test_over_http() -> None:
    import mcp

    port = 18765 + os.getpid() % 1000
    command = [sys.executable, "-m", "oomph", "mcp", "--http", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait(port)

        async def run() -> Any:
            async with mcp.Client(f"http://127.0.0.1:{port}/mcp") as client:
                return await client.call_tool("inspect", {"model": "Qwen/Qwen3-8B"})

        assert "parameters" in asyncio.run(run()).structured_content["verdict"]
    finally:
        process.terminate()
        process.wait(10)


def _wait(port: int) -> None:
    from urllib.error import HTTPError, URLError

    for _ in range(200):
        try:
            urlopen(f"http://127.0.0.1:{port}/", timeout=1)
        except HTTPError:
            return
        except (URLError, OSError):
            time.sleep(0.1)
    raise AssertionError("the server does not answer")


def test_without_the_package(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(SystemExit) as done:
        main(["mcp"])
    assert done.value.code == 3 and "pip install 'oomph[mcp]'" in capsys.readouterr().err
