"""An engine with its flags on some GPUs: what the user asked for, before any engine has resolved it."""

from typing import Any, Literal

from msgspec import Struct

from oomph.ir.hardware import Device
from oomph.ir.ledger import Term, term


class Engine(Struct, frozen=True):
    name: str  # of its folder under engines/: vllm, sglang, llamacpp, ollama, trtllm
    version: str  # the release, such as 0.21.0
    version_from: str = ""  # who says so: --engine, image tag, pip install, installed package, newest known


class Measured(Struct, frozen=True):
    """A term as earlier starts showed it."""

    bytes: int
    low: int
    high: int
    starts: int  # how many of them


Usage = Literal["serve", "llm"]


class Place(Struct, frozen=True):
    """Where the process of a command looks for its model (sources/place.py)."""

    folders: tuple[str, ...] = ("",)  # in which a relative path is looked for; "" = the working directory
    container: bool = False  # it sees nothing of this machine but what is mounted
    mounted: tuple[str, ...] = ()  # paths of this machine that the command names and that are mounted
    exact: bool = False  # a name is a path or a repository's id: nothing is guessed
    believed: bool = True  # whether a folder that is called like a repository counts
    names: tuple[tuple[str, str], ...] = ()  # what the user says that a name is: a folder, or another name


class Deployment(Struct, frozen=True):
    engine: Engine
    model: str  # as the command names it
    flags: dict[str, Any]  # by the engine's own field name (max_model_len), only those given; values parsed
    gpus: tuple[Device, ...]
    environment: dict[str, str] = {}
    usage: Usage = "serve"  # vLLM's defaults differ between `vllm serve` and LLM(...)
    compile_cache: Literal["cold", "warm"] = "cold"
    given: dict[str, int] = {}  # terms pinned to an observed value, in bytes
    measured: dict[str, Measured] = {}  # the same from earlier starts on this machine (learn/)
    notes: tuple[str, ...] = ()  # what the parser wants the report to say
    gpu_count: int = 0  # GPUs that the command itself gives (docker --gpus 2, CUDA_VISIBLE_DEVICES); 0 = not said
    gpu_ids: str = ""  # the GPUs that a container is given by number: "0,1" (compose: device_ids)
    gpu_name: str = ""  # the GPUs that a manifest or a post names, as --gpu takes them; counts where --gpu is not given
    gpu_memory: str = ""  # what a manifest lets it use of each card: "20000MiB", "50%"; "" = all
    memory_limit: int = 0  # bytes of host memory that the container may have (docker -m, Kubernetes); 0 = not said
    ram_bytes: int = 0  # host memory of one node, as it is known (answers/host.py); 0 = not known
    ram_available: int = 0  # of it, not in use by others
    ram_bandwidth: int = 0  # bytes per second of host memory as sold; 0 = what such a machine usually has
    ram_from: str = ""  # "--ram", "this machine", "the container's limit"
    spelling: dict[str, str] = {}  # field -> the option as it was typed: "-tp"; written so again
    passed: tuple[str, ...] = ()  # words of the command that no plan reads and no field holds; written as they were
    place: Place = Place()  # where its process looks for files
    image_vendor: str = ""  # whose cards alone the container's image has code for, "cpu" = none; "" = it does not say
    own_build: bool = False  # the engine was built here, with kernels for these GPUs
    gpu_mention: str = ""  # the one card that the prose around a command speaks of; counts where there is no GPU at all

    def pin(self, own: Term) -> Term:
        """The term as the user or an earlier start on this machine saw it."""
        if own.name in self.given:
            return term(own.name, self.given[own.name], "given", why="given")
        seen = self.measured.get(own.name)
        if seen is None:
            return own
        why = f"as measured here on {seen.starts} start{'s' if seen.starts > 1 else ''}"
        return Term(own.name, seen.bytes, seen.low, seen.high, "measured", {}, why=why)
