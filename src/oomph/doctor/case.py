"""A log, understood as far as it goes: what the rules look at."""

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from oomph.doctor.ledger import Account, account, fullest_oom, number
from oomph.doctor.reading.meanings import TROUBLES, stage_of
from oomph.doctor.reading.pinned import is_pinned
from oomph.doctor.reading.prose import words_of
from oomph.doctor.reading.retold import with_retold
from oomph.doctor.reading.stages import BESIDE_LOG, OWN_WORDS, Death, chosen_run, death, weighed
from oomph.doctor.reading.towers import in_tower
from oomph.engines.registry import DEFAULT, engine_named
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
from oomph.logs.attempts import Attempt, read_attempts
from oomph.logs.claims import Claim, read_claims
from oomph.logs.clean import Line
from oomph.logs.deployment import Rebuilt, rebuild
from oomph.logs.documents import MOST_LINES, is_prose, sentences
from oomph.logs.parse import printed_lines, prints
from oomph.logs.speaker import foreign_speaker, speakers_stage
from oomph.logs.structure import SOFT_STARTS, STARTS
from oomph.text.late import late_pattern
from oomph.units import GIB, MIB

_SETTINGS = ("SamplingParams(", "LLM engine (v")
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


def build(
    lines: Sequence[Line], observations: Sequence[Observation], gpus: tuple[Device, ...] = (), engine: str = ""
) -> Case:
    """`engine`: whose text it is, for somebody who says so; its lines count where nobody does."""
    observations = with_retold(lines, observations)
    run, notes = chosen_run(observations)
    card, cards = gpu_mentioned(lines)
    speaker = None if engine else foreign_speaker(lines, observations)
    of_run = of_one_run(lines, observations, run)
    rebuilt = rebuild(*of_run, engine)
    rebuilt = replace(rebuilt, engine="") if speaker is not None else _on_all(rebuilt, cards)
    story = sentences(lines, printed_lines(observations))
    claims = read_claims(story)
    dead = death(run, lines, claims, engine)
    attempts = read_attempts(sentences(lines))
    if is_pinned(dead.kind, dead.line, lines):
        dead = replace(dead, stage="host_ram", basis="traceback", pinned=True)
    elif speaker is not None:
        dead = _of_speaker(dead, speaker, lines)
    elif (cure := _stage_of_cure(dead, attempts, rebuilt.engine)) is not None:
        dead = replace(dead, stage=cure, basis="said")
    fixed = stage_of(TROUBLES, dead.kind or "") is not None
    if dead.by_people and not fixed and not prints(observations) and (speaker is None or speaker.serves):
        missing = engine_named(rebuilt.engine or engine or DEFAULT).words.missing_stages if speaker is None else ()
        dead = weighed(dead, words_of(lines), missing)
    util = rebuilt.get("gpu_memory_utilization")
    ledger = account(run, dead, float(util) if isinstance(util, (int, float)) else None)
    near = (line for line in lines if dead.line and abs(line.number - dead.line) <= 60)
    # a dumped request names every option there is
    # the settings of the engine or of a request name everything that there is ("max_vision_items_per_batch")
    words = " ".join(line.text.strip() for line in near if not any(word in line.text for word in _SETTINGS))
    return Case(tuple(run), rebuilt, dead, ledger, gpus, card, text=words[: 32 << 10], notes=notes,
                has_story=_story(lines, observations), claims=claims,
                attempts=attempts, speaker=speaker)  # fmt: skip


def _stage_of_cure(dead: Death, attempts: Sequence[Attempt], engine: str) -> StageName | None:
    """What cured a failure whose stage is only guessed tells its stage: CUDA's bare words are the same for weights and
    cache, and a shorter context loads; graphs are captured nowhere else."""
    if not dead.failed or dead.basis != "guess" or (dead.kind in TROUBLES):
        return None
    helped = {one.topic for one in attempts if one.result == "helped"}
    words = engine_named(engine).words if engine else None
    if "graphs" in helped and dead.by_people and not (words and "cudagraph_capture" in words.missing_stages):
        return "cudagraph_capture"
    placed = bool(engine) and engine_named(engine).layout == "placed"
    return "kv_alloc" if placed and dead.stage == "weights_load" and "context" in helped else None


def _of_speaker(dead: Death, speaker: Speaker, lines: Sequence[Line]) -> Death:
    """A program that is none of ours has stages of its own: its functions name them, and ours are not told of it. What
    ends any process, and what people tell, holds for it too."""
    if not dead.failed or dead.basis == "status" or speaker.engine:
        return dead  # a step of an engine of ours is placed by that engine's own code
    own = speakers_stage(speaker, lines)
    if own is not None and not (own[1] == "said" and dead.basis == "said"):
        return replace(dead, stage=own[0], basis=own[1])
    if not speaker.serves and dead.stage != "host_ram":
        return replace(dead, stage="other", basis="guess")
    return dead if dead.basis in ("said", "message") else replace(dead, basis="guess")


def place(case: Case, stage: StageName, basis: StageBasis, note: str = "") -> Case:
    """The same case with the stage known from elsewhere: what the log accounts for follows the stage."""
    util = case.flag("gpu_memory_utilization")
    share = float(util) if isinstance(util, (int, float)) and not isinstance(util, bool) else None
    certain = replace(case.death, stage=stage, basis=basis, ruled=None, learned=())
    ledger = account(case.observations, certain, share)
    return replace(case, death=certain, account=ledger, notes=(*case.notes, *([note] if note else [])))


def _story(lines: Sequence[Line], observations: Sequence[Observation]) -> bool:
    """Somebody wrote a title or a sentence that is no line of a log."""
    printed = {observation.line for observation in observations if observation.kind not in BESIDE_LOG | OWN_WORDS}
    return any(
        is_prose(line) and (line.text.startswith("# ") or line.number not in printed) for line in lines[:MOST_LINES]
    )


def of_one_run(
    lines: Sequence[Line], observations: Sequence[Observation], run: Sequence[Observation]
) -> tuple[Sequence[Line], Sequence[Observation]]:
    """What belongs to this run, and what stands before the first: the settings of two runs never meet."""
    if len(run) == len(observations) or not run:
        return lines, observations
    begin = next((observation.line for observation in observations if observation.kind in STARTS | SOFT_STARTS), 0)
    first, last = run[0].line, run[-1].line

    def belongs(number: int) -> bool:
        return number < begin or first <= number <= last

    return [line for line in lines if belongs(line.number)], [
        observation for observation in observations if belongs(observation.line)
    ]


def _on_all(rebuilt: Rebuilt, cards: int) -> Rebuilt:
    """Of what was started only the model's name is known: it is taken to run on all cards that the text counts."""
    is_known = rebuilt.command or rebuilt.complete or rebuilt.resolved or rebuilt.flags
    splits = engine_named(rebuilt.engine or DEFAULT).knows_flag("--tensor-parallel-size")
    if is_known or not rebuilt.model or cards < 2 or not splits:
        return rebuilt
    return replace(
        rebuilt, flags={"tensor_parallel_size": cards}, sources={"tensor_parallel_size": "the cards in the text"}
    )


def gpu_mentioned(lines: Sequence[Line]) -> tuple[str, int]:
    """The card's name in the prose around a pasted log, and how many: "2x 5070 Ti", "my T4", "on g5.12xlarge"."""
    from oomph.commands.named_gpus import declared, mentioned
    from oomph.sources.gpu import parse_gpus

    texts = (line.text[:400] for line in lines[:3000] if not line.file)
    prose = "\n".join(text for text in texts if not _SIZING.search(text))[: 64 << 10]
    if len(_all_names(prose.lower())) >= MANY_CARDS:
        return "", 0  # a table of sizes, or a comparison: none of them is the one that it ran on
    for words in (mentioned(prose), declared(prose).gpus):
        try:
            gpus = parse_gpus(words) if words else ()
        except OomphError:
            continue
        if gpus and any(row.name == gpus[0].name for row in rows()):
            return gpus[0].name, len(gpus)
    return _longest_name(prose.lower()), 0


MANY_CARDS = 3
_SIZING = late_pattern(
    r"\b\d{1,3}(?:\.\d)?B\b[^.]{0,20}(?:→|->|=>|≈|~|:|\|)[^.]{0,12}\d{1,4} ?GB"
)  # "13B → 28 GB (...)"


def _all_names(prose: str) -> set[str]:
    """The cards that are named, each by the longest of its names."""
    names: set[str] = set()
    for row in sorted(rows(), key=lambda row: -len(row.name)):
        short = row.name.lower().removeprefix("rtx ")
        if len(short) >= 4 and short in prose and re.search(rf"(?<![\w.-]){re.escape(short)}(?![\w-])", prose):
            names.add(row.name)
            prose = prose.replace(short, " ")
    return names


def _longest_name(prose: str) -> str:
    """Of several cards that are named in full the one whose name says most."""
    card = ""
    for row in rows():
        short = row.name.lower().removeprefix("rtx ")
        if len(short) >= 4 and len(row.name) > len(card) and short in prose:
            card = row.name if re.search(rf"(?<![\w.-]){re.escape(short)}(?![\w-])", prose) else card
    return card
