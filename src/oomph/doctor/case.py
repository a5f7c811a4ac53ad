"""A log, understood as far as it goes: what the rules look at."""

import re
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from oomph.doctor.ledger import Account, account, fullest_oom, number
from oomph.doctor.reading.stages import Death
from oomph.doctor.reading.towers import in_tower
from oomph.errors import OomphError
from oomph.facts.gpus import rows
from oomph.facts.speakers import Speaker
from oomph.facts.topics import MEMORY_TOPICS
from oomph.facts.vllm.facts import Facts, at
from oomph.facts.vllm.versions import NEWEST, in_range
from oomph.ir import Deployment, Device, StageName
from oomph.ir.evidence import StageBasis
from oomph.ir.log_kinds import LogKind
from oomph.ir.observation import Observation
from oomph.logs.attempts import Attempt
from oomph.logs.claims import Claim
from oomph.logs.deployment import Rebuilt
from oomph.units import GIB, MIB

# stages that do nothing but compare memory, and the one that is named by it
OF_MEMORY = ("startup_free_memory", "kv_check", "host_ram")


class Case(Struct, frozen=True):
    observations: tuple[Observation, ...]
    rebuilt: Rebuilt
    death: Death
    account: Account
    gpus: tuple[Device, ...] = ()
    named_gpu: str = ""  # a card that the text around the log mentions
    command_beside: Deployment | None = None  # the command beside the log, as its own engine reads it
    kv_heads: int = 0  # of the model, where it is known
    modules: dict[int, str] = {}  # packed size of a quantised module in units of 2 MiB -> its name
    notes: tuple[str, ...] = ()  # about the text: several runs in it, what could not be read beside it
    text: str = ""  # the words of the frames and errors, for rules that look for a function's name
    has_story: bool = False  # people say around the log what it is about
    claims: tuple[Claim, ...] = ()  # what they say
    attempts: tuple[Attempt, ...] = ()  # what they tried, and what came of it
    speaker: Speaker | None = None  # whose text it is, where it is none of our engines'

    @property
    def stage(self) -> str:
        return self.death.stage or ""

    @property
    def failed(self) -> bool | None:
        """None: the text does not tell."""
        return self.death.failed

    def all(self, kind: LogKind) -> list[Observation]:
        return [observation for observation in self.observations if observation.kind == kind]

    def first(self, kind: LogKind) -> Observation | None:
        return next((observation for observation in self.observations if observation.kind == kind), None)

    def has(self, *kinds: LogKind) -> bool:
        return any(observation.kind in kinds for observation in self.observations)

    def before(self, *kinds: LogKind) -> bool:
        """A line of one of these kinds was printed before the failure."""
        return bool(self.death.completed & set(kinds))

    def value(self, kind: LogKind, name: str) -> int | None:
        return next(
            (
                number(observation, name)
                for observation in self.observations
                if observation.kind == kind and name in observation.values
            ),
            None,
        )

    def real(self, kind: LogKind, name: str) -> float | None:
        first = next(
            (
                observation
                for observation in self.observations
                if observation.kind == kind and name in observation.values
            ),
            None,
        )
        value = first.values[name] if first else None
        return float(value) if isinstance(value, (int, float)) else None

    def line(self, *kinds: LogKind) -> tuple[int, ...]:
        first = {
            observation.kind: observation.line
            for observation in reversed(self.observations)
            if observation.kind in kinds
        }
        return tuple(sorted(set(first.values())))

    def flag(self, name: str, default: Any = None) -> Any:
        return self.rebuilt.get(name, default)

    def whole(self, name: str) -> int | None:
        value = self.flag(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def version(self) -> str:
        return self.rebuilt.version

    @property
    def facts(self) -> Facts:
        """Of the release that the log names; of the newest where it names none."""
        try:
            return at(self.version or NEWEST)
        except OomphError:
            return at(NEWEST)

    def within(self, since: str = "", until: str = "") -> bool | None:
        """The release is in this range; None when it is not known."""
        if not self.version:
            return None
        try:
            return in_range(self.version, since, until)
        except OomphError:
            return None

    def in_traceback(self, *words: str) -> bool:
        """A function or a file of the traceback has one of these in its name ("vision" is no part of "revision")."""
        pattern = re.compile(rf"(?<![A-Za-z])(?:{'|'.join(map(re.escape, words))})")
        return any(map(pattern.search, (*self.death.functions, *self.death.files, self.text)))

    @property
    def in_tower(self) -> bool:
        """The traceback ends inside of an encoder of images, video or sound."""
        return in_tower(self.death.functions, self.death.files)

    @property
    def oom(self) -> Observation | None:
        return fullest_oom(self.observations)

    def oom_value(self, name: str) -> int | None:
        return number(self.oom, name)

    @property
    def memory(self) -> bool:
        """Some line, or somebody, says that memory ran out; a bare traceback does not."""
        return self.death.kind == "memory_short" or self._told_short or self.has(
            "torch_oom", "load_oom", "cuda_error_oom", "nccl_oom", "triton_oom", "sampler_oom", "oom_mentioned",
            "memory_short", "lc_malloc", "lc_cublas",
        )  # fmt: skip

    @property
    def _told_short(self) -> bool:
        """Nobody says the word: but it is told that a check of memory refused, or that less of it was the cure."""
        if not self.death.by_people or self.death.kind not in ("said_failed", "memory_short"):
            return False
        cured = any(one.result == "helped" and one.topic in MEMORY_TOPICS for one in self.attempts)
        return cured or (self.death.basis == "said" and self.stage in OF_MEMORY)

    def told_short_at(self, stage: StageName) -> bool:
        """A person says that memory was short in this stage, or tells it as people do; no line of the engine does."""
        is_claim = self.death.by_people and (self.death.basis == "said" or bool(self.death.learned))
        return bool(self.failed) and is_claim and self.stage == stage and self.memory

    @property
    def v0(self) -> bool:
        """The old engine: no chunked prefill unless asked for, so a batch is as long as the context."""
        lines = self.has("v0_budget", "v0_terms", "v0_results", "v0_blocks")
        worded = any("Loading model weights took" in observation.text for observation in self.all("weights"))
        return lines or worded or self.within("", "0.8.0") is True

    @property
    def tp(self) -> int:
        return max(1, self.whole("tensor_parallel_size") or self.whole("tp_size") or self.whole("tp") or 1)

    @property
    def total(self) -> int | None:
        return self.account.total or (self.gpus[0].total_bytes if self.gpus else None)

    @property
    def params(self) -> int:
        """Parameters as the model's name states them (31B); 0 = it does not say."""
        match = re.search(
            r"(?<![\w.])(\d{1,4}(?:\.\d{1,2})?)[bB](?![a-z])", self.rebuilt.model.replace("-", " ").replace("_", " ")
        )
        return round(float(match[1]) * 1e9) if match else 0

    def module(self, size: int) -> str:
        """The quantised module whose packed weight is this large (allocations round up to 2 MiB); "" = not known."""
        return self.modules.get(-(-size // (2 * MIB)), "") if size else ""

    @property
    def unified(self) -> bool:
        """Memory shared with the CPU: a property of the machine, named in the text or given; a GB10 and a Thor are also
        known by their total (119.7 to 122.8 GiB), which no card with memory of its own has."""
        if any(gpu.unified for gpu in self.gpus):
            return True
        if self.gpus or self.has_words("NPU ", "Ascend", "HPU", "Gaudi"):
            return False
        if any(row.unified for row in rows() if row.name == self.named_gpu):
            return True
        totals = [n / GIB for n in (self.account.total, self.value("ray_kill", "total") or 0) if n]
        return any(118 < n < 124 for n in totals)

    def has_words(self, *words: str) -> bool:
        """One of these stands near the failure."""
        return any(word in self.text for word in words)

    @property
    def capability(self) -> str:
        observation = self.first("capability")
        return str(observation.values.get("capability", "")) if observation else ""

    @property
    def before_ampere(self) -> bool:
        """Compute capability below 8.0, as the log, the given card or the one named beside the log says."""
        if self.capability:
            return float(self.capability) < 8.0
        if self.gpus:
            return (0, 0) < self.gpus[0].capability < (8, 0)
        return any((0, 0) < row.capability < (8, 0) for row in rows() if row.name == self.named_gpu)

    @property
    def rocm(self) -> bool:
        return (
            "rocm" in self.version.lower()
            or "HIP out of memory" in self.text
            or any(g.vendor == "amd" for g in self.gpus)
        )

    @property
    def spec(self) -> bool:
        return bool(self.flag("speculative_config")) or self.has("draft_shares", "draft_load")

    @property
    def util(self) -> float:
        """As the log or the command says, or the release's default."""
        value = self.account.util or self.flag("gpu_memory_utilization")
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value:
            return float(value)
        return self.facts.limits.utilization


def place(case: Case, stage: StageName, basis: StageBasis, note: str = "") -> Case:
    """The same case with the stage known from elsewhere: what the log accounts for follows the stage."""
    util = case.flag("gpu_memory_utilization")
    share = float(util) if isinstance(util, (int, float)) and not isinstance(util, bool) else None
    certain = replace(case.death, stage=stage, basis=basis, ruled=None, learned=())
    ledger = account(case.observations, certain, share)
    return replace(case, death=certain, account=ledger, notes=(*case.notes, *([note] if note else [])))
