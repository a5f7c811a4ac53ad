# ruff: noqa: E501 - seeds are lines
import json

import atheris

with atheris.instrument_imports(include=["oomph"]):
    import oomph.engines.vllm.command.serve
    from oomph.commands import parse_command, parse_text, to_shell, without_secrets
    from oomph.text.nesting import shell_words

from common import mutate_text, run

SEEDS = [
    b"vllm serve Qwen/Qwen3-8B --max-model-len 8k -tp 2 --kv-cache-dtype fp8 --api-key abc",
    b"HF_TOKEN=a docker run --gpus all -e A=b -v ~/.cache:/c vllm/vllm-openai:v0.21.0 --model m/m --limit-mm-per-prompt '{\"image\": 1}'",
    b"llama-server -hf unsloth/Qwen3-8B-GGUF:Q4_K_M -ngl 99 -c 32768 --cache-type-k q8_0",
    b"for m in a b; do A=\"$A$A\"; if [ $# -gt 1 ]; then python -m vllm.entrypoints.openai.api_server --model ${1:-org/m} \\\n --seed $((1+2)); fi; done",
    b"kubectl run x --image=vllm/vllm-openai -- --model=m/m --hf-overrides='{\"a\": [1]}'",
    b"ollama run qwen3:8b\nOLLAMA_CONTEXT_LENGTH=8192 ollama serve",
    b"python -m sglang.launch_server --model-path Qwen/Qwen3-8B --tp 2 --mem-fraction-static 0.8",
    json.dumps(["vllm", "serve", "m/m", "--speculative-config", '{"method":"ngram"}']).encode(),
]  # fmt: skip


def one(data: bytes) -> None:
    text = data.decode("utf-8", "replace").replace("\0", "")
    try:
        deployment = parse_command(shell_words(text)[:400])
    except ValueError:
        parse_text(text)
        return
    to_shell(without_secrets(deployment))


if __name__ == "__main__":
    assert oomph.engines.vllm.command.serve
    run(one, SEEDS, mutate_text)
