"""Files as people have them: put together with what lies beside them, and a hidden model asked for by its name."""

from pathlib import Path

import pytest

from oomph.cli.words import entries
from oomph.commands.deployments import read_deployments
from oomph.errors import CommandError


def served(path: Path) -> list[str]:
    """The models of a file; a refusal is raised."""
    models = []
    for entry in read_deployments([str(path)]):
        if entry.error is not None:
            raise entry.error
        assert entry.deployment is not None
        models.append(entry.deployment.model)
    return models


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_makefile_includes_what_lies_beside_it(tmp_path: Path) -> None:
    write(tmp_path, "config.mk", "ORG = Qwen\n")
    assert served(write(tmp_path, "Makefile", "include config.mk\nserve:\n\tvllm serve $(ORG)/Qwen3-8B\n")) == [
        "Qwen/Qwen3-8B"
    ]


UNIT = "[Service]\nEnvironmentFile=/etc/vllm/vllm.env\nExecStart=/opt/bin/vllm serve $MODEL\n"


def test_a_unit_takes_the_environment_file_that_lies_beside_it(tmp_path: Path) -> None:
    unit = write(tmp_path, "vllm.service", UNIT)
    write(tmp_path, "vllm.env", "# what it serves\nMODEL=Qwen/Qwen3-8B\n")
    assert served(unit) == ["Qwen/Qwen3-8B"]


def test_a_drop_in_wins_over_the_unit(tmp_path: Path) -> None:
    unit = write(
        tmp_path, "vllm.service", "[Service]\nEnvironment=MODEL=Qwen/Qwen3-32B\nExecStart=vllm serve ${MODEL}\n"
    )
    write(tmp_path, "vllm.service.d/override.conf", "[Service]\nEnvironment=MODEL=Qwen/Qwen3-8B\n")
    assert served(unit) == ["Qwen/Qwen3-8B"]
    write(tmp_path, "vllm.service.d/start.conf", "[Service]\nExecStart=\nExecStart=vllm serve Qwen/Qwen3-4B\n")
    assert served(unit) == ["Qwen/Qwen3-4B"]


@pytest.mark.parametrize(
    ("name", "text", "asked"),
    [
        ("a.service", UNIT, "MODEL is set outside this file: --set MODEL="),
        ("Makefile", "serve:\n\tvllm serve $(MODEL)\n", "--set MODEL="),
        ("job.sh", 'vllm serve "$MODEL_PATH" -tp 2\n', "--set MODEL_PATH="),
        ("b@.service", "[Service]\nExecStart=vllm serve %i\n", "%i is set outside"),
        (
            "app.py",
            "import os\nfrom ray.serve.llm import LLMConfig\n"
            "c = LLMConfig(model_loading_config={'model_id': os.environ['MODEL_ID']})\n",
            "--set MODEL_ID=",
        ),
        ("c.yaml", "model_list:\n- litellm_params: {model: ollama/llama3.1}\n", "LiteLLM"),
    ],
)
def test_a_hidden_model_is_asked_for_by_its_name(tmp_path: Path, name: str, text: str, asked: str) -> None:
    with pytest.raises(CommandError, match=asked.replace("(", r"\(")):
        served(write(tmp_path, name, text))


def test_what_set_says_is_the_variable(tmp_path: Path) -> None:
    (entry,), _ = entries((str(write(tmp_path, "a.service", UNIT)),), settings=("MODEL=Qwen/Qwen3-4B",))
    assert entry.deployment is not None
    assert entry.deployment.model == "Qwen/Qwen3-4B"


def test_a_template_is_filled_with_its_charts_values(tmp_path: Path) -> None:
    write(tmp_path, "values.yaml", "model: Qwen/Qwen3-14B\nimage: {tag: v0.11.0}\n")
    template = write(
        tmp_path,
        "templates/deployment.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: llm}\nspec:\n  template:\n    spec:\n"
        "      containers:\n"
        '        - name: vllm\n          image: "vllm/vllm-openai:{{ .Values.image.tag }}"\n'
        "          args: [--model, {{ .Values.model | quote }}, --port, {{ .Values.port | default 8000 | quote }}]\n",
    )
    assert served(template) == ["Qwen/Qwen3-14B"]
    write(tmp_path, "values.yaml", "image: {tag: v0.11.0}\n")
    with pytest.raises(CommandError):
        served(template)


TEXTS = {
    "compose.yaml": "services:\n  base:\n    image: vllm/vllm-openai:v0.11.0\n"
    "  chat:\n    extends: base\n    command: --model Qwen/Qwen3-8B\n",
    "Dockerfile": "FROM vllm/vllm-openai:v0.11.0\nARG MODEL=Qwen/Qwen3-8B\n"
    "ENV ID=${MODEL}\nENTRYPOINT vllm serve ${ID}\n",
    "job.sh": "ORG=Qwen\napptainer run --nv docker://vllm/vllm-openai:v0.10.1 --model $ORG/Qwen3-8B\n",
    "spec.sh": "S=$(cat <<'EOF'\n{\"method\":\"ngram\",\"num_speculative_tokens\":4}\nEOF\n)\n"
    'vllm serve Qwen/Qwen3-8B --speculative-config "$S"\n',
    "supervisord.conf": "[program:vllm]\ncommand=/opt/bin/vllm serve Qwen/Qwen3-8B\nautorestart=true\n",
    "job.sbatch": "#!/bin/bash\n#SBATCH -N 2\nvllm serve Qwen/Qwen3-8B --pipeline-parallel-size $SLURM_JOB_NUM_NODES\n",
    "map.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {MODEL: Qwen/Qwen3-8B}\n---\n"
    "apiVersion: v1\nkind: Pod\n"
    "metadata: {name: p}\nspec:\n  containers:\n  - image: vllm/vllm-openai:v0.10.0\n"
    "    envFrom: [{configMapRef: {name: c}}]\n"
    "    command: [vllm, serve, $(MODEL)]\n",
    "play.yml": "- hosts: gpu\n  vars: {model: Qwen/Qwen3-8B}\n  tasks:\n  - name: run\n    docker_container:\n"
    '      image: vllm/vllm-openai:v0.11.0\n      command: "--model {{ model }}"\n',
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_a_value_is_followed_to_where_it_is_set(tmp_path: Path, name: str) -> None:
    assert served(write(tmp_path, name, TEXTS[name])) == ["Qwen/Qwen3-8B"]


@pytest.mark.parametrize(
    ("name", "text", "asked"),
    [
        ("tp.sh", "TP=$(nvidia-smi --list-gpus | wc -l)\nvllm serve Qwen/Qwen3-8B -tp ${TP}\n", "--set TP="),
        ("cut.sh", "m=$(echo a:b | cut -d ':' -f 2)\nvllm serve $m --port 8000\n", "--set m="),
        ("job.sh", "#SBATCH --gres={{ gres }}\nvllm serve {{ model }} --port 8000\n", "--set model="),
        ("tick.sh", "M=`cat model.txt`\nvllm serve $M\n", "--set M="),
    ],
)
def test_what_a_program_prints_is_asked_for(tmp_path: Path, name: str, text: str, asked: str) -> None:
    with pytest.raises(CommandError) as refused:
        served(write(tmp_path, name, text))
    assert asked in refused.value.message


def test_a_default_stands_where_a_program_may_print_nothing(tmp_path: Path) -> None:
    text = 'M="$(env_get MODEL)"\nM="${M:-Qwen/Qwen3-8B}"\nvllm serve "$M"\n'
    assert served(write(tmp_path, "run.sh", text)) == ["Qwen/Qwen3-8B"]


def test_a_repository_of_one_file_says_its_quantisation(tmp_path: Path) -> None:
    one = write(tmp_path, "one.sh", "llama-server -hf ggml-org/Qwen2.5-Coder-3B-Q8_0-GGUF -ngl 99\n")
    assert served(one) == ["ggml-org/Qwen2.5-Coder-3B-Q8_0-GGUF:Q8_0"]
    many = write(tmp_path, "many.sh", "llama-server -hf unsloth/Qwen3-8B-GGUF -ngl 99\n")
    assert served(many) == ["unsloth/Qwen3-8B-GGUF:Q4_K_M"]
