"""Texts as people have them: manuals, notebooks, Makefiles, Dockerfiles, units, jobs, other systems' shells."""

import json

import pytest

from oomph import plan
from oomph.commands import parse_command, parse_text
from oomph.commands.neighbours import with_neighbours
from oomph.errors import CommandError


def one(text, name="", **kwargs):
    (d,) = parse_text(text, name=name, **kwargs).values()
    return d


def test_a_manual_with_a_manifest_in_it():
    text = """# Serving

```yaml
apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      containers:
        - name: v
          image: vllm/vllm-openai:v0.21.0
          args: ["--model", "org/m", "-tp", "2"]
          resources: {limits: {nvidia.com/gpu: 2}}
```

```bash
kubectl apply -f d.yaml
```
"""
    d = one(text, "README.md")
    assert (d.model, d.flags, d.gpu_count, d.engine.version) == ("org/m", {"tensor_parallel_size": 2}, 2, "0.21.0")


def test_shell_blocks_of_a_manual_share_their_variables():
    d = one("First:\n```bash\nexport M=org/m\n```\nthen\n```sh\nvllm serve $M --enforce-eager\n```\n")
    assert (d.model, d.flags) == ("org/m", {"enforce_eager": True})


def test_inline_code():
    assert one("Start it by `vllm serve org/m -tp 2` and wait, don't panic.").model == "org/m"


def test_several_commands_are_named_with_their_models(tmp_path):
    path = tmp_path / "notes.md"
    path.write_text("```\nvllm serve a/m\n```\n\n```\nvllm serve b/m\n```\n")
    with pytest.raises(CommandError, match=r"holds 2 serve commands: 1 \(a/m\), 2 \(b/m\)"):
        parse_command([str(path)])
    assert parse_command([f"{path}:2"]).model == "b/m"


MAKEFILE = """\
MODEL ?= org/m # or another
TP := 2
FLAGS = --enforce-eager
FLAGS += --max-model-len 8k

.PHONY: serve chat
serve:
\t@echo "serving $(MODEL)"
\tCUDA_VISIBLE_DEVICES=0,1 vllm serve $(MODEL) \\
\t\t--tensor-parallel-size $(TP) $(FLAGS)

chat: serve
\tvllm chat
"""


def test_a_makefile():
    ((target, d),) = parse_text(MAKEFILE, name="Makefile").items()
    assert (target, d.model, d.gpu_count) == ("serve", "org/m", 2)
    assert d.flags == {"tensor_parallel_size": 2, "enforce_eager": True, "max_model_len": 8000}


@pytest.mark.parametrize(
    ("text", "model", "version"),
    [
        ('FROM vllm/vllm-openai:v0.11.0\nCMD ["--model", "org/m"]\n', "org/m", "0.11.0"),
        ('FROM vllm/vllm-openai:v0.21.0\nCMD ["org/m", "-tp", "2"]\n', "org/m", "0.21.0"),
        ("FROM ubuntu\nRUN pip install vllm==0.19.1\nENV M=org/m\nENTRYPOINT vllm serve $M\n", "org/m", "0.19.1"),
        ("ARG V=v0.20.0\nFROM vllm/vllm-openai:${V} AS base\nFROM base\nENTRYPOINT vllm serve ${M:-org/m}\n", "org/m",
         "0.20.0"),
    ],
)  # fmt: skip
def test_a_dockerfile(text, model, version):
    d = one(text, "Dockerfile")
    assert (d.model, d.engine.version) == (model, version)


def notebook(*cells):
    made = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    return json.dumps({"cells": made, "nbformat": 4})


def test_a_notebook():
    d = one(notebook("!pip install vllm==0.26.0", "!vllm serve org/m \\\n  --dtype half"), "n.ipynb")
    assert (d.model, d.flags, d.engine.version) == ("org/m", {"dtype": "half"}, "0.26.0")
    d = one(notebook("%pip install vllm", "from vllm import LLM\nllm = LLM('org/m', seed=1)"), "n.ipynb")
    assert (d.model, d.usage) == ("org/m", "llm")
    with pytest.raises(CommandError, match="not a notebook"):
        parse_text('{"cells": 3}', name="n.ipynb")


PYTHON = """
import subprocess, sys, argparse, os
parser = argparse.ArgumentParser()
parser.add_argument("--model-id", default="org/m")
args = parser.parse_args()
GPUS, FAST = 2, False
cmd = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", args.model_id, "--port", str(port)]
cmd += ["--tensor-parallel-size", str(GPUS)]
if FAST:
    cmd.append("--enforce-eager")
cmd.extend(["--max-model-len", os.environ.get("LEN", "4096")])
subprocess.Popen(cmd)
"""


def test_a_server_that_python_starts():
    d = one(PYTHON, "start.py")
    assert (d.model, d.flags) == ("org/m", {"tensor_parallel_size": 2, "max_model_len": 4096})
    assert any("--port is '$port'" in note for note in d.notes)
    d = one('M = "org/m"\nimport os\nos.system(f"vllm serve {M} -tp 2")', "start.py")
    assert (d.model, d.flags) == ("org/m", {"tensor_parallel_size": 2})
    with pytest.raises(CommandError, match=r"the model is '\$model'"):
        one('import subprocess\ndef go(model):\n    subprocess.run(["vllm", "serve", model])', "start.py")


def test_defaults_of_a_python_program():
    d = one(
        "import argparse\nfrom vllm import LLM\np = argparse.ArgumentParser()\n"
        'p.add_argument("--model", default="org/m")\np.add_argument("--eager", action="store_true")\n'
        "a = p.parse_args()\ndef main(tp: int = 4):\n"
        "    LLM(model=a.model, enforce_eager=a.eager, tensor_parallel_size=tp)\n"
    )
    assert (d.model, d.flags) == ("org/m", {"enforce_eager": False, "tensor_parallel_size": 4})


def test_another_package_s_llm_is_not_ours():
    for text in ("x = openai.LLM(model='gpt-4o-mini')", "from nano import LLM\nLLM('org/m')"):
        with pytest.raises(CommandError, match="no serve command"):
            parse_text(text, name="a.py")


def test_ray_serve():
    d = one(
        "from ray.serve.llm import LLMConfig\n"
        "LLMConfig(model_loading_config=dict(model_id='x', model_source='org/m'), accelerator_type='L4',\n"
        "          engine_kwargs=dict(tensor_parallel_size=2))",
        "s.py",
    )
    assert (d.model, d.flags) == ("org/m", {"tensor_parallel_size": 2})


SKY = """
resources:
  accelerators: L40S:2
  image_id: docker:vllm/vllm-openai:v0.21.0
envs:
  MODEL: org/m
run: |
  vllm serve $MODEL --tensor-parallel-size $SKYPILOT_NUM_GPUS_PER_NODE
"""


def test_a_skypilot_task():
    d = one(SKY, "task.yaml")
    assert (d.model, d.flags, d.gpu_count) == ("org/m", {"tensor_parallel_size": 2}, 2)
    assert d.engine.version == "0.21.0"


def test_the_values_of_vllm_s_chart_and_of_others():
    values = """
servingEngineSpec:
  modelSpec:
    - name: a
      repository: vllm/vllm-openai
      tag: v0.21.0
      modelURL: org/m
      requestGPU: 2
      vllmConfig: {maxModelLen: 8192, enablePrefixCaching: true, extraArgs: [--seed, "1"]}
"""
    d = one(values, "values.yaml")
    assert d.flags == {"max_model_len": 8192, "enable_prefix_caching": True, "seed": 1} and d.gpu_count == 2
    with pytest.raises(CommandError, match="values of a Helm chart"):
        parse_text("image: {repository: a/vllm, tag: v1}\nmodel: org/m\n", name="values.yaml")
    with pytest.raises(CommandError, match="a Helm template"):
        parse_text("kind: Pod\napiVersion: v1\nimage: {{ .Values.image }}\n", name="pod.yaml")


def test_documents_that_a_script_writes():
    unit = "cat > /etc/v.service <<'EOF'\n[Service]\nExecStart=/opt/bin/vllm serve org/m -tp 2\n"
    unit += 'Environment="CUDA_VISIBLE_DEVICES=0,1"\nEOF\nsystemctl start v\n'
    d = one(unit)
    assert (d.model, d.gpu_count) == ("org/m", 2)
    pod = "kubectl apply -f - <<EOF\napiVersion: v1\nkind: Pod\nspec:\n  containers:\n"
    pod += "    - image: vllm/vllm-openai:v0.21.0\n      args: [--model=org/m]\nEOF\n"
    assert one(pod).model == "org/m"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('@echo off\nset M=C:\\m\\a.gguf\nllama-server.exe ^\n  -m "%M%" ^\n  -c 8192\npause', "a.bat"),
        ("$M = 'C:\\m\\a.gguf'\n& \"C:\\x y\\llama-server.exe\" `\n  -m $M `\n  -c 8192", "a.ps1"),
        ("llama-server -m C:\\m\\a.gguf -c 8192", ""),
        ("PS C:\\m> llama-server.exe -m C:\\m\\a.gguf -c 8192", ""),
    ],
)
def test_windows(text, name):
    d = one(text, name)
    assert (d.engine.name, d.model, d.flags["ctx_size"]) == ("llamacpp", "C:\\m\\a.gguf", 8192)


def test_a_script_s_own_arguments(tmp_path):
    path = tmp_path / "start.sh"
    path.write_text('MODEL=$1\nTP=${2:-"1"}\nvllm serve "$MODEL" -tp $TP --port ${3:-8000}\n')
    d = parse_command([str(path), "org/m", "2"])
    assert (d.model, d.flags["tensor_parallel_size"], d.flags["port"]) == ("org/m", 2, 8000)
    assert parse_command(["bash", str(path), "org/m"]).flags["tensor_parallel_size"] == 1
    with pytest.raises(CommandError, match=r"the model is \$1, an argument of the script"):
        parse_command([str(path)])


def test_variables_from_outside(tmp_path):
    path = tmp_path / "start.sh"
    path.write_text("vllm serve $MODEL -tp $TP\n")
    (tmp_path / ".env").write_text('export MODEL="org/m"  # ours\nTP=4\n')
    assert parse_command([str(path)]).flags == {"tensor_parallel_size": 4}
    d = parse_command([str(path)], outside={"TP": "8"})
    assert (d.model, d.flags, d.environment) == ("org/m", {"tensor_parallel_size": 8}, {})


def test_placeholders_and_variables_that_nothing_sets():
    d = one("vllm serve org/m --api-key <your key> --port $PORT".replace("<your key>", "<your-key>"))
    assert d.flags == {"api_key": ["<your-key>"]} and any("--port" in note for note in d.notes)
    with pytest.raises(CommandError, match=r"--max-model-len is '\$LEN', which nothing sets"):
        one("vllm serve org/m --max-model-len $LEN")


def test_what_only_names_an_engine_is_no_command():
    d = one('pip install vllm\necho "starting vllm serve"\npkill -f vllm\nvllm serve org/m\nvllm bench serve')
    assert d.model == "org/m"
    assert one("ollama list\nollama pull qwen3:8b\nollama run qwen3:8b\nollama ps").model == "qwen3:8b"


def test_images_before_0_11_1_start_the_api_server():
    d = parse_command(["docker", "run", "vllm/vllm-openai:v0.10.2", "--model", "org/m"])
    assert (d.model, d.engine.version) == ("org/m", "0.10.2")
    with pytest.raises(CommandError, match="takes the model as --model"):
        parse_command(["docker", "run", "vllm/vllm-openai:v0.10.2", "org/m"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("docker run vllm/vllm-openai:v0.21.0 vllm serve org/m", "leave 'vllm serve' out"),
        ("docker run --gpus all vllm/vllm-openai bash -c 'vllm serve org/m'", "would stop at 'bash'"),
        ("docker run lmsysorg/sglang:latest --model-path org/m", "starts no server by itself"),
        ("docker run nvcr.io/nvidia/tensorrt-llm/release:1.2.0 --tp_size 2", "starts no server by itself"),
        ("FROM vllm/vllm-openai:v0.21.0\nCMD vllm serve org/m\n", "would stop at '/bin/sh'"),
        (
            "services:\n  a:\n    image: vllm/vllm-openai:v0.21.0\n    command: vllm serve org/m\n",
            "leave 'vllm serve' out",
        ),
    ],
)
def test_an_official_image_ends_at_words_that_it_does_not_take(text, words):
    with pytest.raises(CommandError, match=words):
        one(text)


@pytest.mark.parametrize(
    ("image", "gpu", "starts"),
    [
        ("vllm/vllm-openai:v0.21.0", "MI250X", False),
        ("vllm/vllm-openai-rocm:v0.21.0", "MI300X", True),
        ("vllm/vllm-openai-rocm:v0.21.0", "H100", False),
        ("rocm/vllm:latest", "H100", False),
        ("vllm/vllm-openai:nightly-rocm", "MI300X", True),
        ("my.org/vllm:v0.21.0", "MI300X", True),
        ("lmsysorg/sglang:v0.5.20-cu126", "MI300X", False),
        ("lmsysorg/sglang:v0.5.20-rocm700-mi30x", "MI300X", True),
    ],
)
def test_an_image_for_the_cards_of_another_maker(image, gpu, starts):
    words = "python3 -m sglang.launch_server --model-path" if "sglang" in image else "--model"
    answer = plan(f"docker run {image} {words} Qwen/Qwen3-8B", gpu=gpu, advise=False)
    assert answer.fits is starts and ("is built for" in answer.verdict.message) is not starts
    if "rocm" not in image and "vllm/" in image and not starts:
        assert "the image with code for the MI250X is vllm/vllm-openai-rocm" in answer.warnings


def test_the_right_image_is_planned():
    answer = plan("docker run --gpus all vllm/vllm-openai:v0.24.0 --model Qwen/Qwen3-8B", gpu="MI300X")
    (fix,) = answer.advice.fixes
    assert (fix.change.label, fix.change.image) == ("image vllm/vllm-openai-rocm", "vllm/vllm-openai-rocm")
    assert fix.tokens > 100_000


@pytest.mark.parametrize(
    ("options", "gives"),
    [
        ("", False),
        ("--gpus all", True),
        ("--runtime nvidia", True),
        ("--device nvidia.com/gpu=all", True),
        ("--device /dev/kfd --device /dev/dri", True),
        ("--privileged", True),
        ("--gpus=all", True),
        ("--runtime=nvidia -e A=b", True),
        ("-e NVIDIA_VISIBLE_DEVICES=0,1", True),
        ("-p 80:80 -e A=b", False),
    ],
)
def test_a_container_that_nothing_gives_a_gpu(options, gives):
    notes = one(f"docker run {options} vllm/vllm-openai:v0.24.0 --model org/m").notes
    assert any("nothing gives this container a GPU" in note for note in notes) is not gives


@pytest.mark.parametrize(
    ("lines", "gives"),
    [
        ("", False),
        ("    gpus: all\n", True),
        ("    runtime: nvidia\n", True),
        ("    devices: [/dev/kfd]\n", True),
        ("    environment: {NVIDIA_VISIBLE_DEVICES: all}\n", True),
        (
            "    deploy: {resources: {reservations: {generic_resources: [{discrete_resource_spec: {kind: GPU}}]}}}\n",
            True,
        ),
        ("    deploy: {resources: {reservations: {devices: [{capabilities: [gpu]}]}}}\n", True),
        ("    deploy: {resources: {limits: {memory: 8g}}}\n", False),
    ],
)
def test_a_service_that_nothing_gives_a_gpu(lines, gives):
    notes = one(f"services:\n  a:\n    image: vllm/vllm-openai:v0.24.0\n    command: --model org/m\n{lines}").notes
    assert any("nothing gives this container a GPU" in note for note in notes) is not gives


@pytest.mark.parametrize(
    ("tag", "on_gpu"), [("server", False), ("full-b9000", False), ("server-cuda", True), ("server-vulkan-b9000", True)]
)
def test_an_image_for_the_cpu_uses_no_gpu(tag, on_gpu):
    text = f"docker run --gpus all ghcr.io/ggml-org/llama.cpp:{tag} -hf unsloth/Qwen3-8B-GGUF:Q4_K_M -ngl 99"
    answer = plan(text, gpu="RTX 4090", advise=False)
    assert bool(answer.ranks) is on_gpu
    assert any("built for the CPU" in note for note in answer.warnings) is not on_gpu


@pytest.mark.parametrize(
    "text",
    [
        "docker run --entrypoint '' vllm/vllm-openai:v0.21.0 vllm serve org/m",
        "docker run my.org/vllm-openai:v0.21.0 vllm serve org/m",
        "docker run lmsysorg/sglang:latest python3 -m sglang.launch_server --model-path org/m",
        "FROM vllm/vllm-openai:v0.21.0 AS base\nENTRYPOINT []\nFROM base\nCMD vllm serve org/m\n",
        "services:\n  a:\n    image: vllm/vllm-openai:v0.21.0\n    entrypoint: []\n    command: vllm serve org/m\n",
    ],
)
def test_an_entry_point_that_is_taken_away(text):
    assert one(text).model == "org/m"


def test_kserve():
    d = one(
        "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata: {name: a}\nspec:\n  predictor:\n"
        "    model:\n      modelFormat: {name: huggingface}\n"
        "      args: [--model_name=a, --model_id=org/m, --dtype=half]\n"
        "      resources: {limits: {nvidia.com/gpu: '1'}}\n"
    )
    assert (d.model, d.flags, d.gpu_count) == ("org/m", {"dtype": "half"}, 1)


def test_a_pinned_release_counts_where_no_image_names_one():
    assert one("pip install vllm==0.19.1\nvllm serve org/m").engine.version == "0.19.1"
    assert one("uv run --with vllm==0.20.0 vllm serve org/m").engine.version_from == "pip install"
    d = one("pip install vllm==0.19.1\nvllm serve org/m", engine="0.21.0")
    assert d.engine.version == "0.21.0"


@pytest.mark.parametrize(
    "text",
    [
        "ssh box 'cd /srv && vllm serve org/m -tp 2'",
        'tmux new-session -d -s v "vllm serve org/m -tp 2"',
        "kubectl exec -it pod -- vllm serve org/m -tp 2",
        "su - me -c 'vllm serve org/m -tp 2'",
        "M=$(realpath org/m)\nvllm serve $M -tp 2",
    ],
)
def test_commands_that_are_sent_elsewhere(text):
    d = one(text)
    assert (d.model, d.flags) == ("org/m", {"tensor_parallel_size": 2})


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("srun --gpus=4 --container-image=vllm/vllm-openai:v0.21.0 vllm serve org/m", "0.21.0"),
        ("apptainer exec --nv docker://vllm/vllm-openai:v0.20.0 vllm serve org/m", "0.20.0"),
        ("singularity run --nv ~/images/vllm-openai_v0.19.1.sif vllm serve org/m", "0.19.1"),
    ],
)
def test_the_image_of_a_job(text, version):
    assert one(text).engine.version == version


def test_two_servers_alike_are_one_plan(tmp_path):
    path = tmp_path / "start.sh"
    path.write_text("vllm serve org/m --port 1 &\nvllm serve org/m --port 2 &\n")
    assert parse_command([str(path)]).model == "org/m"


def test_settings_in_a_dictionary():
    d = one('from vllm import LLM\nkw = {"model": "org/m", "seed": args.seed}\nkw["max_model_len"] = 4096\nLLM(**kw)')
    assert (d.model, d.flags) == ("org/m", {"max_model_len": 4096}) and "only what is a literal" in d.notes[0]
    with pytest.raises(CommandError, match="the model stands in a"):
        one("from vllm import LLM\nLLM(**settings())")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("jobs:\n  a:\n    steps:\n      - run: make\n      - run: |\n          vllm serve org/m -tp 2 &\n", "ci.yml"),
        ("- hosts: gpu\n  tasks:\n    - name: start\n      shell: nohup vllm serve org/m -tp 2 &\n", "play.yml"),
        ("version: '3'\ntasks:\n  serve:\n    cmds:\n      - vllm serve org/m -tp 2\n", "Taskfile.yml"),
        ("job:\n  command: [vllm, serve, org/m, -tp, 2]\n", "job.yaml"),
        ('model := "org/m"\ntp := "2"\n\nserve port="8000":\n    vllm serve {{model}} -tp {{tp}}\n', "justfile"),
        ('[processes]\napp = "vllm serve org/m -tp 2"\n', "fly.toml"),
    ],
)  # fmt: skip
def test_tools_that_start_servers(text, name):
    d = one(text, name)
    assert (d.model, d.flags) == ("org/m", {"tensor_parallel_size": 2})


def test_each_set_of_a_workflow_s_matrix_is_a_deployment():
    text = """
on: [push]
jobs:
  bench:
    strategy:
      matrix:
        model: [org/a, org/b]
        include: [{model: org/c, tp: 2}]
    steps:
      - run: vllm serve ${{ matrix.model }} --max-model-len 2048
"""
    assert [d.model for d in parse_text(text, name="bench.yml").values()] == ["org/a", "org/b", "org/c"]


def test_a_playbook_s_defaults():
    text = """
- name: start
  ansible.builtin.shell: vllm serve {{ model | default("org/m") }} --port {{ port | d(8001) }} -tp {{ tp | default(2) }}
"""
    d = one(text, "tasks.yml")
    assert (d.model, d.flags["tensor_parallel_size"]) == ("org/m", 2)
    with pytest.raises(CommandError, match="MODEL_NAME"):
        one("- shell: vllm serve {{ MODEL_NAME }} --port {{ port | default(8000) }}\n", "tasks.yml")


def test_a_task_s_default_without_quotes():
    text = """
version: '3'
vars:
  MODEL: '{{.MODEL | default "org/m"}}'
tasks:
  serve:
    cmds:
      - vllm serve {{.MODEL}} --max-model-len {{.LEN | default 4096}}
"""
    d = one(text, "Taskfile.yml")
    assert (d.model, d.flags) == ("org/m", {"max_model_len": 4096})


def test_powershell_s_parameters_on_one_line():
    text = """
param([string]$Model = "org/m", [int]$Ctx = 8192)
$more = @("--model", $Model, "--max-model-len", $Ctx)
docker run --gpus all vllm/vllm-openai:v0.32.0 @more
"""
    d = one(text, "serve.ps1")
    assert (d.model, d.flags) == ("org/m", {"max_model_len": 8192})


def test_a_supervised_program_s_own_variables():
    text = '[program:v]\ncommand=vllm serve %(ENV_MODEL)s -tp 2\nenvironment=MODEL="org/m",CUDA_VISIBLE_DEVICES="0,1"\n'
    assert one(text, "supervisord.conf").model == "org/m"


def test_a_local_list_of_terraform_names_its_variables():
    text = """
variable "model_id" { default = "org/m" }
locals { words = ["--model", var.model_id, "--max-model-len", "8192"] }
resource "kubernetes_deployment" "v" {
  spec { container {
    image = "vllm/vllm-openai:v0.32.0"
    args  = local.words
  } }
}
"""
    assert one(text, "main.tf").model == "org/m"
    with pytest.raises(CommandError, match="model_id"):
        one(text.replace('{ default = "org/m" }', "{ type = string }"), "main.tf")


def test_a_file_of_vllm_s_own_options():
    d = one("model: org/m\nmax-model-len: 8192\nenforce-eager: true\nenable_prefix_caching: false\n", "vllm.yaml")
    assert (d.model, d.flags["max_model_len"], d.flags["enforce_eager"]) == ("org/m", 8192, True)
    with pytest.raises(CommandError, match="no serve command"):
        one("model: org/m\nlearning-rate: 0.1\n", "train.yaml")


def test_inputs_of_a_workflow_hold_for_its_jobs():
    text = """
on: {workflow_dispatch: {inputs: {model: {default: org/m}}}}
jobs: {t: {steps: [{run: 'vllm serve "${{ inputs.model }}" -tp 2'}]}}
"""
    assert one(text, "e2e.yml").model == "org/m"


def test_nomad_s_own_values():
    text = """
job "v" { group "g" { task "t" {
  meta { model = "org/m" }
  config {
    image = "vllm/vllm-openai:v0.32.0"
    args  = ["--model", "${NOMAD_META_model}"]
  }
} } }
"""
    assert one(text, "v.nomad").model == "org/m"


def test_a_command_that_a_hook_returns():
    text = 'M = "org/m"\nclass V:\n    def __command__(self):\n        return ["vllm", "serve", M, "-tp", "2"]\n'
    assert one(text, "service.py").model == "org/m"


def test_a_service_whose_weights_lie_on_a_volume_is_planned_as_it_is_named():
    text = """
apiVersion: serving.kserve.io/v1alpha1
kind: LLMInferenceService
metadata: {name: r}
spec: {model: {uri: "pvc://models/m", name: org/m}, parallelism: {tensor: 2}}
"""
    d = one(text, "r.yaml")
    assert (d.model, d.flags["tensor_parallel_size"]) == ("org/m", 2) and "cannot be seen" in " ".join(d.notes)


def test_variables_of_a_file_that_a_script_sources(tmp_path):
    (tmp_path / "model.env").write_text("# which\nexport MODEL=org/m\nLEN=4096\n")
    (tmp_path / "more.sh").write_text("rm -rf x\n")
    script = tmp_path / "start.sh"
    script.write_text('set -a; source ./model.env; set +a\n. more.sh\nvllm serve "$MODEL" --max-model-len $LEN\n')
    (d,) = parse_text(with_neighbours(script.read_text(), str(script)), name="start.sh").values()
    assert (d.model, d.flags) == ("org/m", {"max_model_len": 4096})
