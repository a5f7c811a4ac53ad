# ruff: noqa: E501 - a row is a line
"""What people write around a log: "when I send a long prompt", "on startup", "after a few hours".

The weakest evidence there is: used only where neither a frame nor a message nor a line of the engine says what the run
was doing. Log lines, code and commands are no prose.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from oomph.logs.clean import Line
from oomph.text.late import late_pattern

Activity = Literal["serving", "starting", "loading", "capturing", "profiling"]

_COUNTED = r"(?:hours?|hrs?|minutes?|mins?|days?|weeks?|requests?|turns?|messages?|prompts?|iterations?|calls?|rounds?|inferences?|generations?|responses?|images?|tasks?)"
_SERVING: Final = late_pattern(
    r"(?i)\b(?:"
    rf"(?:after|for|within|every) (?:[\w~+.-]{{1,10}} ){{0,4}}(?:\d{{1,6}}[ -]?)?{_COUNTED}\b"
    r"|after (?:a while|a long time|some time|running for)|occasionally|randomly|intermittently"
    r"|(?:performing|doing|running) (?:the |an? )?(?:inference|generation|evaluation|benchmark\w{0,3}|completions?|prefill\w{0,4}|decod\w{1,3})\b"
    r"|(?:when|while|once|after|upon|whenever|as soon as) (?:i |we |you |it |he |the |a |an |server |client |is |am ){0,3}"
    r"(?:send\w{0,3}|sent|submit\w{0,4}|mak(?:e|ing)|call\w{0,3}|quer(?:y|ied|ying)|process\w{0,3}|handl\w{0,3}|generat\w{0,3}|"
    r"infer\w{0,5}|ask\w{0,3}|chat\w{0,4}|prompt(?:ing|ed)?|receiv\w{0,3}|request\w{0,3}|upload\w{0,3}|translat\w{0,3})\b"
    r"|under (?:heavy |high |sustained |some )?(?:load|pressure|concurren\w{0,4}|traffic|stress)"
    r"|(?:many|multiple|concurrent|parallel|simultaneous|several|\d{1,6}) (?:concurrent |parallel |simultaneous )?"
    r"(?:requests|users|clients|connections|sessions|queries)|concurren(?:t|cy|tly)"
    r"|long(?:er)?[ -](?:prompts?|inputs?|sequences?|documents?|texts?|requests?|conversations?)"
    r"|(?:starts?|started|launch(?:es|ed)|deploy(?:s|ed)|boots?|running|runs|ran|works?|worked) "
    r"(?:up )?(?:fine|successfully|normally|ok|okay|correctly|well)\b|deployment was successful"
    r"|(?:during|at|in|for|while) (?:the |my |our |offline |batch |model )?(?:inference|inferencing|generation|decoding|prefill\w{0,4}|serving requests|"
    r"runtime|benchmark\w{0,4}|evaluation|streaming|rollout\w{0,2})\b"
    r"|stress test\w{0,3}|load test\w{0,3}|bench(?:mark)?_serving|bench serve|bench_one_batch_server|lm[_-]eval\w{0,10}|run_eval|test progress|(?:progress|evaluation) (?:reached|reaches|at) (?:about )?\d{1,3} ?%|memory leak\w{0,3}|"
    r"(?:keeps?|slowly|gradually|steadily) (?:growing|increas\w{0,3}|grow\w{0,2})|gradually|prompt_logprobs"
    r"|(?:through|via|using|from|with) (?:open ?-?web ?-?ui|claude code|cline|librechat|sillytavern|the (?:chat|web) ?ui|curl)|\bsending (?:\w{1,12} ){0,3}(?:loads?|requests?|prompts?|contexts?)|(?:on|with|across) (?:multiple|several|many) (?:sessions|chats)"
    r"|with (?:one|a single|multiple|several|more than one|two) (?:requests?|prompts?|images?)|first (?:request|prompt|message|inference|generation)|service calls|(?:quer(?:y|ies)|requests?|prompts?) (?:with|of|containing)|chat[ /]completions?"
    r"|pass(?:ing|ed)? (?:even |just |only )?(?:one|a|the|any) (?:single )?prompt|(?:1st|2nd|3rd|second|third|next|every|each) (?:request|prompt|message|inference|query)"
    r")|llm\.(?:generate|chat)\(|推理|请求|并发|压测|压力测试|运行一段时|服务一段时|一段时间后|小时后|长文本|对话|调用接口"
)
_CAPTURING: Final = late_pattern(
    r"(?i)(?<!disable )(?<!without )(?<!after )(?<!skip )(?:graph (?:captur\w{0,3}|build\w{0,3})|captur\w{0,3} (?:the |of )?(?:cuda ?)?graphs?)\b(?! (?:finish|succe|complete|is done))"
)
_PROFILING: Final = late_pattern(
    r"(?i)\b(?:in|during|at|while) (?:the )?(?:memory )?(?:profil(?:e run|ing)|dummy run)|\bdetermin\w{0,4} (?:the )?(?:available |free )?(?:v?ram|gpu|memory)\b"
)
_LOADING: Final = late_pattern(
    r"(?i)\b(?:while|when|during|on|at|in|to|for|after) (?:the )?(?:re)?load(?:ing|s)? (?:of )?(?:the |model |model's |safetensors |checkpoint |all ){0,3}"
    r"(?:weights?|shards?|checkpoints?|tensors?)\b|\b(?:weights?|shards?|checkpoint)[ -]load|\b(?:weights?|model) (?:load|mmap)\b|加载权重"
)
_STARTING: Final = late_pattern(
    r"(?i)\b(?:"
    r"(?:on|at|during|in|before) (?:server |engine |model |the |initial |container |cold ){0,3}"
    r"(?:start-?up|start\b|initiali[sz]ation|launch|boot|init\b|loading\b|load\b|deployment|bring-?up)"
    r"|(?:fails?|failed|failing|unable|cannot|can't|can not|couldn't|won't|doesn't|does not|did not|never|impossible|refuses) (?:to )?"
    r"(?:start|launch|load|boot|initiali[sz]e|come up|deploy)"
    r"|(?:when|while|trying to|tried to|try to|attempt\w{0,3} to|want to|wanted to) (?:i |we |the )?"
    r"(?:start|launch|load|deploy|boot|initiali[sz]|serve|host|bring)"
    r"|(?:server|engine|container|pod) (?:crash\w{0,2}|exit\w{0,2}|dies|restart\w{0,3}) (?:on|at|during|immediately|in a loop)"
    r")|启动|部署|初始化|加载模型"
)
_WORD: Final = late_pattern(r"[A-Za-z']{2,20}")
_CODE: Final = late_pattern(
    r"^\s{4,}\S|^\s{0,8}(?:File \"|at |Traceback|raise |return |import |from \w+ import|def |class |with |self\.|\$ |> |#!)|"
    r"\w\(\w{0,40}=|[;{}]\s*$|^\W{0,3}[\w.]{1,60}(?:Error|Exception)\b|^\W{0,4}(?:[A-Z_]{4,40}=\S{1,80} )*(?:vllm serve|python3?|docker|trtllm-\w|llama-\w|sglang (?:serve|launch)|\./|sudo|mpirun|ollama (?:run|serve)|kubectl|curl)\b|^\s{0,4}[\w.-]{1,40}=\S|\bpid=\d|0x[0-9a-f]{6}|"
    r"^\[?\d{4}[-/]\d\d|^\w{1,40}: \w{1,40}=|%\||it/s"
)
FEWEST: Final = 4  # words of a sentence
LOOKED_AT: Final = 400  # lines of a text, from its beginning and around the failure


def sentences(lines: Sequence[Line], failing: int) -> Iterator[str]:
    """The lines that people wrote: its head, and what stands near the failure."""
    for index, line in enumerate(lines):
        if index > LOOKED_AT and abs(line.number - failing) > LOOKED_AT:
            continue
        if is_prose(line):
            yield line.text[:1000]


def is_prose(line: Line, fewest: int = FEWEST) -> bool:
    """A person wrote it: no header of a log, no code, and words enough for a sentence."""
    text = line.text[:1000]
    if line.file or line.process or line.level or (_CODE.search(text) and not text.startswith("# ")):
        return False
    return len(_WORD.findall(text)) >= fewest or any(ord(character) > 0x2E80 for character in text)


_TO_LOAD: Final = late_pattern(r"(?i)\bload(?:s|ed|ing)?\b(?! (?:test|balanc))")


def loads(lines: Sequence[Line]) -> bool:
    """The title has the verb: of a start that was cut off it is the load that it is about."""
    return any(line.text.startswith("# ") and _TO_LOAD.search(line.text[:300]) for line in lines[:3])


def activity(lines: Sequence[Line], failing: int) -> Activity | None:
    """What the run was doing, as its owner tells it. That it served is said of a server that was up; that it was being
    started is said of both, so it counts last."""
    texts = [text for text in sentences(lines, failing) if not text.startswith("If ")]  # an engine's own advice
    rows: tuple[tuple[Activity, re.Pattern[str]], ...] = (
        ("capturing", _CAPTURING),
        ("loading", _LOADING),
        ("profiling", _PROFILING),
        ("serving", _SERVING),
        ("starting", _STARTING),
    )
    titles = [text for text in texts if text.startswith("# ")]
    for spoken in (titles, texts):  # what stands in the title is what it is about
        if doing := next((name for name, pattern in rows if any(pattern.search(text) for text in spoken)), None):
            return doing
    return None
