"""gate.py FILE ARGS...: `python -m sglang.launch_server ARGS`, which waits for FILE once Python has read the libraries
that never touch the card. So the next server's imports overlap the load of the one before it, and nothing else of its
start changes.
"""

import contextlib
import os
import runpy
import sys
import time

if __name__ == "__main__":
    gate = sys.argv[1]
    for name in ("torch", "transformers", "triton", "fastapi", "uvicorn", "zmq", "openai", "numpy", "scipy"):
        with contextlib.suppress(ImportError):
            __import__(name)
    while not os.path.exists(gate):
        time.sleep(0.02)
    sys.argv = ["sglang.launch_server", *sys.argv[2:]]
    runpy.run_module("sglang.launch_server", run_name="__main__", alter_sys=True)
