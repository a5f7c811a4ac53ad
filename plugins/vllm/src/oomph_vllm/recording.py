"""PyTorch's memory snapshot of a start that dies: recorded from the load on where OOMPH_SNAPSHOT names a file.

Recording costs a stack trace per allocation, so that it is never on by itself. `oomph run --snapshot FILE` sets the
variable, and `oomph explain FILE` reads what is written.
"""

import os
import sys
from pathlib import Path
from typing import Any

VARIABLE = "OOMPH_SNAPSHOT"
MOST = 100_000  # events of the history: about 10 MB


class Recording:
    running = False


def begin() -> None:
    """Once, when the device is known and before weights are created."""
    if Recording.running or not os.environ.get(VARIABLE):
        return
    _memory()._record_memory_history(max_entries=MOST, stacks="python")
    Recording.running = True


def write(rank: int) -> Path | None:
    """The file of this rank: the name as it was given for the first, with the rank before its suffix for the others."""
    if not Recording.running:
        return None
    path = Path(os.environ[VARIABLE])
    path = path if rank == 0 else path.with_suffix(f".rank{rank}{path.suffix}")
    _memory()._dump_snapshot(str(path))
    return path


def _memory() -> Any:
    return sys.modules["torch"].cuda.memory
