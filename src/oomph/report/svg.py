"""The plots of an answer as one picture."""

from collections.abc import Iterator

from oomph.report.answer import Answer, Answers, Plot, Plots, Series
from oomph.report.safe import escape
from oomph.text.output_file import write_output

WIDTH, HEIGHT, LEFT, GAP = 820, 150, 70, 34
_COLOURS = {"kv": "#0ea5e9", "weights": "#2563eb", "activations": "#f59e0b", "context": "#9333ea", "bad": "#dc2626"}


def write_plots(answer: Answer, path: str) -> None:
    write_output(path, draw_plots(answer) + "\n", is_markup=True)


def draw_plots(answer: Answer) -> str:
    panels = list(_panels(answer, ""))
    height = len(panels) * (HEIGHT + GAP) + GAP
    body = "".join(_panel(number, *panel) for number, panel in enumerate(panels))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="100%" role="img" '
        f'font-family="system-ui,sans-serif" font-size="12"><rect width="100%" height="100%" fill="#fff"/>{body}</svg>'
    )


def _panels(answer: Answer, prefix: str) -> Iterator[tuple[str, Plot, Series, str]]:
    for block in answer.blocks:
        if isinstance(block, Answers):  # of two releases
            for inside in block.answers:
                yield from _panels(inside, f"{inside.heading.about[0]}: ")
        elif isinstance(block, Plots):
            for plot in block.plots:
                for series in plot.series:
                    title = plot.title if len(plot.series) == 1 else f"{plot.title}: {series.label}"
                    yield f"{prefix}{title}", plot, series, block.end


def _panel(index: int, title: str, plot: Plot, series: Series, end: str) -> str:
    y0 = GAP + index * (HEIGHT + GAP)
    last, top = max(plot.xs, default=0.0) or 1.0, series.top or max(series.ys, default=0.0) or 1.0
    width, base = WIDTH - LEFT - 20, y0 + HEIGHT

    def place(across: float, up: float) -> str:
        return f"{LEFT + width * across / last:.1f},{base - HEIGHT * min(1.0, up / top):.1f}"

    points = list(zip(plot.xs, series.ys))
    path = " ".join(place(*point) for point in [(0.0, points[0][1] if points else 0.0), *points])
    label = f"{top:,.3g}{series.unit}" if top < 1000 else f"{top:,.0f}{series.unit}"
    return (
        f'<text x="{LEFT}" y="{y0 - 8}" font-weight="600">{escape(title)}</text>'
        f'<line x1="{LEFT}" y1="{base}" x2="{WIDTH - 20}" y2="{base}" stroke="#888"/>'
        f'<line x1="{LEFT}" y1="{y0}" x2="{WIDTH - 20}" y2="{y0}" stroke="#8884"/>'
        f'<text x="{LEFT - 6}" y="{y0 + 4}" text-anchor="end">{escape(label)}</text>'
        f'<text x="{LEFT - 6}" y="{base + 4}" text-anchor="end">0</text>'
        f'<text x="{WIDTH - 20}" y="{base + 14}" text-anchor="end">{escape(end)}</text>'
        f'<polyline points="{path}" fill="none" stroke="{_COLOURS[series.colour]}" stroke-width="1.6"/>'
    )
