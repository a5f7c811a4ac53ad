import pytest

from oomph.commands import parse_command
from oomph.errors import CommandError


def parse(path, *words, version="0.21.0", model=("m",)):
    return parse_command(["vllm", "serve", *model, "--config", str(path), *words], engine=version)


@pytest.fixture
def config(tmp_path):
    def write(text: str, name: str = "config.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_the_command_line_wins(config):
    path = config("tensor-parallel-size: 4\nmax_model_len: 8k\nport: 12323\n")
    assert parse(path, "-tp", "2").flags == {"tensor_parallel_size": 2, "max_model_len": 8000, "port": 12323}


def test_the_model_may_stand_in_the_file(config):
    path = config("model: org/m\nenforce-eager: true\n")
    assert parse(path, model=()).model == "org/m"
    assert parse(path, model=("other",)).model == "other"


def test_false_is_dropped_before_0_28(config):
    path = config("enable-prefix-caching: false\n")
    old = parse(path, version="0.21.0")
    assert old.flags == {} and "drops 'enable-prefix-caching: false'" in old.notes[0]
    assert parse(path, version="0.28.0").flags == {"enable_prefix_caching": False}


def test_mappings_are_json_from_0_16(config):
    path = config("compilation-config:\n  cudagraph_mode: NONE\nserved-model-name: [a, b]\n")
    assert parse(path).flags == {"compilation_config": {"cudagraph_mode": "NONE"}, "served_model_name": ["a", "b"]}
    with pytest.raises(CommandError, match="not valid JSON"):
        parse(path, version="0.15.1")


def test_with_an_equals_sign_the_file_is_not_read(config):
    path = config("tensor-parallel-size: 4\n")
    d = parse_command(["vllm", "serve", "m", f"--config={path}"], engine="0.21.0")
    assert d.flags == {} and "is ignored by vLLM" in d.notes[0]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("- a\n", "not one YAML mapping"),
        ("", "not one YAML mapping"),
        ("a: [", "is not YAML at line"),
        ("1: 2\n", "the key '1' is not a flag"),
        ("data-parallel: 2\n", "ambiguous option"),
        ("nonsense-flag: 2\n", "has no flag --nonsense-flag"),
        ("a: &a [*a]\n", "contains itself"),
        ("a: !!python/object/apply:os.system ['true']\n", "is not YAML"),
    ],
)
def test_what_the_file_may_not_be(config, text, sentence):
    with pytest.raises(CommandError, match=sentence):
        parse(config(text))


def test_aliases_that_stand_for_gigabytes(config):
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    with pytest.raises(CommandError, match="more than 100000 values"):
        parse(config("\n".join(lines)))


def test_files_that_are_none(config, tmp_path):
    with pytest.raises(CommandError, match="is not there"):
        parse(tmp_path / "no.yaml")
    with pytest.raises(CommandError, match="yaml/yml type"):
        parse(config("a: 1", "config.json"))
    with pytest.raises(CommandError, match="No config file specified"):
        parse_command(["vllm", "serve", "m", "--config"], engine="0.21.0")
