"""Ollama behind the protocol: its own commands and defaults, and the llama-server inside it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from oomph.engines.llamacpp.engine import ENGINE as LLAMACPP, GgufEngine
from oomph.engines.protocol import part
from oomph.engines.values import Words
from oomph.ir import Deployment, Engine, Model
from oomph.units import MIB

if TYPE_CHECKING:
    from oomph.commands.call import Call


class Ollama(GgufEngine):
    name = "ollama"
    title = "Ollama"
    words = Words(
        stages=LLAMACPP.words.stages,
        missing_stages=LLAMACPP.words.missing_stages,
        opens={**LLAMACPP.words.opens, "runtime_request": "llama runner started in"},
        cache_unit=LLAMACPP.words.cache_unit,
        lost_reason="Ollama's own log (journalctl -u ollama, server.log): the runner's lines before it ended",
    )

    programs = ("ollama",)
    images = ("ollama",)
    variables = ("OLLAMA_",)
    plain_names = True
    subcommands = ("run", "pull", "serve", "create", "show", "stop", "push", "list", "ls", "ps", "cp", "rm")
    launches = (r"\bollama (?:run|pull|serve)\b",)
    runs = "llamacpp"
    spare_bytes = 1024 * MIB  # --fit-target of the llama-server inside (engines/ollama/planner.py)
    frame_paths = ("/ollama/",)

    newest = part("facts.ollama.defaults", "NEWEST")
    looked_at = part("facts.ollama.defaults", "LOOKED_AT")
    write_command = part("engines.ollama.command", "to_words")
    plan = part("engines.ollama.planner", "plan_ollama")
    controls = part("engines.ollama.controls", "CONTROLS")
    log_rows = part("facts.ollama.logs", "ROWS")
    ways = part("engines.ollama.offer", "ways")
    case_rows = part("engines.ollama.case_levers", "SETTINGS")
    levers = part("engines.ollama.levers", "levers")
    simulation = part("engines.ollama.simulation", "build")

    def nearest(self, version: str) -> tuple[str, str]:
        return version.removeprefix("v"), ""

    def starts_server(self, words: Sequence[str]) -> bool:
        return tuple(words[1:2]) == ("run",)

    def implied_start(self, words: Sequence[str]) -> tuple[str, ...]:
        names = [word for word in words[2:] if not word.startswith("-")]
        return (words[0], "run", names[0]) if tuple(words[1:2]) == ("pull",) and names else ()

    def described_in(self, text: str, name: str) -> tuple[str, ...]:
        if "FROM" not in text.upper():
            return ()
        from oomph.engines.ollama.modelfile import modelfile_words

        return modelfile_words(text, name)

    def knows_flag(self, flag: str) -> bool:
        """`ollama run` has none that moves memory; oomph's own for the PARAMETERs of a Modelfile stand in commands."""
        from oomph.engines.ollama.command import OPTIONS

        return flag.removeprefix("--").replace("-", "_") in OPTIONS

    def read_command(self, call: "Call", release: Engine | str | None) -> list[Deployment]:
        from oomph.commands.call import choose_release
        from oomph.engines.ollama.command import deployment

        return [deployment(call, choose_release(self, release)[0])]

    def simulated_model(self, deployment: Deployment) -> Model:
        from oomph.engines.ollama.planner import resolve_name

        return resolve_name(deployment.model, deployment.environment)[0]

    def file_command(self, name: str, context: int, users: int, *, whole: bool = True) -> list[str]:
        settings = [f"OLLAMA_CONTEXT_LENGTH={context}", f"OLLAMA_NUM_PARALLEL={users}"]
        return [*settings, "ollama", "run", f"hf.co/{name}"]


ENGINE = Ollama()
