"""Figures as HTML files that need no server: an index with a search box, a page per checkpoint and per card."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from html import escape
from pathlib import Path

import msgspec

from oomph.catalog.facts import facts
from oomph.engines.registry import engine_named
from oomph.facts.gpus import GpuRow
from oomph.site.figures import CONTEXT, Figure
from oomph.units import human

STYLE = """:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}
body{max-width:72rem;margin:0 auto;padding:1rem}table{border-collapse:collapse;display:block;overflow-x:auto}
th,td{text-align:left;padding:.25rem .75rem .25rem 0;border-bottom:1px solid #8884;vertical-align:top}
.n{text-align:right;font-variant-numeric:tabular-nums}td.n{white-space:nowrap}code{font-size:.85em}
input{font:inherit;padding:.4rem;width:100%;
box-sizing:border-box}ul{columns:22rem;padding-left:1.2rem}a{color:light-dark(#1456c7,#8ab4f8)}
footer{margin-top:2rem;opacity:.7}
@media(max-width:40rem){table,tbody{display:block}
tr{display:grid;grid-template-columns:1fr 1fr;border-bottom:1px solid #8884;padding:.4rem 0}
tr:first-child{display:none}td,td.n{border:0;padding:.1rem 0;text-align:left}
td:first-child,td:last-child{grid-column:1/-1}
td:nth-child(2)::before{content:"cards: "}td:nth-child(3)::before{content:"weights: "}
td:nth-child(4)::before{content:"room: "}
td:nth-child(5):not(:empty)::before{content:"KV: "}td:nth-child(6):not(:empty)::before{content:"at once: "}
code{overflow-wrap:anywhere}}
"""
SEARCH = """<script>const box=document.querySelector('input'),rows=[...document.querySelectorAll('li')];
box.addEventListener('input',()=>{const words=box.value.toLowerCase().split(/\\s+/);
for(const row of rows)row.hidden=!words.every(word=>row.textContent.toLowerCase().includes(word))})</script>"""
FILE = "figures.jsonl"


def write_site(
    folder: Path, names: Sequence[str], planned: Iterable[tuple[str, tuple[Figure, ...]]], cards: Sequence[GpuRow]
) -> int:
    """How many pages; `planned` is walked once, and a checkpoint's page is written as soon as it is planned."""
    for name in ("models", "cards"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "style.css").write_text(STYLE, encoding="utf-8")
    by_card: dict[str, list[Figure]] = {card.name: [] for card in cards}
    kin = {row.id: row.model for row in facts().checkpoints if row.id in set(names)}
    with open(folder / FILE, "wb") as file:
        for name, figures in planned:
            (folder / "models" / file_name(name)).write_text(model_page(name, figures, kin), encoding="utf-8")
            for figure in figures:
                by_card[figure.card].append(figure)
                file.write(msgspec.json.encode(figure) + b"\n")
    for card in cards:
        (folder / "cards" / file_name(card.name)).write_text(card_page(card, by_card[card.name]), encoding="utf-8")
    (folder / "index.html").write_text(index_page(names, cards), encoding="utf-8")
    return len(names) + len(cards) + 1


def file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "--", name) + ".html"


def model_page(name: str, figures: Sequence[Figure], kin: Mapping[str, int]) -> str:
    others = [other for other, model in kin.items() if model == kin.get(name) and other != name]
    parts = [f"<h1>{escape(name)}</h1>"]
    for engine in dict.fromkeys(figure.engine for figure in figures):
        own = [figure for figure in figures if figure.engine == engine]
        parts.append(f"<h2>{escape(engine_named(engine).title)} {escape(own[0].release)}</h2>")
        parts.append(_table(own, "../cards/", own[0].context, lambda figure: figure.card))
    if not figures:
        parts.append(f"<p>No card of the list serves it to requests of {CONTEXT:,} tokens with up to eight cards.</p>")
    if others:
        links = "".join(f'<li><a href="{file_name(other)}">{escape(other)}</a></li>' for other in sorted(others))
        parts.append(f"<h2>Other checkpoints of the same model</h2><ul>{links}</ul>")
    return _page(name, f"Which cards serve {name}, with which command and for how many", "".join(parts), "../")


def card_page(card: GpuRow, figures: Sequence[Figure]) -> str:
    sentence = f"{human(card.total_bytes)} of memory, as CUDA sees it"
    parts = [f"<h1>{escape(card.name)}</h1><p>{escape(sentence)} ({escape(card.basis)}).</p>"]
    for engine in dict.fromkeys(figure.engine for figure in figures):
        own = [figure for figure in figures if figure.engine == engine]
        parts.append(f"<h2>{escape(engine_named(engine).title)} {escape(own[0].release)}</h2>")
        own.sort(key=lambda figure: (figure.count, figure.checkpoint.lower()))
        parts.append(_table(own, "../models/", CONTEXT, lambda figure: figure.checkpoint))
    return _page(
        card.name, f"Which models {card.name} serves, with which command and for how many", "".join(parts), "../"
    )


def _table(figures: Sequence[Figure], folder: str, context: int, subject: Callable[[Figure], str]) -> str:
    head = ("", "cards", "weights per GPU", "room", "KV cache", f"requests of {context:,} tokens", "command")
    rows = []
    for figure in figures:
        name = subject(figure)
        cells = (
            f'<td><a href="{folder}{file_name(name)}">{escape(name)}</a></td>',
            f'<td class="n">{figure.count}</td>',
            f'<td class="n">{human(figure.weights_bytes)}</td>',
            f'<td class="n">{human(figure.room_bytes)}</td>',
            f'<td class="n">{f"{figure.tokens:,} tokens" if figure.tokens else ""}</td>',
            f'<td class="n">{f"{figure.users:.3g}" if figure.users else ""}</td>',
            f"<td><code>{escape(figure.command)}</code></td>",
        )
        rows.append(f"<tr>{''.join(cells)}</tr>")
    titles = (
        f'<th class="n">{title}</th>' if 0 < at < len(head) - 1 else f"<th>{title}</th>"
        for at, title in enumerate(head)
    )
    return f"<table><tr>{''.join(titles)}</tr>{''.join(rows)}</table>"


def index_page(names: Sequence[str], cards: Sequence[GpuRow]) -> str:
    def links(folder: str, titles: Sequence[str]) -> str:
        return "".join(f'<li><a href="{folder}/{file_name(title)}">{escape(title)}</a></li>' for title in titles)

    body = (
        "<h1>What fits where</h1><p>How many of a card a model needs to serve requests of "
        f"{CONTEXT:,} tokens, and what is left for its KV cache.</p>"
        '<p><input type="search" placeholder="model or card" aria-label="model or card"></p>'
        f"<h2>Cards</h2><ul>{links('cards', [card.name for card in cards])}</ul>"
        f"<h2>Models</h2><ul>{links('models', sorted(names, key=str.lower))}</ul>{SEARCH}"
    )
    return _page("What fits where", "How many of a card a model needs, planned", body, "")


def _page(title: str, about: str, body: str, root: str) -> str:
    from importlib.metadata import version

    foot = f"Planned by oomph {version('oomph')} on {date.today().isoformat()}; nothing was measured for this page. "
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)} - oomph</title>'
        f'<meta name="description" content="{escape(about)}">'
        f'<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="{root}style.css"></head>'
        f'<body><p><a href="{root}index.html">All models and cards</a></p>{body}<footer>{foot}Run the command behind '
        "<code>oomph plan --gpu CARDS --</code> to see the whole plan.</footer></body></html>"
    )
