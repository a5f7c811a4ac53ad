"""The plan as the prior: where a command dies on a card by the planner, before the log is asked; the log's own evidence
wins, and a contradiction between the two is said."""

from typing import Any

from oomph.doctor.case import Case, place
from oomph.doctor.reading.failure import UNSAID
from oomph.doctor.reading.meanings import ORDER, TROUBLES
from oomph.doctor.reading.story import says_loaded
from oomph.engines.common.inferred import WORDS
from oomph.ir import StageName
from oomph.units import GIB

EVIDENCE = ("traceback", "message", "milestone")  # what a log says itself


def with_prior(case: Case, verdict: Any) -> Case:
    """Where the log only lets one guess the stage, the one in which the plan of the same command dies."""
    stage = _failing_stage(verdict)
    if stage is None or not case.failed or case.death.kind in TROUBLES:
        return case
    agrees = case.death.basis == "milestone" and stage == case.death.stage  # the plan dies where the log's last line is
    if case.death.basis != "guess" and not agrees and not (case.death.basis == "said" and stage == "weights_load"):
        return case  # what the log says counts; what people say, unless the weights alone do not fit
    is_whole = bool(case.command_beside) or bool(case.rebuilt.model and case.rebuilt.model in case.rebuilt.command)
    if case.death.basis == "said" and case.death.ruled == case.death.stage and not is_whole:
        return case  # of what was started a name and a flag are known, and people say where it was
    if stage == "weights_load" and says_loaded(case.claims):
        return case  # the model, its quantisation or its cards are not what is planned
    if case.death.kind in UNSAID and not case.memory and not _has_command(case):
        return case  # nobody speaks of memory, and of what was started only a name is known
    if stage == "kv_check" and case.death.kind == "torch_oom" and not _has_command(case):
        return case  # the check refuses in words of its own, and what was started is only a name here
    if ORDER.index(stage) < ORDER.index(_at_least(case)):
        return case  # PyTorch's own figures say that it was further
    if agrees:
        return place(case, stage, "plan")
    message = " ".join(str(verdict.message).split())[:240].rstrip(". ")
    note = f"the log does not say at which stage it died; a plan of this command dies {WORDS.get(stage, 'there')}"
    note += f': "{message}"' if message else ""
    return place(case, stage, "plan", note)


def _has_command(case: Case) -> bool:
    """What was started stands in the text: its command, its arguments or the engine's configuration."""
    if case.death.kind == "said_failed":
        return False  # a title that says that something does not work: not everything is a lack of memory
    return bool(case.rebuilt.command or case.command_beside or case.rebuilt.complete or case.has("engine_config"))


def contradiction(case: Case, verdict: Any) -> str:
    """What is to be said where the log and the plan disagree about when it dies; "" where they do not."""
    if not case.failed or case.death.kind in TROUBLES or case.death.basis not in EVIDENCE:
        return ""
    planned, observed = _failing_stage(verdict), case.death.stage
    if observed not in WORDS or observed is None:
        return ""
    if planned is None and not verdict.fits:
        return ""  # it is refused before anything is loaded: not where the log dies, and no fit
    if planned is None:
        doubt = "is something else on the card, or a flag not in the log?"
        return f"your log dies {WORDS[observed]}, where the plan fits: {doubt}"
    if planned not in ORDER or planned == observed:
        return ""
    if ORDER.index(observed) < ORDER.index(planned):
        return f"your log dies {WORDS[observed]}, before the plan does ({planned}): is something else on the card?"
    where = WORDS.get(planned, planned)
    return f"by the plan this command dies earlier, {where}: its model, card or flags are not all known"


def _at_least(case: Case) -> StageName:
    """What the figures of the message prove: graphs exist only once they are captured, weights once they are loaded."""
    if case.oom_value("pools"):
        return "cudagraph_capture"
    return "weights_load" if (case.oom_value("allocated") or 0) > GIB else "other"


def _failing_stage(verdict: Any) -> StageName | None:
    if verdict.fits or verdict.stage not in ORDER or verdict.stage == "other":
        return None
    return next(stage for stage in ORDER if stage == verdict.stage)
