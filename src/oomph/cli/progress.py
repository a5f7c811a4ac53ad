"""A bar on a terminal for what takes longer than a second; nothing where nobody is looking."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_AFTER = 1.0  # seconds before a bar is shown
Step = Callable[[str, int, int], None]  # (what is tried, how many are done, of how many)


@contextmanager
def progress(title: str) -> Iterator[Step]:
    """rich is imported when the first bar is shown. It goes to standard error, below the guard that quotes nobody."""
    bar: Any = None
    task: Any = None
    begin = time.monotonic()
    watched = sys.stderr.isatty()

    def step(what: str, done: int, total: int) -> None:
        nonlocal bar, task
        if not watched or time.monotonic() - begin < _AFTER:
            return
        if bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            console = Console(file=getattr(sys.stderr, "unguarded", sys.stderr))
            bar = Progress(
                TextColumn(title), BarColumn(), TextColumn("{task.fields[what]}", markup=False), TimeElapsedColumn(),
                console=console, transient=True,
            )  # fmt: skip
            bar.start()
            task = bar.add_task(title, total=total, what="")
        bar.update(task, completed=done, total=total, what=_shown(what))

    try:
        yield step
    finally:
        if bar is not None:
            bar.stop()


def _shown(what: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in what)[:48]
