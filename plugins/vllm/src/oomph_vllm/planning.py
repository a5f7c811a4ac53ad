"""The plan of a resolved configuration, made beside the start, and what is made of it later.

Only oomph's public functions and the JSON contract are used, so that an oomph of another version will do.
"""

import json
import os
import shlex
import threading
import time
from collections.abc import Mapping
from typing import Any

from oomph_vllm import hooks, lines, run, state
from oomph_vllm.config import environment, value_at, words

WAIT_S = 3.0  # of the five seconds that a reading may take


_threads: list[threading.Thread] = []  # those that plan


def _before_fork() -> None:
    """A module that another thread is importing while a process forks waits for ever when the child imports it."""
    others = [thread for thread in _threads if thread is not threading.current_thread()]
    for thread in others:
        thread.join(WAIT_S)
    _threads[:] = [thread for thread in _threads if thread.is_alive()]


def _after_fork_in_child() -> None:
    if _threads:
        hooks.stop_watching()
    _threads.clear()


if hasattr(os, "register_at_fork"):  # where processes are forked
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)


class Planned:
    """A plan that is being made. `answer` is the contract's JSON, or empty while and where there is none."""

    def __init__(self, config: Any, version: str, its_run: run.Run, say: bool) -> None:
        self.answer: dict[str, Any] = {}
        self.plan: Any = None
        self._used_before = state.used()  # the engine's own context is not there yet, and will be while this is planned
        self._thread = threading.Thread(
            target=self._make, args=(config, version, its_run, say), name="oomph-plan", daemon=True
        )
        _threads.append(self._thread)
        self._thread.start()

    def wait(self) -> None:
        self._thread.join(WAIT_S)

    def _make(self, config: Any, version: str, its_run: run.Run, say: bool) -> None:
        try:
            began = time.perf_counter()
            first = make_plan(words(config), version, value_at(config, "model_config.revision"))
            self.plan = self._without_ourselves(first)
            self.answer = self.plan.to_dict()
            its_run.write("cards", {"gpus": [card_of(gpu) for gpu in self.plan.deployment.gpus]})
            if say:
                lines.say(lines.foreseen(self.answer, state.holders(), time.perf_counter() - began))
        except Exception as error:
            lines.say([f"this start is not planned: {type(error).__name__}: {error}"])

    def _without_ourselves(self, plan: Any) -> Any:
        """The plan, with what this engine has taken since it was first looked at counted as free."""
        from msgspec.structs import replace

        import oomph

        own = [max(0, now - then) for then, now in zip(self._used_before, state.used())]
        gpus = plan.deployment.gpus
        taken = [own[state.physical(index)] if state.physical(index) < len(own) else 0 for index in range(len(gpus))]
        cards = tuple(replace(card, used_bytes=max(0, card.used_bytes - size)) for card, size in zip(gpus, taken))
        return oomph.plan(replace(plan.deployment, gpus=cards))

    def learn(self, measured: Mapping[str, int]) -> None:
        """The record for `oomph learn`: figures only."""
        if self.plan is None:
            return
        deployment = self.plan.deployment
        try:
            from oomph.machine.learn import start, store

            store.remember(start.start_of(deployment, deployment.gpus, dict(measured), "oomph-vllm"))
        except Exception as error:
            lines.say([f"nothing was learnt of this start: {error}"])


def card_of(gpu: Any) -> dict[str, Any]:
    """As the contract has it: what others held when the engine began is part of it."""
    return {"name": str(gpu.name), "total_bytes": int(gpu.total_bytes), "used_bytes": int(gpu.used_bytes)}


def make_plan(command: list[str], version: str, revision: str | None = None) -> Any:
    import oomph

    planned = [*command[:2], local_folder(command[2], revision), *command[3:]]
    settings = [f"{name}={value}" for name, value in environment().items() if name != "CUDA_VISIBLE_DEVICES"]
    text = shlex.join(["env", *settings, *planned] if settings else planned)
    try:
        return oomph.plan(text, engine=f"vllm=={version}", advise=False)
    except oomph.CommandError:
        return oomph.plan(text, advise=False)  # a release that this oomph does not know: the newest one that it does


def local_folder(model: str, revision: str | None) -> str:
    """What vLLM has read already: a plan never asks the network."""
    if os.path.isdir(model):
        return model
    try:
        from huggingface_hub import try_to_load_from_cache

        file = try_to_load_from_cache(model, "config.json", revision=revision)
    except Exception:
        return model
    return os.path.dirname(file) if isinstance(file, str) else model


def explained(record: Mapping[str, Any]) -> dict[str, Any]:
    """`oomph explain` of the record; empty where it cannot."""
    try:
        import oomph

        return dict(oomph.explain(json.dumps(record, indent=1, default=str)).to_dict())
    except Exception:
        return {}
