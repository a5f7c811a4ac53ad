"""TRUTH/field-logs.jsonl -> tests/truth/field-logs.jsonl: what each machine-printed log says, as kinds and figures.

Nobody's post is kept: the lines are printed again from the figures (tests/logs/printed.py), with the engine's words.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.logs.printed import PRINT  # noqa: E402

from oomph.logs.clean import lines  # noqa: E402
from oomph.logs.parse import observe  # noqa: E402
from oomph.logs.reader import read_text  # noqa: E402


def converted(row: dict[str, Any], causes: dict[str, list[str]]) -> dict[str, Any] | None:
    said = []
    observations = observe(lines(read_text(row["log"]).lines))
    whole = {o.line for o in observations if o.kind in ("kv_need", "kv_need_v0")}
    for o in observations:
        if o.kind not in PRINT or (o.kind.endswith("_part") and o.line in whole):
            continue
        values = {k: v for k, v in o.values.items() if not k.endswith("_half") and k != "source"}
        if o.kind == "frame":
            path = str(values["path"])
            values["path"] = path[path.find("/vllm/") :] if "/vllm/" in path else path.rsplit("/", 1)[-1]
        entry = {"kind": o.kind, "values": values}
        entry |= {k: v for k, v in (("process", o.process), ("rank", o.rank), ("source", o.values.get("source"))) if v}
        said.append(entry)
    if not said:
        return None
    record = {"id": row["id"], "engine": row["engine"], "version": row["engine_version"], "model": row["model"]}
    record |= {"failure": row["failure"], "causes": causes.get(row["id"], []), "lines": said}
    return {k: v for k, v in record.items() if v is not None}


def main(truth: Path) -> None:
    rows = [json.loads(line) for line in (truth / "field-logs.jsonl").read_text(encoding="utf-8").splitlines()]
    causes = json.loads((ROOT / "tests/truth/field-causes.json").read_text(encoding="utf-8"))
    records = [converted(row, causes) for row in rows if row["log_kind"] == "machine"]
    out = ROOT / "tests/truth/field-logs.jsonl"
    out.write_text("".join(json.dumps(r, sort_keys=False) + "\n" for r in records if r), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
