"""convert_activation.py OUT_DIR CONFIGS_DIR RESULTS_DIR...: traced profiling passes -> our test format.

Each result is one start-up of a real vLLM on an H200 with the model cut to a few layers: the bytes of its weights, the
peak of its profiling pass, and, where it went on, the estimate for CUDA graphs. Writes OUT_DIR/activation.jsonl and
OUT_DIR/activation-models.json.gz (of each configuration only the facts that change what is built).
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from convert_h200 import facts

from oomph.errors import OomphError
from oomph.sources.build import build_model

_OURS = ("trust_remote_code",)  # flags of the measurement, without effect on what is measured


def rows(folder: Path) -> list[dict[str, Any]]:
    out = []
    for path in sorted(folder.glob("*.json")):
        r = json.loads(path.read_text())
        if not r.get("activation"):
            continue
        case = r["case"]
        out.append(
            {
                "id": f"{folder.name}/{case['id']}",
                "model": Path(case["model"]).name,
                "vllm": r["vllm"],
                "flags": {k: v for k, v in case["flags"].items() if k not in _OURS},
                "weights_bytes": r["weights"],
                "activation_peak_bytes": r["activation"],
                "cudagraph_bytes": r.get("graph_estimate"),
            }
        )
    return out


def model(name: str, configs: Path) -> list[dict[str, Any]]:
    """Its configuration's facts, and its quantisation file; nothing for an architecture we do not know."""
    path = next(configs.glob(f"*/{name}/config.json"))
    config, quant = json.loads(path.read_text()), path.parent / "hf_quant_config.json"
    try:
        build_model(name, config)
    except OomphError:
        return []
    return [facts(name, config), *([json.loads(quant.read_text())] if quant.exists() else [])]


def main() -> None:
    out, configs = Path(sys.argv[1]), Path(sys.argv[2])
    found = [row for folder in sys.argv[3:] for row in rows(Path(folder))]
    models = {name: model(name, configs) for name in sorted({row["model"] for row in found})}
    models = {name: made for name, made in models.items() if made}
    found = [row for row in found if row["model"] in models]
    lines = [json.dumps(r, separators=(",", ":")) for r in found]
    (out / "activation.jsonl").write_text("\n".join(lines) + "\n")
    packed = json.dumps(models, separators=(",", ":")).encode()
    (out / "activation-models.json.gz").write_bytes(gzip.compress(packed, mtime=0))
    print(len(found), "rows,", len(models), "models,", len(packed), "bytes before packing")


if __name__ == "__main__":
    main()
