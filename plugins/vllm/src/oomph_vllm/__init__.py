"""oomph inside vLLM: the plan at the start, the measured ledger when it is ready, the explanation when it dies.

vLLM calls `register` in each of its processes (entry point `vllm.general_plugins`). It imports nothing heavy and
changes nothing that vLLM does: a failure of ours is one log line. `OOMPH=0` turns it off, `OOMPH=quiet` only records,
`OOMPH=refuse` stops a start that the plan calls impossible, `OOMPH=watch` also looks while it serves.
"""

import logging
import os

__all__ = ["Refused", "register"]

_registered = False


class Refused(RuntimeError):
    """The plan says that this start dies, and OOMPH=refuse asks to stop it before the load."""


def register() -> None:
    """Called by vLLM, in every process and possibly more than once."""
    global _registered
    if _registered or mode() == "0":
        return
    _registered = True
    try:
        from oomph_vllm import hooks, log_lines, run

        run.join()
        log_lines.keep()
        hooks.install()
    except Exception as error:
        logging.getLogger("vllm.oomph").warning(
            "oomph is not watching this process: %s: %s", type(error).__name__, error
        )


def mode() -> str:
    """`0`, `quiet`, `refuse`, `watch`, or empty: print and record."""
    return os.environ.get("OOMPH", "").strip().lower()
