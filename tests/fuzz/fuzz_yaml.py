# ruff: noqa: E501 - seeds are lines
import atheris

with atheris.instrument_imports(include=["oomph"]):
    import oomph.engines.vllm.command.serve
    from oomph.commands import texts
    from oomph.commands.call import Around

from common import mutate_text, run

SEEDS = [
    b"services:\n  vllm:\n    image: vllm/vllm-openai:v0.21.0\n    command: --model Qwen/Qwen3-8B -tp 2\n    environment:\n      - HF_TOKEN=${A:-b}\n",
    b"x-a: &a {k: [1, 2]}\nservices:\n  a: {<<: *a, image: vllm/vllm-openai, command: ['--model', 'm/m']}\n",
    b"apiVersion: apps/v1\nkind: Deployment\nspec:\n  template:\n    spec:\n      containers:\n      - name: a\n        image: vllm/vllm-openai\n"
    b"        args: ['--model', 'm/m']\n        env:\n        - {name: HF_TOKEN, value: a}\n        resources: {limits: {nvidia.com/gpu: 2}}\n",
    b"jobs:\n  a:\n    steps:\n    - run: |\n        vllm serve m/m --port 8000\n---\na: b\n",
    b"model: Qwen/Qwen3-8B\ntensor-parallel-size: 2\nenforce-eager: true\n",
]


def one(data: bytes) -> None:
    texts.calls(data.decode("utf-8", "replace").replace("\0", ""), "compose.yaml", {}, Around())


if __name__ == "__main__":
    assert oomph.engines.vllm.command.serve
    run(one, SEEDS, mutate_text)
