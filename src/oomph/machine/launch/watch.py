"""Predicted next to actual, as a start-up's lines come."""

from collections.abc import Callable

from msgspec import Struct

from oomph.facts.vllm.logs import ROWS
from oomph.ir import Plan
from oomph.units import gib

# kind of log line -> (the plan's term, the value's name in the line, what people call it)
_TERMS = {
    "weights": ("weights", "weights", "weights"),
    "available_kv": ("available_kv", "available", "KV cache memory"),
    "graph_estimate": ("cudagraph", "estimate", "CUDA graph estimate"),
}
_WANTED = [row for row in ROWS if row.kind in {*_TERMS, "kv_tokens", "kv_size"}]


class Seen(Struct, frozen=True):
    term: str
    predicted: int
    actual: int


class Watch:
    """Feed it lines; it says a sentence for each figure, once a figure."""

    def __init__(self, plan: Plan | None, say: Callable[[str], None]) -> None:
        self.plan = plan
        self.say = say
        self.seen: dict[str, Seen] = {}

    def line(self, raw: bytes) -> None:
        text = raw.decode("utf-8", "replace")
        for row in _WANTED:
            if row.needle not in text or row.kind in self.seen:
                continue
            values = row.match(text)
            if values:
                self._note(row.kind, values)

    def _note(self, kind: str, values: dict[str, float | int | str]) -> None:
        if kind not in _TERMS:
            tokens = next((v for k, v in values.items() if "token" in k and isinstance(v, int)), None)
            if tokens is not None and self.plan is not None and self.plan.kv is not None:
                self.seen[kind] = Seen("tokens", self.plan.kv.logged_tokens, tokens)
                self.say(f"KV cache tokens: {tokens:,}, predicted {self.plan.kv.logged_tokens:,}")
            return
        term, name, label = _TERMS[kind]
        value = values.get(name) or next((v for v in values.values() if isinstance(v, int | float)), None)
        if not isinstance(value, int | float):
            return
        predicted = self.plan.ranks[0].terms[term].bytes if self.plan is not None and self.plan.ranks else 0
        self.seen[kind] = Seen(term, predicted, int(value))
        figure = f", predicted {gib(predicted)}" if predicted else ""
        self.say(f"{label}: {gib(int(value))}{figure}")
