"""A comparison for people: one line an engine, then which to take and how."""

from collections import Counter

from oomph.answers.compare import Comparison, Row
from oomph.engines.registry import engine_named
from oomph.report.terminal import Style, wrap
from oomph.units import gib

_BASIS = "users: requests of the whole context at once; tok/s: of each user that is asked for; bits: of a weight."


def render(comparison: Comparison, style: Style, *, width: int = 100, everything: bool = False) -> str:
    gpus = " + ".join(f"{n} x {name}" if n > 1 else name for name, n in Counter(comparison.gpus).items())
    wanted = f" for {comparison.users} users at once" if comparison.users > 1 else ""
    lines = [
        "",
        f"  {style.bold(comparison.model)} on {gpus}, {comparison.context:,} tokens of context{wanted}",
        "",
        f"  {'':<13}{'fits':<8}{'users':>6}{'tok/s':>7}{'on GPUs':>10}{'on CPU':>10}{'bits':>6}  checkpoint",
    ]
    for row in comparison.rows:
        # the commands below have the whole name
        name = row.checkpoint if 62 + len(row.checkpoint) <= width else row.checkpoint.rpartition("/")[2]
        lines.append(
            f"  {style.bold(f'{engine_named(row.engine).title:<13}')}{_verdict(row, style)}{_figures(row)}  {name}"
        )
        if row.why:
            short = f", {gib(row.short_bytes)} short" if row.short_bytes else ""
            lines += wrap(style.dim(row.why + short), width, " " * 15, " " * 15)
    lines += [
        "",
        *wrap(f"{style.bold('Take')}     {comparison.advice}", width, "  ", " " * 11),
        "",
        *[f"  {engine_named(r.engine).title:<13}{r.command}" for r in comparison.rows if r.fits and r.command],
        "",
        *wrap(
            style.dim(f"{_BASIS} The best of each engine by this measure: {comparison.objective}."), width, "  ", "  "
        ),
    ]
    if comparison.interrupted:
        lines.append("  The search was stopped: these are the engines so far.")
    return "\n".join(lines).rstrip() + "\n\n"


def _verdict(row: Row, style: Style) -> str:
    text = "yes" if row.on_gpu else "partly" if row.fits else "no"
    return {"yes": style.good, "no": style.bad}.get(text, style.bold)(f"{text:<8}")


def _rate(row: Row) -> str:
    rate = row.tokens_per_second_each
    return "-" if rate is None else f"{rate:,.0f}" if rate >= 9.95 else f"{rate:.1f}"


def _figures(row: Row) -> str:
    users = f"{row.users:.1f}" if row.fits and row.users % 1 else f"{row.users:.0f}" if row.fits else "-"
    host = gib(row.host_bytes) if row.host_bytes else "-"
    bits = f"{row.bits:.1f}" if row.bits else "-"
    weights = gib(row.weights_bytes) if row.weights_bytes else "-"
    return f"{users:>6}{_rate(row):>7}{weights:>10}{host:>10}{bits:>6}"
