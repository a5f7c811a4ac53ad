"""A plan as one self-contained page: no script, no request, nothing from outside, and a policy that says so."""

from __future__ import annotations

import base64
import hashlib
import io
from collections import Counter
from collections.abc import Iterable, Sequence

from oomph.engines.registry import engine_of
from oomph.errors import InputError
from oomph.ir.plan import Plan
from oomph.ir.roles import role_words
from oomph.report.bars import alike, sizes
from oomph.report.html_charts import LABELS, STAGES, bar, timeline
from oomph.report.plan_lines import gpus_line
from oomph.report.safe import escape
from oomph.report.terminal import Style
from oomph.report.text import KINDS, activation_words, verdict_line
from oomph.units import gib, human

_CSS = """
:root{--bg:#fbfbfa;--fg:#1c1d1f;--soft:#5b6068;--line:#d9dbde;--card:#fff;--bad:#b91c1c;--good:#047857;--on:#fff;
--others:#6b7280;--context:#7c3aed;--weights:#1d4ed8;--activations:#b45309;--graphs:#0f766e;--kv:#0369a1;
color-scheme:light dark}
@media (prefers-color-scheme:dark){:root{--bg:#15171a;--fg:#e7e8ea;--soft:#a3a9b3;--line:#33373d;--card:#1d2024;
--bad:#ff8a80;
--good:#6ee7b7;--on:#0d0f12;--others:#8b919c;--context:#a78bfa;--weights:#5b8def;--activations:#e0a050;
--graphs:#3fb6a8;--kv:#4aa8e0}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1080px;padding:1rem;background:var(--bg);color:var(--fg);
font:14px/1.5 system-ui,sans-serif}
h1{font-size:1.25rem;margin:.2rem 0;overflow-wrap:anywhere}h2{font-size:1rem;margin:1.4rem 0 .3rem}
p{margin:.3rem 0}.soft,caption{color:var(--soft)}
.verdict{font-size:1.15rem;margin:.6rem 0}.bad{color:var(--bad)}.good{color:var(--good)}svg .bad{fill:var(--bad)}
pre{font:12.5px/1.45 ui-monospace,monospace;background:var(--card);border:1px solid var(--line);border-radius:6px;
padding:.5rem .7rem;
white-space:pre-wrap;overflow-wrap:anywhere;margin:.4rem 0}
pre.message{border-left:3px solid var(--bad)}
svg{display:block;width:100%;height:auto;margin:.2rem 0}svg text{fill:var(--fg);font:11px system-ui,sans-serif}
svg .on{fill:var(--on)}svg .end{text-anchor:end}svg .mid{text-anchor:middle}
svg .limit{stroke:var(--bad);stroke-width:1.5;stroke-dasharray:4 3}svg .budget{stroke:var(--soft);
stroke-dasharray:2 3}
svg .area{fill:var(--kv);fill-opacity:.22;stroke:var(--kv);stroke-width:1.5}svg .peak{fill:var(--activations)}
svg .over{fill:var(--bad)}
.others{fill:var(--others);background:var(--others)}.context{fill:var(--context);background:var(--context)}
.weights{fill:var(--weights);background:var(--weights)}.activations,.compute{fill:var(--activations);
background:var(--activations)}
.graphs{fill:var(--graphs);background:var(--graphs)}.kv{fill:var(--kv);background:var(--kv)}
.legend{display:flex;gap:.9rem;flex-wrap:wrap;font-size:12.5px;color:var(--soft)}
.legend i{display:inline-block;width:.75rem;height:.75rem;border-radius:2px;margin-right:.3rem;vertical-align:-1px}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(180px,1fr));gap:.5rem;margin:.8rem 0}
.facts div{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:.45rem .6rem}
.facts b{display:block;font-size:1.05rem}.facts span{color:var(--soft);font-size:12.5px}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:.25rem .6rem;border-bottom:1px solid var(--line);vertical-align:top}
td.n,th.n{text-align:right;white-space:nowrap}tr.part td{color:var(--soft);border-bottom-style:dotted}
tr.part td:first-child{padding-left:1.6rem}
summary{cursor:pointer;font-weight:600;margin:1rem 0 .3rem}ul{color:var(--soft);padding-left:1.1rem}
code{font:12.5px ui-monospace,monospace}
"""


def write_html(plan: Plan, path: str) -> None:
    text = page(plan)
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except (OSError, ValueError) as e:
        raise InputError(f"{path[:200]!r} cannot be written: {getattr(e, 'strerror', None) or e}") from None


def page(plan: Plan) -> str:
    e = plan.deployment.engine
    engine = f"{engine_of(plan.deployment).title} {e.version}"
    body = [
        f"<h1>{escape(plan.model)}</h1>",
        f'<p class="soft">{escape(engine)} on {escape(gpus_line(plan.deployment.gpus))}</p>',
        *_verdict(plan),
        f"<pre>{escape(_command(plan))}</pre>",
    ]
    if plan.ranks:
        body += [*_pictures(plan), *_facts(plan), *_advice(plan), *_kv(plan), *_ledger(plan)]
    body += [*_settings(plan), *_notes(plan)]
    mark = base64.b64encode(hashlib.sha256(_CSS.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{mark}'; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(plan.model)} on {escape(engine)}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(body)
        + "\n</main>\n</body>\n</html>\n"
    )


def _verdict(plan: Plan) -> list[str]:
    from oomph.report import llamacpp_text

    say = verdict_line if engine_of(plan.deployment).layout == "ranks" else llamacpp_text.verdict
    word, _, rest = say(plan, Style(io.StringIO())).partition("   ")
    kind = "good" if plan.fits else "bad"
    lines = [f'<p class="verdict"><b class="{kind}">{escape(word)}</b> {escape(rest)}</p>']
    if plan.verdict.message and plan.verdict.stage != "other":
        lines.append(f'<pre class="message">{escape(plan.verdict.message)}</pre>')
    return lines


def _command(plan: Plan) -> str:
    from oomph.commands import to_shell, without_secrets

    return to_shell(without_secrets(plan.deployment))


def _pictures(plan: Plan) -> list[str]:
    out = []
    shown: dict[str, None] = {}
    for rank, count in alike(plan):
        name = f"GPU {rank.rank}" + (f"-{rank.rank + count - 1}, each" if count > 1 else "") + f"  {rank.gpu}"
        out.append(bar(rank, plan, name))
        shown |= dict.fromkeys(part for part, n in sizes(rank, plan) if n)
    marks = "".join(f'<span><i class="{part.lower()}"></i>{LABELS[part]}</span>' for part in shown)
    out.append(f'<div class="legend">{marks}</div>')
    rank = plan.ranks[min(plan.verdict.rank, len(plan.ranks) - 1)]
    return [*out, "<h2>Start-up</h2>", timeline(rank, plan)]


def _facts(plan: Plan) -> list[str]:
    rows: list[tuple[str, str]] = []
    kv, first = plan.kv, plan.ranks[0].terms
    length = plan.resolved.get("max_model_len", 0)
    if kv is not None and kv.logged_tokens:
        ranks = engine_of(plan.deployment).layout == "ranks"
        remark = f", as {engine_of(plan.deployment).title} prints it" if plan.fits and ranks else ""
        rows.append((f"{kv.logged_tokens:,}", f"tokens of KV cache{remark if plan.fits else ': too few'}"))
        if length and ranks:
            rows.append((f"{kv.max_concurrency:.2f}", f"requests of {length:,} tokens at once"))
    if kv is not None and kv.need_bytes:
        rows.append((human(kv.need_bytes), "KV cache of one longest request"))
    rows.append((gib(first["weights"].bytes), "weights per GPU"))
    if "activation_peak" in first:
        rows.append((human(first["activation_peak"].bytes), f"activations, {activation_words(first)}"))
    tiles = "".join(f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for value, name in rows)
    return [f'<div class="facts">{tiles}</div>']


def _advice(plan: Plan) -> list[str]:
    """What would help, what would not: the plan's own advice."""
    advice = plan.advice
    if advice is None or not (advice.fixes or advice.helps or advice.useless):
        return []
    rows = []
    for judged in (*advice.fixes, *advice.helps):
        gained = f"{'+' if judged.gain_bytes >= 0 else '-'}{human(abs(judged.gain_bytes))}" if judged.gain_bytes else ""
        starts = f"{judged.tokens:,} tokens, {judged.concurrency:.2f} at once" if judged.tokens else judged.why
        rows.append([f"<code>{escape(judged.change.label)}</code>", gained, escape(starts), escape(judged.change.cost)])
    what = "KV cache memory" if plan.fits else "room where it dies"
    idle = "".join(
        f"<li><code>{escape(judged.change.label)}</code>: {escape(judged.why)}</li>" for judged in advice.useless
    )
    why = "".join(f"<p>{escape(sentence)}</p>" for sentence in advice.why)
    return [
        *([f"<h2>Why</h2>{why}"] if why else []),
        *(["<h2>What helps, each planned</h2>", _table(["change", f"#{what}", "then", "costs"], rows)] if rows else []),
        *([f"<h2>What does not help</h2><ul>{idle}</ul>"] if idle else []),
    ]


def _kv(plan: Plan) -> list[str]:
    kv = plan.kv
    if kv is None or not kv.groups:
        return []
    same = Counter((g.kind, g.layers, g.block_size, g.page_bytes) for g in kv.groups)
    rows = [
        [escape(KINDS.get(kind, kind.replace("_", " "))), f"{n * layers:,}", f"{n}", f"{block:,}", human(page)]
        for (kind, layers, block, page), n in same.items()
    ]
    lines = ["<h2>KV cache</h2>"]
    if kv.num_blocks:
        what = engine_of(plan.deployment).words.cache_unit
        lines.append(f"<p>{kv.num_blocks:,} {what} of {human(kv.bytes_per_block)}.</p>")
    return [*lines, _table(["kind", "#layers", "#groups", "#tokens per block", "#page"], rows)]


def _ledger(plan: Plan) -> list[str]:
    out = []
    for rank, count in alike(plan):
        name = f"GPU {rank.rank}" + (f"-{rank.rank + count - 1}, each" if count > 1 else "")
        rows = ""
        for t in rank.terms.values():
            span = "" if t.low == t.bytes == t.high else f"{human(t.low)} to {human(t.high)}"
            rows += _row([escape(t.name), f"{t.bytes:,}", escape(t.basis), span, escape(t.why)], (1,))
            inside = sorted(t.parts.items(), key=lambda x: -abs(x[1])) if len(t.parts) > 1 else []
            rows += "".join(_row([escape(role_words(k)), f"{v:,}", "", "", ""], (1,), "part") for k, v in inside if v)
        out.append(
            f"<details><summary>Ledger of {escape(name)}, in bytes</summary>"
            + _wrapped(["term", "#bytes", "basis", "interval", "why"], rows)
            + _table(
                ["stage", "#resident", "#peak", "note"],
                [[STAGES.get(s.name, s.name), human(s.resident_bytes), human(s.peak_bytes), escape(s.note)]
                 for s in rank.stages],
            )
            + "</details>"
        )  # fmt: skip
    return out


def _settings(plan: Plan) -> list[str]:
    plain = {k: v for k, v in plan.resolved.items() if isinstance(v, str | int | float | bool) and v != ""}
    if not plain:
        return []
    rows = [[f"<code>{escape(k)}</code>", escape(f"{v:,}" if type(v) is int else str(v))] for k, v in plain.items()]
    table = _table(["setting", "value"], rows)
    return [f"<details><summary>Settings the engine ends up with</summary>{table}</details>"]


def _notes(plan: Plan) -> list[str]:
    notes = [*plan.warnings, *plan.assumptions]
    return [f"<ul>{''.join(f'<li>{escape(note)}</li>' for note in notes)}</ul>"] if notes else []


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Heads that begin with # stand over numbers. Cells are HTML already."""
    numbers = tuple(i for i, head in enumerate(heads) if head.startswith("#"))
    return _wrapped(heads, "".join(_row(row, numbers) for row in rows))


def _wrapped(heads: Sequence[str], rows: str) -> str:
    head = "".join(
        f'<th scope="col" class="n">{escape(h[1:])}</th>' if h[0] == "#" else f'<th scope="col">{escape(h)}</th>'
        for h in heads
    )
    return f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _row(cells: Sequence[str], numbers: tuple[int, ...] = (), kind: str = "") -> str:
    made = "".join(f'<td class="n">{c}</td>' if i in numbers else f"<td>{c}</td>" for i, c in enumerate(cells))
    return f'<tr class="{kind}">{made}</tr>' if kind else f"<tr>{made}</tr>"
