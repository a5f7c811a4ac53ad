"""SGLang commands as people have them, to a deployment and back."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from oomph import plan
from oomph.answers.plan import parse, run
from oomph.commands import parse_command, parse_text, to_command
from oomph.errors import CommandError
from oomph.facts.sglang.flags import options_of
from oomph.facts.sglang.versions import RELEASES
from oomph.sources.gpu import parse_gpus

SERVER = "python -m sglang.launch_server --model-path Qwen/Qwen3-8B"


def read(text: str, engine: str | None = None) -> dict[str, object]:
    return parse_command(text.split(), engine=engine).flags


def test_a_server_command() -> None:
    deployment = parse_command(f"{SERVER} --tp 2 --mem-fraction-static 0.85 --context-length 32K --port 1".split())
    assert (deployment.engine.name, deployment.model) == ("sglang", "Qwen/Qwen3-8B")
    assert deployment.flags == {"tp_size": 2, "mem_fraction_static": 0.85, "context_length": 32768, "port": 1}


def test_serve_takes_the_model_first() -> None:
    deployment = parse_command(["sglang", "serve", "Qwen/Qwen3-8B", "--kv-cache-dtype", "fp8_e4m3"])
    assert (deployment.model, deployment.flags) == ("Qwen/Qwen3-8B", {"kv_cache_dtype": "fp8_e4m3"})


def test_a_container_names_its_release() -> None:
    words = f"docker run --gpus all lmsysorg/sglang:v0.5.17-cu129 {SERVER} --cuda-graph-max-bs 16".split()
    deployment = parse_command(words)
    assert (deployment.engine.version, deployment.flags) == ("0.5.17", {"cuda_graph_max_bs_decode": 16})


def test_compose_and_python() -> None:
    compose = """
services:
  llm:
    image: lmsysorg/sglang:v0.5.20
    command: python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --tp-size 2
"""
    assert [d.flags for d in parse_text(compose, name="compose.yaml").values()] == [{"tp_size": 2}]
    source = 'import sglang as sgl\nllm = sgl.Engine(model_path="Qwen/Qwen3-8B", mem_fraction_static=0.8)\n'
    (deployment,) = parse_text(source, name="run.py").values()
    assert (deployment.engine.name, deployment.flags) == ("sglang", {"mem_fraction_static": 0.8})


@pytest.mark.parametrize(
    ("words", "release", "sentence"),
    [
        ("--cuda-graph-max-bs 16", "0.5.23", "ambiguous option: --cuda-graph-max-bs could match"),
        ("--attn-dp-size 2", "0.5.17", "SGLang 0.5.17 has no --attn-dp-size yet: it came with 0.5.22"),
        ("--mem-fraction-statik 0.8", "0.5.23", "did you mean --mem-fraction-static"),
        ("--tp-size two", "0.5.23", "argument --tp-size: invalid int value"),
        ("--tp-size", "0.5.23", "argument --tp-size: expected one argument"),
        ("stray", "0.5.23", "unrecognized arguments: 'stray'"),
    ],
)
def test_what_sglang_would_refuse(words: str, release: str, sentence: str) -> None:
    with pytest.raises(CommandError) as caught:
        read(f"{SERVER} {words}", f"sglang=={release}")
    assert sentence in str(caught.value)


def test_the_way_back_gives_the_same_flags() -> None:
    text = f"{SERVER} --tp 4 --dp 4 --enable-dp-attention --cuda-graph-bs-decode 1 2 4 --page-size 64 --log-level info"
    deployment = parse_command(text.split())
    again = parse_command(to_command(deployment))
    assert again.flags == deployment.flags and again.model == deployment.model


@pytest.mark.parametrize("release", RELEASES)
def test_every_release_has_the_flags_that_matter(release: str) -> None:
    names = options_of(release).by_name
    for name in ("--model-path", "--tp-size", "--mem-fraction-static", "--chunked-prefill-size", "--kv-cache-dtype"):
        assert name in names
    assert ("--cuda-graph-max-bs" in names) == (RELEASES.index(release) < RELEASES.index("0.5.20"))


def test_a_parser_that_the_release_does_not_know_is_refused() -> None:
    words = "sglang serve --model-path Qwen/Qwen3-8B --tool-call-parser kimi_k3"
    old = run(replace(parse(words.split(), "sglang==0.5.16"), gpus=parse_gpus("H100")))
    assert not old.verdict.fits
    assert "argument --tool-call-parser: invalid choice: 'kimi_k3' (choose from 'apertus2509'" in old.verdict.message
    assert run(replace(parse(words.split(), "sglang==0.5.17"), gpus=parse_gpus("H100"))).verdict.fits


def test_a_word_that_is_no_choice_of_any_release_is_refused_with_a_way_out() -> None:
    serve = "python -m sglang.launch_server --model-path Qwen/Qwen3-8B"
    for words in ("--attention-backend nosuch", "--quantization nosuch", "--load-format nosuch"):
        answer = plan(f"{serve} {words}", gpu="H100")
        assert f"argument {words.split()[0]}: invalid choice: 'nosuch'" in answer.verdict.message
        assert answer.advice is not None and answer.advice.fixes
    assert plan(f"{serve} --attention-backend fa3", gpu="H100", advise=False).fits
