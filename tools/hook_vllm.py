# mypy: ignore-errors
"""hook_vllm.py FOLDER: the plugin's hooks in vLLM's own classes, imported on a CPU with the GPU pretended.

FOLDER is an unpacked release (its *.py), named by its version; Python is one that has a CPU build of torch and vLLM's
requirements (tools/vllm_oracle/README.md). For every row of the table that the release has: the module is imported by
vLLM's own import, the class's function is wrapped once, and a call through the wrapper returns what the function
returns and raises what it raises, also when a reading throws. Prints a line per hook; exit status 1 if one is missing.
Not part of CI: vLLM and torch are gigabytes.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
for folder in ("tools/vllm_oracle", "plugins/vllm/src", "src"):
    sys.path.insert(0, str(ROOT / folder))
H200 = {"name": "NVIDIA H200", "sm": 90, "total": 150109880320, "count": 1}


def main(argv: list[str]) -> int:
    release = Path(argv[0]).resolve()
    sys.path.insert(0, str(release))
    import pretend

    pretend.install(H200)
    pretend.patch_vllm_nvml()
    import oomph_vllm.hooks as hooks
    from oomph_vllm import watching

    hooks.mode = lambda: "watch"  # every row, also those that are only there where they are asked for
    hooks.install(hooks.HOOKS, watching.watch)
    rows = [hook for hook in hooks.HOOKS if in_release(hook, release.name)]
    missing = [hook for hook in rows if not is_hooked(hook)]
    print(f"{release.name}: {len(rows) - len(missing)} of {len(rows)} hooks in vLLM's own classes")
    changed = [hook for hook in rows if hook not in missing and not leaves_as_is(hook, hooks)]
    for hook in changed:
        print(f"  changes what happens: {hook.name}")
    return 1 if missing or changed else 0


def in_release(hook, version: str) -> bool:
    from oomph.facts.vllm.versions import in_range

    return in_range(version, hook.since, hook.until)


def is_hooked(hook) -> bool:
    try:
        module = importlib.import_module(hook.module)
    except Exception as error:
        print(f"  {hook.module} does not import here: {type(error).__name__}: {str(error)[:120]}")
        return False
    owner, _, method = hook.name.rpartition(".")
    function = getattr(getattr(module, owner) if owner else module, method, None)
    if getattr(function, "_oomph", None) != hook:
        print(f"  not hooked: {hook.module}.{hook.name}")
        return False
    return True


def leaves_as_is(hook, hooks) -> bool:
    """The wrapper around a function of vLLM's signature, with readings that throw: result and error are its own."""

    def broken(*_):
        raise ZeroDivisionError

    def fails(*_, **__):
        raise MemoryError("its own")

    watch = hooks.Watch(broken, broken, broken, lambda: True)
    hooks._Trouble.is_over = False
    returned = hooks.wrapped(lambda *args, **kwargs: (args, kwargs), hook, watch)(1, two=2)
    hooks._Trouble.is_over = False
    try:
        hooks.wrapped(fails, hook, watch)(1)
    except MemoryError as error:
        return returned == ((1,), {"two": 2}) and str(error) == "its own"
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
