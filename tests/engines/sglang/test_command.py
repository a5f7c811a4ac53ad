"""SGLang commands as people have them, to a deployment and back."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from oomph import plan
from oomph.answers.plan import parse, run
from oomph.commands import parse_command, parse_text, to_command
from oomph.errors import CommandError
from oomph.facts.sglang.flag_rows import CONSTANTS
from oomph.facts.sglang.flags import options_of
from oomph.facts.sglang.versions import RELEASES
from oomph.sources.gpu import parse_gpus

SERVER = "python -m sglang.launch_server --model-path Qwen/Qwen3-8B"


def read(text: str, engine: str | None = None) -> dict[str, object]:
    return parse_command(text.split(), engine=engine).flags


def test_a_server_command() -> None:
    deployment = parse_command(f"{SERVER} --tp 2 --mem-fraction-static 0.85 --context-length 32Ki --port 1".split())
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
        ("--context-length 32K", "0.5.23", "argument --context-length: Invalid integer value: '32K'. Use a plain"),
        ("--context-length 1.5Ki", "0.5.23", "argument --context-length: Invalid integer value"),
        ("--context-length 32k", "0.5.9", "argument --context-length: invalid int value: '32k'"),
        ("stray", "0.5.23", "unrecognized arguments: 'stray'"),
    ],
)
def test_what_sglang_would_refuse(words: str, release: str, sentence: str) -> None:
    with pytest.raises(CommandError) as caught:
        read(f"{SERVER} {words}", f"sglang=={release}")
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("text", "tokens"),  # utils/common.py human_readable_int, the same in every release that has it
    [("4096", 4096), ("32k", 32_000), ("25.6k", 25_600), ("32Ki", 32_768), ("1M", 10**6), ("1Mi", 1 << 20)],
)
def test_sizes_have_the_suffixes_of_sglang(text: str, tokens: int) -> None:
    assert read(f"{SERVER} --context-length {text}", "sglang==0.5.10") == {"context_length": tokens}


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


@pytest.mark.parametrize("release", RELEASES)
def test_every_name_is_one_that_argparse_can_have(release: str) -> None:
    """The releases of a name stand beside it in the rows, and never in it."""
    assert [name for name in options_of(release).by_name if not re.fullmatch(r"--[a-z][a-z0-9-]*", name)] == []


@pytest.mark.parametrize(
    ("name", "first", "last"),  # the releases' own parsers: arg_groups/fields/*.py, server_args.py before 0.5.20
    [
        ("--enable-hierarchical-cache", "0.5.7", "0.5.23"),
        ("--enable-hicache", "0.5.23", "0.5.23"),
        ("--hisparse-config", "0.5.10", "0.5.23"),
        ("--hierarchical-sparse-attention-extra-config", "0.5.8", "0.5.23"),
        ("--smg-http-sidecar-port", "0.5.16", "0.5.23"),
        ("--enable-breakable-cuda-graph", "0.5.11", "0.5.19"),
        ("--dsa-prefill-cp-mode", "0.5.13", "0.5.19"),
        ("--enable-dsa-prefill-context-parallel", "0.5.13", "0.5.19"),
        ("--cuda-graph-tc-compiler", "0.5.14", "0.5.21"),
    ],
)
def test_a_name_is_there_from_its_first_release_to_its_last(name: str, first: str, last: str) -> None:
    having = [release for release in RELEASES if name in options_of(release).by_name]
    assert having == list(RELEASES[RELEASES.index(first) : RELEASES.index(last) + 1])


@pytest.mark.parametrize("name", sorted(CONSTANTS))
def test_an_old_switch_sets_the_backend_that_it_stands_for(name: str) -> None:
    words = f"{SERVER} {name} --tp 2"
    assert read(words, "sglang==0.5.17") == {"cuda_graph_backend_prefill": CONSTANTS[name], "tp_size": 2}
    with pytest.raises(CommandError, match=f"gone since SGLang 0.5.20: it is .*prefill {CONSTANTS[name]} now"):
        read(words, "sglang==0.5.20")


def test_prompts_without_graphs_take_no_graph_memory() -> None:
    with_graphs, without, switched = (
        run(replace(parse(f"{SERVER} {flag}".split(), "sglang==0.5.17"), gpus=parse_gpus("H100"))).ranks[0]
        for flag in ("", "--disable-piecewise-cuda-graph", "--cuda-graph-backend-prefill disabled")
    )
    assert without.terms == switched.terms
    assert 0 < without.terms["cudagraph"].bytes < with_graphs.terms["cudagraph"].bytes


def test_a_parser_that_the_release_does_not_know_is_refused() -> None:
    words = "sglang serve --model-path Qwen/Qwen3-8B --tool-call-parser kimi_k3"
    old = run(replace(parse(words.split(), "sglang==0.5.16"), gpus=parse_gpus("H100")))
    assert not old.verdict.fits
    assert "argument --tool-call-parser: invalid choice: 'kimi_k3' (choose from 'apertus2509'" in old.verdict.message
    assert run(replace(parse(words.split(), "sglang==0.5.17"), gpus=parse_gpus("H100"))).verdict.fits


def test_a_word_that_is_no_choice_of_any_release_is_refused_with_a_way_out() -> None:
    serve = "python -m sglang.launch_server --model-path Qwen/Qwen3-8B"
    options = ("attention-backend", "quantization", "load-format", "schedule-policy", "grammar-backend", "lora-backend")
    for words in (f"--{option} nosuch" for option in options):
        answer = plan(f"{serve} {words}", gpu="H100")
        assert f"argument {words.split()[0]}: invalid choice: 'nosuch'" in answer.verdict.message
        assert answer.advice is not None and answer.advice.fixes
    for words in ("--attention-backend fa3", "--schedule-policy lpm", "--max-lora-chunk-size 64"):
        assert plan(f"{serve} {words}", gpu="H100", advise=False).fits
