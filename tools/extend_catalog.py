"""extend_catalog.py ROWS.jsonl: add checkpoints to src/oomph/catalog/models.jsonl.

A row is {"id", "config", "quant", "parameters", "source"}: the keys of a config.json (and of hf_quant_config.json), the
parameters that the hub counts, and where the shape is from. A row whose model has another number of parameters is
refused, so that nothing is written that was not checked against a published figure; 0 = the count was compared in
another form, which the source says. Position tables of encoders and inverse frequencies of old Llamas are tensors that
the hub counts and engines do not load.

Instead of "config" a row may say "like": an entry whose shape it has, with "changes" of single keys; and
"quantized_like": an entry whose regular scheme it has, with "quant_changes". "replace" corrects an entry that is there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from oomph.catalog import FILE, Entry, Line, _line_of, _rows, find, read_source
from oomph.catalog.pack import pack, unpack
from oomph.errors import OomphError
from oomph.ir.model import Model
from oomph.sources.build import build_model

from build_catalog import pruned, same, write  # isort: skip


def main() -> None:
    entries = {row.id: (_line_of(row), read_source(row.id)) for row in _rows()[1].values()}
    known = {i.lower() for i in entries}
    added = refused = 0
    for text in Path(sys.argv[1]).read_text().splitlines():
        fact = json.loads(text)
        if fact["id"].lower() in known and not fact.get("replace"):
            continue
        try:
            entries[fact["id"]] = (line_of(fact), fact["source"])
            known.add(fact["id"].lower())
            added += 1
        except (OomphError, ValueError) as error:
            refused += 1
            print(f"{fact['id']}: left out: {error}")
    write(entries)
    print(f"{added} added, {refused} left out; {len(entries)} checkpoints, {Path(FILE).stat().st_size:,} bytes")


def config_of(fact: dict[str, Any]) -> dict[str, Any]:
    """The row's own configuration, or that of a sister with what differs."""
    if "like" not in fact:
        return dict(fact["config"])
    config = {**entry(fact["like"]).config, **fact.get("changes", {})}
    if "quantized_like" in fact:
        scheme = entry(fact["quantized_like"]).config["quantization_config"]
        config["quantization_config"] = {**scheme, **fact.get("quant_changes", {})}
    return config


def entry(model_id: str) -> Entry:
    here = find(model_id)
    if here is None:
        raise ValueError(f"{model_id} is not in the catalogue")
    return here


def line_of(fact: dict[str, Any]) -> Line:
    config, quant = config_of(fact), fact.get("quant")
    whole = build_model(fact["id"], config, hf_quant_config=quant)
    if whole.opaque or not whole.layers:
        raise ValueError("its architecture is not known")
    if fact["parameters"] and not counts_agree(whole, config, fact["parameters"]):
        raise ValueError(f"{whole.elements:,} parameters, and the hub counts {fact['parameters']:,}")
    kept, kept_quant = pruned(fact["id"], config, quant, {})
    line = Line(pack(kept), None if kept_quant is None else pack(kept_quant), {}, whole.nbytes)
    again = build_model(fact["id"], unpack(line.c), hf_quant_config=line.q and unpack(line.q))
    if not same(whole, again):
        raise ValueError("the catalogue's entry does not build the same model")
    return line


def counts_agree(model: Model, config: dict[str, Any], published: int) -> bool:
    layers = int(config.get("num_hidden_layers") or 0)
    heads = int(config.get("num_attention_heads") or 1)
    frequencies = layers * int(config.get("head_dim") or int(config.get("hidden_size") or 0) // heads) // 2
    beside = {0, int(config.get("max_position_embeddings") or 0) if model.pooling else 0}
    if config.get("model_type") in ("llama", "mistral"):
        beside.add(frequencies)
    return published - model.elements in beside


if __name__ == "__main__":
    main()
