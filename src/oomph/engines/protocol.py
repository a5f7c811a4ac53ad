"""What an engine is to oomph: the one protocol that a folder under `engines/` fills.

The author of a new engine writes

- `facts/NAME/`: its releases, flags, defaults and log rows, as data;
- `engines/NAME/engine.py`: a class that derives from `EngineProtocol`, and `ENGINE = TheClass()`;
- further files of `engines/NAME/`, one idea each, which the methods of that class import;
- `engines/NAME/rules/`: a file for each diagnosis that only this engine needs, found there by the doctor;
- one word in `engines/registry.py`.

Nothing else in oomph names an engine: the other packages ask the registry for the engine of a deployment and call the
methods below. They come in the order in which a command becomes an answer. Attributes are read whenever any command or
log is looked at, so `engine.py` imports nothing but this module at its top; `part` names the function that is a
method's body, and every other method imports what it needs when it is called (`oomph --help` has 100 ms and a plan
200 ms).

What a method gets and returns are the types of `ir/`: a `Deployment` is what the user asked for (the engine's release,
its flags by the engine's own field names, the GPUs, the environment), a `Model` is the checkpoint without any engine,
a `Plan` is the answer. Bytes are `int`. A wrong command raises `CommandError`, something that cannot be planned
`CannotPlan`: one sentence that says what and where.

A method that has a body here is optional: the body is what an engine does that says nothing of its own. An engine that
is only recognised, so that its logs can be explained, leaves `read_command` and `plan` as they are.
"""

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from sys import modules
from typing import TYPE_CHECKING, Any, Literal

from oomph.engines.values import Container, Control, FitKnobs, Planner, SafeShare, Way, Words
from oomph.errors import CannotPlan
from oomph.ir import Deployment, Device, Engine, HostPlan, Lever, Model, Plan
from oomph.ir.world import Shortage, World

if TYPE_CHECKING:  # the packages that call an engine: named here in annotations only
    from oomph.commands.call import Call
    from oomph.doctor.case import Case
    from oomph.emit.resources import Host
    from oomph.engines.common.case_levers import CaseRow, Figure
    from oomph.facts.loglines import LogRow
    from oomph.ir import StageName
    from oomph.ir.observation import Observation
    from oomph.search.request import Arm
    from oomph.simulate.build import Built, Factors
    from oomph.simulate.speed import Timing


class Part:
    """A method of an engine that is a function, or a constant, of another module; that is imported when it is asked
    for. tests/engines/test_protocol.py compares their parameters with the protocol's."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __get__(self, engine: "EngineProtocol | None", owner: type) -> Any:
        if engine is None:
            return self
        path = f"oomph.{self.module}"
        place = modules.get(path)
        if place is None or getattr(place.__spec__, "_initializing", False):  # by another thread: it is waited for
            place = import_module(path)
        value = getattr(place, self.name)
        return value if callable(value) else lambda *_: value


def part(module: str, name: str) -> Any:
    """A row of an engine's table: where the body of a method is."""
    return Part(module, name)


def fills(engine: "EngineProtocol", method: str) -> bool:
    """Whether an engine has a method of its own, instead of the protocol's answer for those that have none."""
    return getattr(type(engine), method) is not getattr(EngineProtocol, method)


class EngineProtocol:
    """Every engine derives from it. It is no `typing.Protocol`: deriving from one takes ten times as long."""

    # ---- names -------------------------------------------------------------------------------------------------------

    name: str  # the folder's name; in --engine and in JSON: "vllm"
    title: str  # on screens: "vLLM"
    aliases: tuple[str, ...] = ()  # further spellings that --engine takes, in lower case: "llama.cpp"
    words: Words = Words()

    # ---- releases ----------------------------------------------------------------------------------------------------

    package: str = ""  # the Python package whose installed or pinned version is the engine's; "" = there is none

    def releases(self) -> tuple[str, ...]:
        """The known releases, oldest first; () where releases do not matter to a plan."""
        return ()

    def newest(self) -> str:
        """The release that is planned with when nothing names one."""
        all_releases = self.releases()
        return all_releases[-1] if all_releases else ""

    def looked_at(self) -> str:
        """The day on which the newest release that the facts name was the newest: 2026-11-15."""
        raise NotImplementedError

    def nearest(self, version: str) -> tuple[str, str]:
        """The known release whose facts stand for `version`, and a note for the report where the two differ."""
        return version, ""

    def image_release(self, tag: str) -> str:
        """The release that a container image's tag names; "" where the tag names none."""
        return ""

    # ---- its commands and files --------------------------------------------------------------------------------------

    programs: tuple[str, ...] = ()  # names of its executables: "vllm"
    modules: tuple[str, ...] = ()  # first names of modules behind `python -m`: "vllm"
    images: tuple[str, ...] = ()  # what the name of a container image contains, in lower case
    own_images: Mapping[str, str] = {}  # maker of the cards -> the official image with code for them
    no_device: str = ""  # what it prints where its build finds no card of its vendor
    variables: tuple[str, ...] = ()  # how the environment variables begin that it reads: "VLLM_"

    def recognises(self, program: str, words: Sequence[str]) -> bool:
        """Whether `words` start this engine directly; `program` is the name of words[0] without folder and ending."""
        if program == "python" and "-m" in words[1:-1]:
            package, _, inner = words[words.index("-m", 1) + 1].partition(".")
            return package in self.modules or (package == "dynamo" and inner == self.name)  # NVIDIA Dynamo's workers
        return program in self.programs

    plain_names: bool = False  # whether a model may be called by one plain word: "mistral"
    subcommands: tuple[str, ...] = ()  # what may follow the program's name beside a flag; () = a model or a file
    launches: tuple[str, ...] = ()  # how a line of a script begins that starts a server, as regular expressions

    def starts_server(self, words: Sequence[str]) -> bool:
        """Whether recognised words load a model at all: `vllm bench` and `ollama pull` do not."""
        return True

    def implied_start(self, words: Sequence[str]) -> tuple[str, ...]:
        """The start that preparing words announce: `ollama pull NAME` beside a server means `ollama run NAME`."""
        return ()

    def described_in(self, text: str, name: str) -> tuple[str, ...]:
        """The command that a file of this engine's own kind stands for (a Modelfile), or its variables in another file;
        `name` is the file's, "" = not known."""
        return ()

    def calls_in(self, source: str) -> bool:
        """Whether Python source builds this engine itself, as `vllm.LLM(...)` does."""
        return False

    def knows_flag(self, flag: str) -> bool:
        """Whether some release has had this flag, by its name on the command line."""
        return False

    def read_command(self, call: "Call", release: Engine | str | None) -> list[Deployment]:
        """A command that was peeled out of its wrappings (commands/call.py) to deployments without GPUs.

        `release` is what --engine says; commands/call.py `choose_release` turns it into an `Engine`. Usually there is
        one deployment; a Python source (`call.source`, see `calls_in`) may hold several.
        """
        raise CannotPlan(f"{self.title} commands are not read yet")

    def write_command(self, deployment: Deployment) -> list[str]:
        """The way back: reading these words gives the same flags again. Variables are not part of it."""
        raise CannotPlan(f"{self.title} commands cannot be written yet")

    def in_container(self, image: str, arguments: Sequence[str]) -> list[str]:
        """The command of a container that is given arguments only: the image's own entry point in front of them."""
        return [self.programs[0], *arguments]

    def image_vendor(self, image: str) -> str:
        """Whose cards alone an official image has code for; "" = several, or not known."""
        return ""

    def container_refusal(self, image: str, words: Sequence[str]) -> str:
        """Why a container of this official image ends at once with the words that it is given; "" = it does not."""
        return ""

    def memory_flags(self, deployment: Deployment) -> dict[str, Any]:
        """The flags without those in which two servers of the same kind differ: port, host, name."""
        return {field: value for field, value in deployment.flags.items() if field not in ("port", "host")}

    def at_release(self, deployment: Deployment, version: str) -> tuple[Deployment, tuple[str, ...]]:
        """The same command under another release, without the flags that it lacks; and a sentence for each of them."""
        from msgspec.structs import replace

        return replace(deployment, engine=replace(deployment.engine, version=version)), ()

    # ---- resolve and plan --------------------------------------------------------------------------------------------

    terms: tuple[str, ...] = ()  # what --given TERM=SIZE can pin
    layout: Literal["ranks", "placed"] = "ranks"  # GPUs are ranks with a share; or layers are placed, also on the host
    spare_bytes: int = 0  # of each GPU, which its own placement of layers leaves free

    degrees: tuple[str, ...] = ()  # the flags of its kinds of parallelism, the first to give up first

    def whole_experts(self, degree: int) -> dict[str, Any]:
        """The flags that give each of so many tensor-parallel ranks whole experts instead of a slice of all."""
        return {}

    def node_flags(self, nodes: int) -> dict[str, Any]:
        """The flags with which a command takes the GPUs of several nodes."""
        return {}

    def world(self, deployment: Deployment) -> World:
        """The worker processes that the command starts, each on a GPU of its own."""
        return World(1, 1)

    def too_few_gpus(self, deployment: Deployment, short: Shortage) -> str:
        """What it prints where there are fewer GPUs than ranks (engines/registry.py compares them)."""
        return f"{short.ranks} ranks need {short.ranks} GPUs, and there are {short.gpus}"

    def gpus_needed(self, deployment: Deployment) -> int:
        """How many GPUs the command asks for, on the nodes that it speaks of itself."""
        world = self.world(deployment)
        return max(world.here, world.reach) or world.total

    asks_the_hub: bool = True  # a model that is no path is a repository's id; False: the engine has names of its own

    def plan(self, deployment: Deployment, model: Model | None = None) -> Plan:
        """The answer. `model` is a checkpoint that is loaded already; else sources/load.py loads deployment.model."""
        raise CannotPlan(f"{self.title} cannot be planned yet")

    no_kernels: tuple[tuple[str, str], ...] = ()  # a vendor whose GPUs the engine does not run on, and a sentence

    def missing_kernels(self, deployment: Deployment) -> str:
        """Why the published packages do not run on these GPUs, and a build of one's own may. "" = they do."""
        return ""

    def host_plan(self, plan: Plan, model: Model | None = None) -> HostPlan | None:
        """What the processes hold of the host's memory, on the busiest node; None: it is not planned."""
        return None

    def uncounted_share(self, plan: Plan) -> float:
        """Of a memory that CPU and GPU share: what compilers, tuning and loading may take beyond the plan's figures."""
        from oomph.facts.unified import UNCOUNTED_PLAIN

        return UNCOUNTED_PLAIN

    def controls(self) -> tuple[Control, ...]:
        """What the page lets people move, the most used first."""
        return ()

    # ---- levers ------------------------------------------------------------------------------------------------------

    def levers(self, plan: Plan, model: Model | None = None) -> Iterable[Lever]:
        """What a person could change about this plan: one row per lever (ir/advice.py), its mildest setting first.

        The judge in advice/ plans them; an engine only says what can be tried, what it costs and which stages do not
        read it. What is in force already is left out.
        """
        return ()

    def refusal_levers(self, plan: Plan) -> Iterable[Lever]:
        """What could be changed about a command that the engine refuses, from its own words."""
        return ()

    def reasons(self, plan: Plan, model: Model | None = None) -> tuple[str, ...]:
        """Why this plan dies or is close, in a sentence or two with its figures."""
        return ()

    # ---- logs and their diagnosis ------------------------------------------------------------------------------------

    runs: str = ""  # the name of another engine that it runs inside, and whose lines its logs hold as well
    frame_paths: tuple[str, ...] = ()  # what the path of a traceback's frame contains: "/vllm"
    processes: tuple[str, ...] = ()  # names of processes that stand before its lines (logs/clean.py): "EngineCore"

    def log_rows(self) -> "tuple[LogRow, ...]":
        """The lines that it prints about memory (facts/NAME/logs.py)."""
        return ()

    def log_release(self, observations: "Sequence[Observation]") -> tuple[str, str]:
        """(version, where it is from), as a log tells it; ("", "") where it does not."""
        return "", ""

    def log_settings(self, observations: "Sequence[Observation]") -> tuple[str, dict[str, Any]]:
        """(model, flags) as the engine itself prints them; ("", {}) where it does not."""
        return "", {}

    def log_command(self, model: str, flags: Mapping[str, Any], environment: Mapping[str, str]) -> str:
        """A command as far as a log tells it, also where some of it is garbled; "" where it cannot be written."""
        return ""

    def case_rows(self, case: "Case") -> "Mapping[str, CaseRow]":
        """The levers that rules name, in this engine's words for a log that is not planned."""
        return {}

    def case_lever(self, case: "Case", name: str, figure: "Figure | None" = None) -> Lever | None:
        """One of them, with the figure that the log proves; None where it has none, or none that is safe."""
        row = self.case_rows(case).get(name)
        return row.of(name, case, figure) if row is not None else None

    def against(self, case: "Case") -> dict[str, str]:
        """Levers that guides list and that cannot help at the stage at which a run failed: why."""
        return {}

    def unplanned_share(self, unified: bool) -> float:
        """The highest share of a card that is offered where nothing is planned."""
        return 0.95

    def inferred(self, case: "Case") -> "tuple[StageName | None, str] | None":
        """For a log without an error: the stage in which the run would have died, and the figures that say so."""
        return None

    def failed_deployment(self, case: "Case") -> Deployment | None:
        """What was started, as far as the log tells, with observed terms pinned; None: remedies are not planned."""
        return None

    # ---- what fit, gpus and compare try ------------------------------------------------------------------------------

    def fit_knobs(self, version: str) -> FitKnobs | None:
        """The settings that `fit` searches over; None: it does not search this engine."""
        return None

    def highest_share(self, gpus: "tuple[Device, ...]") -> float:
        """How much of a GPU the engine may be given so that warming up and serving still fit."""
        return 0.95

    def safe_share(self, plan: Plan) -> SafeShare:
        """How much of its GPUs this very plan may be given, and what limits it."""
        return SafeShare(1.0, "")

    def arm_flags(self, arm: "Arm") -> dict[str, Any]:
        """An arm of the search (checkpoint, layout, KV dtype, graphs, ...) as this engine's flags, less defaults."""
        raise CannotPlan(f"the best flags for {self.title} cannot be searched yet")

    def serve_command(self, model: str) -> list[str]:
        """The shortest command that serves a model."""
        raise CannotPlan(f"{self.title} commands cannot be written yet")

    def file_command(self, name: str, context: int, users: int, *, whole: bool = True) -> list[str]:
        """The command that serves one GGUF file, all of it on the GPUs, for so many users of a context each.
        `name` is REPOSITORY:QUANTISATION. Without `whole` experts may be on the CPU."""
        raise CannotPlan(f"{self.title} does not serve GGUF files")

    def ways(self, model: str, gpus: "tuple[Device, ...]", planner: Planner, release: str) -> tuple[Way, ...]:
        """In which ways an engine that places layers can serve a model on these GPUs, by `planner`: the most exact file
        first, whole ones before those beside the CPU. `release`: what --engine says; "" = the newest known. Engines
        that batch requests are asked through `fit`."""
        raise CannotPlan(f"{self.title} cannot be compared yet")

    # ---- a scheduler for simulate ------------------------------------------------------------------------------------

    def simulated_model(self, deployment: Deployment) -> Model:
        """The checkpoint of a deployment, by the engine's own names."""
        from oomph.sources.load import load_once

        return load_once(deployment.model)

    def simulation(
        self, deployment: Deployment, model: Model, plan: Plan, factors: "Factors", *, accepted: float, timed: bool
    ) -> "Built":
        """What the simulated scheduler works with, and how long its steps take (simulate/build.py)."""
        raise CannotPlan(f"{self.title}'s scheduler cannot be simulated yet")

    def timing(self, plan: Plan, model: Model | None) -> "Timing | None":
        """How long the steps of a plan that fits take, for tokens per second (simulate/speed.py); None: not known."""
        return None

    # ---- emit --------------------------------------------------------------------------------------------------------

    emit_forms: tuple[str, ...] = ("command",)  # emit/__init__.py has all of them
    usage_metrics: tuple[str, ...] = ()  # of its /metrics: how full the KV cache is (0 to 1), and preemptions counted

    def config_file(self, deployment: Deployment) -> str:
        """The deployment as a file that the engine's own --config takes."""
        raise CannotPlan(f"{self.title} takes no config file")

    def container(self, deployment: Deployment) -> Container:
        """The deployment as a container, for docker, compose and Kubernetes."""
        raise CannotPlan(f"no container is known for {self.title}")

    def launch_lines(self, plan: Plan, nodes: int) -> str:
        """What to type on each of several nodes, as text."""
        raise CannotPlan(f"{self.title} on several nodes cannot be written yet")

    def node_commands(self, plan: Plan, nodes: int) -> tuple[list[str], list[str]]:
        """The words of the first node and of the others, for a deployment over several nodes."""
        raise CannotPlan(f"{self.title} cannot be written for several nodes yet")

    def host_needs(self, plan: Plan, nodes: int = 1) -> "Host":
        """The host memory, /dev/shm, processors and disk that one of so many nodes must have."""
        raise CannotPlan(f"what {self.title} needs of its host is not known")
