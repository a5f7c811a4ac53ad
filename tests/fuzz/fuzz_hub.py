# ruff: noqa: E501 - seeds are lines
import json
from typing import Any

import atheris

with atheris.instrument_imports(include=["oomph"]):
    from oomph.sources.build import build_model
    from oomph.sources.hub import home as hub_home, repository as hub
    from oomph.sources.hub.reply import Reply
    from oomph.sources.json_input import parse_object

from common import mutate_json, run

HUB = hub_home.Hub(endpoint="http://hub", cache="/nowhere", offline=False, token=None, timeout=1.0)
CONFIG = {"architectures": ["LlamaForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
          "intermediate_size": 128, "vocab_size": 512, "max_position_embeddings": 64}  # fmt: skip
HEADER = {"a": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}}
LISTING = {"sha": "a" * 40, "id": "org/m", "siblings": [{"rfilename": "config.json", "size": 9}]}
SHARD = {"rfilename": "model.safetensors", "size": 400}
SEEDS = [
    json.dumps({"listing": LISTING, "config": CONFIG, "status": 200, "headers": {"x-repo-commit": "a" * 40}}).encode(),
    json.dumps({"listing": {**LISTING, "siblings": [*LISTING["siblings"], SHARD]}, "config": CONFIG, "shard": HEADER}).encode(),
    json.dumps({"listing": LISTING, "status": 404, "headers": {"x-error-code": "GatedRepo", "retry-after": "9"}}).encode(),
]  # fmt: skip


class Answers:
    """A transport that answers with what the fuzzer wrote."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.case = case

    def get(self, url: str, *, limit: int, start: int = 0, length: int | None = None) -> Reply:
        part = "listing" if "/api/" in url else "shard" if url.endswith(".safetensors") else "config"
        body = json.dumps(self.case.get(part)).encode()
        if part == "shard":
            body = len(body).to_bytes(8, "little") + body + bytes(64)
        status = self.case.get("status") if part == "config" else 200
        headers = self.case.get("headers")
        texts = {str(k).lower(): str(v) for k, v in headers.items()} if isinstance(headers, dict) else {}
        whole = len(body)
        body = body[start : start + length] if length is not None else body[:limit]
        return Reply(status if isinstance(status, int) else 200, texts, body, url, whole)


def one(data: bytes) -> None:
    try:
        case = json.loads(data)
    except (ValueError, RecursionError):
        return
    if isinstance(case, dict):
        repository = hub._Repository(Answers(case), HUB, "org/m", "main")  # type: ignore[arg-type]
        snapshot = hub._from_hub(repository, (hub.CONFIG, hub.QUANT_CONFIG))
        if snapshot.config is not None:
            build_model("org/m", parse_object(snapshot.config, "config.json"), tensors=snapshot.tensors)


if __name__ == "__main__":
    run(one, SEEDS, mutate_json)
