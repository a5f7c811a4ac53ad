"""What holds for every input: a deployment or a sentence, and the way back is the identity."""

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from oomph.commands import detect, parse_command, parse_text, to_command, to_shell
from oomph.commands.call import TYPOGRAPHIC
from oomph.engines.vllm.command.values import LIST_KINDS, Refused, check
from oomph.errors import OomphError
from oomph.facts.vllm.flags import options_of
from oomph.facts.vllm.versions import NEWEST
from oomph.ir.deployment import Deployment, Engine

VERSIONS = ("0.11.0", "0.12.0", "0.18.1", "0.21.0", "0.25.1", NEWEST)
ODD = "".join(TYPOGRAPHIC) + "\0\r\u200b\ufeff"
TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters=ODD), max_size=12)
SCALAR = st.one_of(st.booleans(), st.integers(-(2**53), 2**53), st.floats(-1e9, 1e9), TEXT, st.none())
INSIDE = st.recursive(SCALAR, lambda x: st.lists(x, max_size=3) | st.dictionaries(TEXT, x, max_size=3), max_leaves=6)
JSON = st.dictionaries(TEXT, INSIDE, max_size=4)


def values(flag, version):
    choices = options_of(version).allowed(flag)
    known = sorted(options_of(version).keys(flag.field))
    if known:
        return st.dictionaries(st.sampled_from(known), INSIDE, max_size=3)
    kind = flag.kind
    if kind == "level":
        return st.integers(0, 3)
    if kind in ("store_true",):
        return st.just(True)
    if choices:
        one = st.sampled_from([int(c) if kind in ("int", "list[int]") else c for c in choices])
    else:
        one = {
            "bool": st.booleans(), "int": st.integers(-3, 1 << 40), "human": st.integers(1, 1 << 40),
            "human_auto": st.integers(-1, 1 << 40), "float": st.floats(-1, 1e6, allow_nan=False), "json": JSON,
            "json_or_str": st.one_of(JSON, TEXT.filter(lambda t: "{" not in t)), "list[int]": st.integers(0, 512),
            "list[float]": st.floats(0, 10), "append": TEXT, "maybe": st.one_of(st.just(True), TEXT),
            "snake": st.just("x"),
        }.get(kind, TEXT)  # fmt: skip
    if kind in LIST_KINDS:
        items = one.filter(lambda v: not str(v).startswith("-"))
        return st.lists(items.filter(lambda v: str(v) not in ("", "None")), min_size=1, max_size=3)
    if kind == "append":
        return st.lists(one, min_size=1, max_size=3)
    if kind == "ids":
        return st.lists(st.integers(0, 15), min_size=1, max_size=3)
    if flag.nullable:
        one = one.filter(lambda v: v not in ("", "None"))
    return one


@st.composite
def deployments(draw):
    version = draw(st.sampled_from(VERSIONS))
    table = options_of(version).by_field
    skipped = {"model", "spec_method", "spec_model", "spec_tokens", "chat_template"}
    names = draw(st.lists(st.sampled_from(sorted(set(table) - skipped)), max_size=6, unique=True))
    flags = {}
    for name in names:
        value = draw(values(table[name], version))
        try:
            check(table[name], value, options_of(version))
        except Refused:
            continue
        flags[name] = value
    usage = draw(st.sampled_from(["serve", "serve", "llm"]))
    if usage == "llm":
        flags = {name: value for name, value in flags.items() if table[name].group == "engine" and value is not None}
    environment = draw(
        st.dictionaries(st.sampled_from(["VLLM_ODD_ONE", "CUDA_VISIBLE_DEVICES", "NCCL_DEBUG"]), TEXT, max_size=2)
    )
    model = draw(st.sampled_from(["org/m", "/models/a b", "m", "./it's here"]))
    return Deployment(Engine("vllm", version, "--engine"), model, flags, (), environment, usage)


def _deployment_with(structured: dict[str, Any]) -> Deployment:
    engine = Engine("vllm", "0.11.0", "--engine")
    return Deployment(engine, "./it's here", {"structured_outputs_config": structured}, (), {}, "serve")


def same(a: Deployment, b: Deployment) -> bool:
    return (a.engine, a.model, a.flags, a.environment, a.usage) == (b.engine, b.model, b.flags, b.environment, b.usage)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(deployments())
def test_the_way_back_is_the_identity(d):
    again = parse_command(to_command(d), engine=d.engine)
    assert same(d, again), to_command(d)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(deployments())
@example(_deployment_with({"backend": {'"': None, "A:¡": None}}))  # what a drive of Windows looks like, between quotes
def test_the_way_back_as_shell_text_is_the_identity(d):
    if d.usage == "serve":
        (again,) = parse_text(to_shell(d), name="x.sh", engine=d.engine).values()
        assert same(d, again), to_shell(d)


WORDS = st.one_of(
    st.sampled_from(
        ["vllm", "serve", "docker", "run", "--gpus", "all", "vllm/vllm-openai:v0.21.0", "sh", "-c", "python", "-m"]
    ),
    st.sampled_from(
        ["vllm.entrypoints.openai.api_server", "--model", "--config", "-O", "-O3", "--", "-", "-cc.a", "--a.b+", "K=V"]
    ),
    st.sampled_from(sorted(options_of("0.21.0").by_name)),
    st.text(max_size=10),
)


@settings(max_examples=500, deadline=None)
@given(st.lists(WORDS, max_size=8), st.sampled_from([None, "0.21.0", "vllm==0.11.0", NEWEST, "ollama", "x"]))
def test_any_words_are_a_deployment_or_a_sentence(words, engine):
    for line in (words, ["vllm", "serve", *words], ["docker", "run", *words]):
        try:
            d = parse_command(line, engine=engine)
        except OomphError as error:
            assert str(error) and "\n" not in str(error)
        else:
            assert d.model
            assert same(d, parse_command(to_command(d), engine=d.engine))
        detect(line)


LINES = st.one_of(
    st.sampled_from(
        [
            "services:",
            "  a:",
            "    image: vllm/vllm-openai:v0.21.0",
            "    command: org/m",
            "apiVersion: v1",
            "kind: Pod",
        ]
    ),
    st.sampled_from(
        ["spec:", "  containers:", "  - image: vllm/vllm-openai", "    args: [org/m]", "vllm serve m", "LLM('m')"]
    ),
    st.sampled_from(
        ["a: &a", "  <<: *a", "- *a", "    environment:", "      - A=1", "    deploy: 1", "    gpus: 2", "---"]
    ),
    st.text(max_size=20),
)


@settings(max_examples=500, deadline=None)
@given(st.lists(LINES, max_size=8).map("\n".join), st.sampled_from(["", "a.yaml", "a.sh", "a.py", "a.yml"]))
def test_any_text_is_deployments_or_a_sentence(text, name):
    try:
        found = parse_text(text, name=name, engine="0.21.0")
    except OomphError as error:
        assert str(error)
    else:
        assert found and all(d.model for d in found.values())


@pytest.mark.parametrize(
    ("command", "engine"),
    [
        ("vllm serve m", "vllm"),
        ("docker run vllm/vllm-openai m", "vllm"),
        ("python -c LLM('m')", "vllm"),
        ("llama-server -m x.gguf -ngl 99", "llamacpp"),
        ("./build/bin/llama-server -hf x", "llamacpp"),
        ("OLLAMA_NUM_PARALLEL=4 ollama run qwen3", "ollama"),
        ("python3 -m sglang.launch_server --model-path m", "sglang"),
        ("trtllm-serve m", "trtllm"),
        ("docker run ollama/ollama", "ollama"),
        ("ls -l", ""),
        ("", ""),
    ],
)
def test_detect(command, engine):
    assert detect(command.split()) == engine


def test_a_plain_command_needs_no_yaml():
    code = (
        "import sys; from oomph.commands import parse_command;"
        "parse_command(['vllm', 'serve', 'm', '-tp', '2'], engine='0.21.0');"
        "print([m for m in ('yaml', 'argparse', 'rich', 'huggingface_hub', 'importlib.metadata') if m in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )
