"""A plan as one self-contained page."""

from __future__ import annotations

from html import escape

from oomph.errors import InputError
from oomph.ir.plan import Plan, RankPlan
from oomph.report.text import STAGES
from oomph.units import gib, human

_COLOURS = {
    "others": "#9aa0a6", "context": "#c4b5fd", "weights": "#2563eb", "activations": "#f59e0b", "graphs": "#10b981",
    "KV cache": "#0ea5e9",
}  # fmt: skip
_ENGINES = {"llamacpp": "llama.cpp", "ollama": "Ollama"}
_CSS = """
:root{color-scheme:light dark;font:15px/1.5 system-ui,sans-serif}
body{max-width:62rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.3rem}.bad{color:#dc2626}.good{color:#059669}
.bar{display:flex;height:2.2rem;border:1px solid #8888;border-radius:4px;overflow:hidden;margin:.3rem 0 1rem}
.bar span{color:#fff;font-size:.75rem;padding:.5rem .3rem;overflow:hidden;white-space:nowrap}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.2rem .6rem;border-bottom:1px solid #8884}
code{font-size:.85em}
"""


def write_html(plan: Plan, path: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(page(plan))
    except OSError as e:
        raise InputError(f"{path}: {e.strerror or e}") from None


def page(plan: Plan) -> str:
    v = plan.verdict
    e = plan.deployment.engine
    title = f"{plan.model} on {_ENGINES.get(e.name, 'vLLM')} {e.version}"
    if v.fits:
        head = '<p class="good"><b>FITS</b></p>'
    else:
        where = STAGES.get(v.stage or "other", "")
        head = f'<p class="bad"><b>WILL NOT START</b> out of memory {escape(where)}, {gib(v.short_bytes)} short</p>'
        head += f"<p><code>{escape(v.message)}</code></p>"
    body = "".join(_rank(r, plan) for r in plan.ranks)
    kv = ""
    if plan.kv is not None:
        k = plan.kv
        kv = (
            f"<h2>KV cache</h2><p>{k.num_blocks:,} blocks of {human(k.bytes_per_block)}; {k.logged_tokens:,} tokens, "
            f"{k.max_concurrency:.2f} requests of {plan.resolved.get('max_model_len', 0):,} tokens at once.</p>"
        )
    notes = "".join(f"<li>{escape(w)}</li>" for w in (*plan.warnings, *plan.assumptions))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_CSS}</style><h1>{escape(title)}</h1>{head}{body}{kv}<ul>{notes}</ul></html>\n"
    )


def _rank(r: RankPlan, plan: Plan) -> str:
    t = r.terms
    kv = plan.kv.num_blocks * plan.kv.bytes_per_block if plan.fits and plan.kv else 0
    sizes = {"others": r.used_by_others_bytes, **_sizes(r, kv)}
    whole = max(sum(sizes.values()), r.total_bytes)
    cells = "".join(_cell(k, n, whole) for k, n in sizes.items() if n)
    rows = "".join(
        _row(x.name, f"{x.bytes:,}", x.basis, f"{human(x.low)} to {human(x.high)}", x.why) for x in t.values()
    )
    stages = "".join(_row(s.name, human(s.resident_bytes), human(s.peak_bytes), s.note) for s in r.stages)
    return (
        f"<h2>GPU {r.rank}: {escape(r.gpu)}, {gib(r.total_bytes)}</h2><div class=bar>{cells}</div>"
        f"<table><tr><th>term<th>bytes<th>basis<th>interval<th>why{rows}</table>"
        f"<table><tr><th>stage<th>resident<th>peak<th>{stages}</table>"
    )


def _sizes(r: RankPlan, kv: int) -> dict[str, int]:
    t = {name: x.bytes for name, x in r.terms.items()}
    if "compute" in t:  # llama.cpp
        own = {"KV cache": t["kv_cache"] + t["state"], "activations": t["compute"]}
        return {"context": t["context"], "weights": t["weights"], **own}
    return {
        "context": t["context"] + t["non_torch"],
        "weights": t["weights"],
        "activations": t["activation_peak"],
        "graphs": t["cudagraph"],
        "KV cache": kv,
    }


def _cell(name: str, n: int, whole: int) -> str:
    text = f"{escape(name)} {human(n)}"
    return f'<span style="width:{100 * n / whole:.3f}%;background:{_COLOURS[name]}" title="{text}">{text}</span>'


def _row(*cells: str) -> str:
    return "<tr>" + "".join(f"<td>{escape(c)}" for c in cells)
