"""Sixty secrets, each in a form of its own. `S3kr1t..` marks the part that must never be seen."""

from __future__ import annotations


def mark(number: int) -> str:
    return f"S3kr1tN{number:02d}q"


COMMAND_FLAGS = [
    "--api-key {}",
    "--api-key={}",
    "--api-key '{}'",
    '--hf-token "{}"',
    "--hf-token={}",
    "--api-key {} {}",
]
ENVIRONMENT = [
    "HF_TOKEN={}", "HUGGING_FACE_HUB_TOKEN='{}'", "VLLM_API_KEY={}", 'OPENAI_API_KEY="{}"', "AWS_SECRET_ACCESS_KEY={}",
    "WANDB_API_KEY={}", "DB_PASSWORD={}", "GITHUB_TOKEN={}", "NGC_API_KEY={}", "https_proxy=http://me:{}@proxy:3128",
    "LITELLM_MASTER_SECRET={}", "SLACK_WEBHOOK={}",
]  # fmt: skip
DOCKER = [
    "-e HF_TOKEN={}", '-e "HF_TOKEN={}"', "--env HUGGING_FACE_HUB_TOKEN={}", "--env=VLLM_API_KEY={}", "-e CUSTOMER={}",
    "-e MINIO_ROOT_PASSWORD={}",
]  # fmt: skip
SHAPES = [
    "hf_{}AbCdEfGhIjKlMnOp", "sk-{}abcdefgh", "ghp_{}abcdefgh", "github_pat_{}abcdefgh", "glpat-{}abcdefgh",
    "nvapi-{}abcdefgh", "xoxb-{}-abcdefgh", "AKIA{}", "eyJhbGciOi{}.eyJzdWIiOi{}.sig{}", "AIza{}abcdefghijklmnop",
]  # fmt: skip
LOG = [
    "non-default args: {{'model': 'Qwen/Qwen3-8B', 'api_key': ['{}'], 'max_model_len': 32768}}",
    "args: Namespace(model='Qwen/Qwen3-8B', api_key='{}', hf_token='{}')",
    "args: Namespace(api_key=['{}', '{}'], port=8000)",
    'config: {{"model": "Qwen/Qwen3-8B", "hf_token": "{}"}}',
    'escaped: "{{\\"api_key\\": \\"{}\\"}}"',
    "Authorization: Bearer {}",
    "curl -H 'Authorization: Bearer {}' http://localhost:8000/v1/models",
    "curl -u admin:{} http://localhost:8000/metrics",
    "GET https://cdn.example/x.safetensors?X-Amz-Signature={}&X-Amz-Date=1",
    "GET https://cdn.example/x.safetensors?Policy=1&Key-Pair-Id={}",
    "cloning https://oauth2:{}@huggingface.co/org/model",
    "cloning https://{}@huggingface.co/org/model",
    "redis://:{}@cache:6379/0",
    "postgresql://vllm:{}@db/vllm",
    "password: {}",
    "admin_password = '{}'",
    "api-key: {}",
    "  - name: HF_TOKEN\n    value: {}",
    "command: ['vllm', 'serve', 'Qwen/Qwen3-8B', '--api-key', '{}', '--port', '8000']",
    "vllm serve Qwen/Qwen3-8B --api-key {} \\",
    "export HF_TOKEN={}",
    "secret_key={}",
    "client_secret: '{}'",
    "x-api-key: {}",
    "access_token={}&user=1",
    "private_key_id {}".replace("private_key_id ", "PRIVATE_KEY="),
]  # fmt: skip
ALL = COMMAND_FLAGS + ENVIRONMENT + DOCKER + SHAPES + LOG


def filled() -> list[str]:
    """Each form with its own mark."""
    return [form.replace("{{", "\0").replace("}}", "\1").replace("{}", mark(n)).replace("\0", "{").replace("\1", "}")
            for n, form in enumerate(ALL)]  # fmt: skip
