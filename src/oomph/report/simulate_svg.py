"""A simulation as a picture: KV cache, running and waiting requests over time, or a sweep."""

from collections.abc import Sequence
from typing import Any

from oomph.report.safe import escape
from oomph.report.screens.simulate import duration
from oomph.simulate.api import Held, Simulation, Sweep
from oomph.simulate.result import Result
from oomph.text.output_file import write_output

WIDTH, HEIGHT, LEFT, GAP = 820, 150, 70, 34


def write(answer: Any, path: str) -> None:
    write_output(path, draw(answer) + "\n", is_markup=True)


def draw(answer: Any) -> str:
    panels = _panels(answer)
    height = len(panels) * (HEIGHT + GAP) + GAP
    body = "".join(_panel(i, *panel) for i, panel in enumerate(panels))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="100%" role="img" '
        f'font-family="system-ui,sans-serif" font-size="12"><rect width="100%" height="100%" fill="#fff"/>{body}</svg>'
    )


Panel = tuple[str, Sequence[tuple[float, float]], float, str, str, str]  # title, points, top, top's label, x's, colour


def _panels(answer: Any) -> list[Panel]:
    if isinstance(answer, Held):
        result = answer.result or answer.beyond
        return _over_time(result, f"{answer.users:,} users: ") if result is not None else []
    if isinstance(answer, Simulation):
        return _over_time(answer.result, "")
    if isinstance(answer, Sweep):
        return _over_users(answer.rows)
    out = []
    for side in (answer.before, answer.after):
        version = side.setup.deployment.engine.version
        out += [(f"vLLM {version}: {p[0]}", *p[1:]) for p in _panels(side)]
    return out


def _over_time(result: Result, prefix: str) -> list[Panel]:
    end = duration(result.seconds)
    most = max([p.waiting for p in result.timeline], default=0.0)
    panels: list[Panel] = [
        (f"{prefix}KV cache in use", [(p.seconds, p.used) for p in result.timeline], 1.0, "100%", end, "#0ea5e9"),
        (f"{prefix}requests running", [(p.seconds, p.running) for p in result.timeline], max(1.0, result.max_running),
         f"{result.max_running:,}", end, "#2563eb"),
    ]  # fmt: skip
    if most:
        waiting = [(p.seconds, p.waiting) for p in result.timeline]
        panels.append((f"{prefix}requests waiting", waiting, most, f"{most:,.0f}", end, "#f59e0b"))
    return panels


def _over_users(rows: Sequence[tuple[int, Result]]) -> list[Panel]:
    end = f"{rows[-1][0]:,} users"
    out: list[Panel] = []
    for title, values, unit, colour in (
        ("output tokens/s", [r.output_tokens_per_second for _, r in rows], "", "#2563eb"),
        ("P95 first token", [r.ttft.p95 for _, r in rows], " s", "#dc2626"),
        ("P95 ms per token", [r.tpot.p95 * 1000 for _, r in rows], " ms", "#f59e0b"),
        ("KV cache at most", [100 * r.kv_peak for _, r in rows], "%", "#0ea5e9"),
    ):
        top = max(values) or 1.0
        points = [(float(n), v) for (n, _), v in zip(rows, values)]
        out.append((title, points, top, f"{top:,.3g}{unit}" if top < 1000 else f"{top:,.0f}{unit}", end, colour))
    return out


def _panel(
    index: int, title: str, points: Sequence[tuple[float, float]], top: float, label: str, end: str, colour: str
) -> str:
    y0 = GAP + index * (HEIGHT + GAP)
    last = max((x for x, _ in points), default=0.0) or 1.0
    width = WIDTH - LEFT - 20
    base = y0 + HEIGHT

    def place(across: float, up: float) -> str:
        return f"{LEFT + width * across / last:.1f},{base - HEIGHT * min(1.0, up / (top or 1.0)):.1f}"

    path = " ".join(place(x, y) for x, y in [(0.0, points[0][1] if points else 0.0), *points])
    return (
        f'<text x="{LEFT}" y="{y0 - 8}" font-weight="600">{escape(title)}</text>'
        f'<line x1="{LEFT}" y1="{base}" x2="{WIDTH - 20}" y2="{base}" stroke="#888"/>'
        f'<line x1="{LEFT}" y1="{y0}" x2="{WIDTH - 20}" y2="{y0}" stroke="#8884"/>'
        f'<text x="{LEFT - 6}" y="{y0 + 4}" text-anchor="end">{escape(label)}</text>'
        f'<text x="{LEFT - 6}" y="{base + 4}" text-anchor="end">0</text>'
        f'<text x="{WIDTH - 20}" y="{base + 14}" text-anchor="end">{escape(end)}</text>'
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
    )
