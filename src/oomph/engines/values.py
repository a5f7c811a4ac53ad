"""What the methods of an engine give to the rest of oomph: its words, its knobs, its offers (engines/protocol.py)."""

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from msgspec import Struct

from oomph.ir import Deployment, Plan

Planner = Callable[[Deployment], Plan]


class Words(Struct, frozen=True):
    """How this engine's users call things, for screens and pages."""

    stages: Mapping[str, str] = {}  # StageName -> "while loading the weights"; what is missing is worded as vLLM's is
    missing_stages: tuple[str, ...] = ()  # what a start of this engine does not have
    opens: Mapping[str, str] = {}  # StageName -> what is printed when it begins, as its users see it in a log
    cache_unit: str = "blocks"  # what the KV cache is counted in
    lost_reason: str = "the last line of the first traceback: the exception and its message"  # what a cut log lacks


class FitKnobs(Struct, frozen=True):
    """The names of the three settings that `fit` searches over, and what they are if nobody sets them."""

    context: str  # the flag for the longest request, by its field name: "max_model_len"
    users: str  # the flag for the requests at once: "max_num_seqs"
    share: str  # the flag for the share of a GPU's memory: "gpu_memory_utilization"
    default_share: float  # 0.0: the engine chooses it for each card
    known_flags: frozenset[str]  # the fields that this release reads: an arm that needs another is left out
    # the stages whose peak grows with the share
    shared_stages: tuple[str, ...] = (
        "startup_free_memory", "kv_alloc", "cudagraph_capture", "sampler_warmup", "runtime_request"
    )  # fmt: skip


class Control(Struct, frozen=True):
    """One flag that the page lets people move, and how."""

    field: str  # of Deployment.flags: "max_model_len"
    label: str  # "Context"
    form: Literal["steps", "share", "choice", "switch", "number"]
    resolved: str = ""  # the setting that shows what is in force where nobody sets it; the field's own name if ""
    choices: tuple[str, ...] = ()  # for a choice: values as they are typed, the engine's default left out
    steps: tuple[int, ...] = ()  # for steps; () = doublings up to what the model takes


class Container(Struct, frozen=True):
    """What a container needs to know in order to start a deployment."""

    image: str  # "vllm/vllm-openai:v0.21.0"
    entry_point: tuple[str, ...]  # ("vllm", "serve")
    arguments: tuple[str, ...]
    port: int
    health_path: str = "/health"


class Offer(Struct, frozen=True):
    """The best that an engine can do for a model on some GPUs, for `compare`."""

    plan: Plan | None  # None: it cannot be planned, `why` says the reason
    words: tuple[str, ...] = ()  # the command to show
    users: float = 0.0  # requests of the asked context at once
    host_bytes: int = 0  # weights in host memory
    why: str = ""  # what is wrong with it; "" = nothing
    checkpoint: str = ""  # what was looked for, where nothing could be planned
    gives_up: tuple[str, ...] = ()  # beside the engine's defaults, in words
    at: "Callable[[int], Offer] | None" = None  # the same choice with another context
    is_met: bool = True  # False: it starts, with less than what was asked for


class Way(Struct, frozen=True):
    """One way to serve a model, of an engine that places layers: a file, its cache, and what is on the CPU."""

    standing: Mapping[str, float]  # by the measures of ir/objective.py, what is known of it without a plan
    at: "Callable[[int, int], Offer]"  # with a context for each of so many users
    is_usual: bool = False  # people can read along with it also where nobody knows the speed


class SafeShare(NamedTuple):
    """How much of its GPUs a plan may be given."""

    value: float  # two decimals, rounded down; 0: none is safe
    reason: str  # what limits it
