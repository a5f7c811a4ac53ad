"""Commands that go on for days: the page and the server for agents."""

import gc

_OFTEN = (700, 10, 10)  # as CPython begins; a short command waits for many more (cli/main.py), which here would pile up


def collect_often() -> None:
    gc.freeze()  # modules and tables are not looked at again
    gc.set_threshold(*_OFTEN)
