"""What was learnt from starts, as lines."""

from collections.abc import Sequence
from datetime import datetime

from oomph.ir import TERM_WORDS
from oomph.machine.learn.start import OVERHEAD, Figure, Start
from oomph.report.terminal import clean
from oomph.units import human

_WORDS = {**TERM_WORDS, OVERHEAD: "activations and memory outside PyTorch"}


def render(start: Start) -> str:
    return "\n".join(start_lines(start)) + "\n"


def start_lines(start: Start) -> list[str]:
    source = f"{clean(start.source)}: " if start.source else ""
    head = f"{source}{clean(start.model)} with {start.engine} {start.version} on {clean(start.machine)}"
    return [head, *(f"  {_figure(figure)}" for figure in start.figures)]


def _figure(figure: Figure) -> str:
    words = _WORDS.get(figure.term, figure.term)
    span = f"{human(figure.low)} to {human(figure.high)}" if figure.low != figure.high else human(figure.low)
    doubt = "" if figure.is_trusted else ": far outside, shown and not trusted"
    return f"{words}: {human(figure.bytes)}, planned {human(figure.predicted)} ({span}){doubt}"


def list_lines(starts: Sequence[Start]) -> list[str]:
    if not starts:
        return ["nothing was learnt yet: oomph learn LOG"]
    lines = []
    for start in starts:
        when = datetime.fromtimestamp(start.at).strftime("%Y-%m-%d %H:%M")
        head, *figures = start_lines(start)
        lines += [f"{start.number}  {when}  {head}", *(f"   {line}" for line in figures)]
    return lines
