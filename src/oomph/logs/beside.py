"""The command that stands beside a log: a serve command, docker run, a manifest's list, a bare list of flags, LLM(...).

What is found is one line of text again, as it could be typed; where there are several, the one nearest to the log's
first memory line.
"""

import re
import shlex
from collections.abc import Sequence

from oomph.commands.manifests.docker import image_engine
from oomph.facts.claim_words import HELPED, QUESTION, SUPPOSED
from oomph.ir.observation import Observation
from oomph.logs.attempts import read_attempts
from oomph.logs.clean import Line
from oomph.logs.documents import MOST_LINES, sentences
from oomph.text.late import late_pattern

LONG = 16 << 10  # of a command
MOST = 40  # commands looked at
ANCHORS = ("weights", "available_kv", "torch_oom", "free_short", "args", "kv_need", "kv_need_v0", "kv_none")
_FLAG = late_pattern(r"(?:^|\s)-{1,2}[a-zA-Z][\w.-]*")
_MODEL = late_pattern(
    r"\b[Mm]odel(?:[ _]name)?[\s*`'\"]{0,3}[:=][\s*`'\"]{0,3}([A-Za-z0-9][\w.-]{1,60}/[\w.-]{2,90})"
)  # fmt: skip
_COMMAND = late_pattern(
    r"(?:[A-Z][A-Z0-9_]{1,60}=\S{1,400} +){0,40}(?:vllm (?:serve|run)|python3? -m|sglang serve)\b"
)  # with the variables in front of it
_BARE = late_pattern(r"vllm serve [\"']?[\w.-]{2,60}/[\w.-]{2,90}[\"']?\s*$")  # a model and no flag
_DOCKER = late_pattern(r"\b(?:docker|podman|nerdctl) run\b")
_LISTED = late_pattern(r"(?P<whole>[\"']vllm[\"'], ?[\"']serve[\"'],)|\[ ?[\"']--[a-z]")
_ITEM = late_pattern(r"\s*(?:- )?[\"']?--[a-z][\w-]*")
_VALUE = late_pattern(r"\s*- [\"']?[^\s\"'-][^\n]{0,400}$")
_PYTHON = late_pattern(r"\b(?:LLM|AsyncEngineArgs|EngineArgs)\(")
_KEYWORD = late_pattern(
    r"\b([a-z_]{2,60})\s{0,4}=\s{0,4}(\"[^\"\n]{0,300}\"|'[^'\n]{0,300}'|-?[\d._]{1,20}|True|False)"
)

Found = tuple[int, int, str]  # first line, last line, the command


def command(lines: Sequence[Line], observations: Sequence[Observation]) -> tuple[str, str]:
    """(command, model named in the prose); "" where there is none."""
    index = {line.number: i for i, line in enumerate(lines)}
    lists: list[Found] = []
    for number in [observation.line for observation in observations if observation.kind in ("command", "docker_run")][
        :MOST
    ]:
        i = index.get(number)
        if i is not None:
            text, used = _continued(_begin(lines[i].text[:LONG]), lines[i + 1 : i + 60])
            ours = not _DOCKER.search(text) or image_engine(text)
            if ours and (_FLAG.search(text) or _BARE.match(text)):
                lists.append((number, number + used, text))
    lists += _flag_lists(lines)
    lists += [] if lists else _python_calls(lines)
    lists += [] if lists else _told_flags(lines)
    lists += [] if lists else _said_flags(lines)
    if not lists:
        return "", named(lines)
    anchors = [observation.line for observation in observations if observation.kind in ANCHORS]
    near = anchors[0] if anchors else lists[0][0]
    # a command's flags are also found as a list: of two that overlap the one that begins first
    best = min(lists, key=lambda f: (min(abs(f[0] - near), abs(f[1] - near)), f[0]))
    whole = min((f for f in lists if f[0] <= best[0] <= f[1]), key=lambda f: f[0])
    return whole[2], named(lines)


def _begin(text: str) -> str:
    if match := _DOCKER.search(text):
        return text[match.start() :]
    if match := _LISTED.search(text):
        words = re.findall(r"[\"']([^\"']{0,400})[\"']", text[match.start() :])
        return shlex.join(words if match["whole"] else ["vllm", "serve", *words])
    match = _COMMAND.search(text)
    text = text[match.start() :] if match else text.strip()
    return text.partition("`")[0]  # the end of inline code


def _continued(text: str, rest: Sequence[Line]) -> tuple[str, int]:
    used = 0
    for line in rest:
        stripped = line.text.strip()
        ended = not text.rstrip().endswith("\\")
        if line.file or (ended and not stripped.startswith("-")) or not stripped or len(text) > LONG:
            break
        text = f"{text.rstrip().removesuffix(chr(92)).rstrip()} {stripped}"
        used += 1
    return text.rstrip().removesuffix("\\").rstrip(), used


def _flag_lists(lines: Sequence[Line]) -> list[Found]:
    """Two or more lines that each begin with `--flag`, a manifest's `- value` lines among them.

    The line above may be the model alone.
    """
    runs: list[list[int]] = []
    for i, line in enumerate(lines):
        if line.file:
            continue
        near = bool(runs) and runs[-1][-1] == i - 1
        if _ITEM.match(line.text):
            if near:
                runs[-1].append(i)
            else:
                runs.append([i])
        elif near and _VALUE.match(line.text) and re.match(r"\s*- ", lines[i - 1].text):
            runs[-1].append(i)
    lists = []
    for run in runs:
        if len(run) < 2:
            continue
        run = run[:200]
        above = lines[run[0] - 1].text.strip() if run[0] else ""
        model = above if re.fullmatch(r"/?[\w.-]+(?:/[\w.-]+){1,6}", above) else ""
        text = " ".join(_word(lines[i].text) for i in run)
        lists.append((lines[run[0]].number, lines[run[-1]].number, f"vllm serve {model} {text}".replace("  ", " ")))
    return lists


def _word(text: str) -> str:
    """One line of a list: `- --flag`, `- "value"`, `"--flag",` and `--flag value \\` as they would be typed."""
    item = text.strip()[:LONG].removesuffix("\\").rstrip()
    listed = item.startswith("- ")
    item = item.removeprefix("- ").strip()
    quoted = re.fullmatch(r"([\"'])(.*)\1,?", item)
    if quoted:
        return quoted[2] if quoted[2].startswith("--") else shlex.quote(quoted[2])
    return shlex.quote(item) if listed and not item.startswith("--") else item


def _python_calls(lines: Sequence[Line]) -> list[Found]:
    """LLM(model="org/name", max_model_len=4096): its keywords are the flags."""
    lists: list[Found] = []
    for i, line in enumerate(lines[:20_000]):
        begun = _PYTHON.search(line.text) if "(" in line.text and not line.file else None
        if begun is None or len(lists) >= MOST:
            continue
        text, last = line.text[begun.end() :], i
        while text.count(")") <= text.count("(") and last + 1 < len(lines) and last - i < 40 and len(text) < LONG:
            last += 1
            text += "\n" + lines[last].text
        keywords = dict(_KEYWORD.findall(text[:LONG]))
        if "model" not in keywords:
            continue
        words = ["vllm", "serve", keywords.pop("model").strip("\"'")]
        for name, value in keywords.items():
            flag = "--" + name.replace("_", "-")
            if value == "False":
                continue
            words += [flag] if value == "True" else [flag, value.strip("\"'").replace("_", "")]
        lists.append((line.number, lines[last].number, shlex.join(words)))
    return lists


_TOLD = late_pattern(
    r"(?<![\w-])--?(?:model|tensor-parallel-size|gpu-memory-utilization|max-model-len|max-num-seqs|quantization|enable-lora|"
    r"max-loras|max-num-batched-tokens|kv-cache-dtype|cpu-offload-gb|kv-offloading-size|kv-cache-memory-bytes)\b"
)
_ENDS = ".,;:)`'\""  # of a sentence, behind a value


def _told_flags(lines: Sequence[Line]) -> list[Found]:
    """Flags in the middle of a sentence: "the image with args --model org/name -tp 4 on such a machine"."""
    lists: list[Found] = []
    for line in lines[:2000]:
        text = line.text[:LONG]
        begun = _TOLD.search(text) if "--" in text and not line.file else None
        if begun is None or len(lists) >= MOST:
            continue
        words: list[str] = []
        for word in text[begun.start() :].split():
            is_flag = word.startswith("-")
            if not is_flag and (not words or not words[-1].startswith("-") or "=" in words[-1]):
                break  # behind a value: the sentence goes on
            words.append(word.strip("`").rstrip(_ENDS))
        several = sum(word.startswith("-") for word in words) > 1
        if several or words[:1] == ["--model"]:  # one alone is what somebody proposes
            lists.append((line.number, line.number, f"vllm serve {shlex.join(words)}"))
    return lists


_SAID = late_pattern(
    r"(?i)(?:\b(?:with|using|at|run|and|mit|und|bei|auf|to|set|have|gave|pass(?:ed)?|added)|[用设加了]|,)\s{0,2}"
    r"`?(--[a-z][a-z0-9]*(?:-[a-z0-9]+)+[ =]\d{1,9}(?:\.\d{1,4})?(?:[KMGT]i?B?)?)(?![\w.]*\d)"
)


def _said_flags(lines: Sequence[Line]) -> list[Found]:
    """Flags of the run that people tell of, one by one: "vLLM with --kv-offloading-size 40". What is asked, proposed or
    said to work, and what is named with two values, is none."""
    if not any("--" in line.text for line in lines[:MOST_LINES]):
        return []
    story = sentences(lines)
    helped = {one.words for one in read_attempts(story) if one.result == "helped"}
    values_of: dict[str, set[str]] = {}
    for sentence in story:
        taken = QUESTION.search(sentence.text) or SUPPOSED.search(sentence.text) or HELPED.search(sentence.text)
        for match in _SAID.finditer(sentence.text) if not taken else ():
            flag, value = re.split("[ =]", match[1], maxsplit=1)
            values_of.setdefault(flag, set()).add(value)
    single = {flag: next(iter(values)) for flag, values in values_of.items() if len(values) == 1}
    single = {flag: value for flag, value in single.items() if f"{flag} {value}" not in helped}
    if not single:
        return []
    words = ["vllm", "serve", *(word for pair in single.items() for word in pair)]
    return [(story[0].line, story[0].line, shlex.join(words))]


_SIZED = r"[\w.-]{0,60}\d{1,3}(?:\.\d{1,2})?[bB](?![A-Za-z0-9])[\w.-]{0,60}"  # a name with a number of parameters
_IDENTIFIER = late_pattern(rf"(?<![\w/.:@-])([A-Za-z][\w.-]{{1,60}}/{_SIZED})")
_BARE_NAME = late_pattern(rf"(?<![\w/.:@-])([A-Z][a-zA-Z]{{2,20}}[\w.]{{0,12}}-{_SIZED})")


def named(lines: Sequence[Line]) -> str:
    """The model that the prose around the log names: `Model: org/name`, else the only name that has a size in it."""
    for line in lines[:2000]:
        match = _MODEL.search(line.text[:400]) if "odel" in line.text else None
        if match:
            return match[1]
    for pattern in (_IDENTIFIER, _BARE_NAME):
        prose = [line.text[:400] for line in lines[:400] if not line.file]
        names = list(dict.fromkeys(str(name).rstrip(".-") for text in prose for name in pattern.findall(text)))
        if len(names) == 1:
            return names[0]
    return ""
