"""A question to the command that answers it: names first, then the role of each number, then what decides.

A model and GPUs are a `fit`, GPUs alone `models`, a model alone `gpus`. A name is exact or asked back: what the
catalogue does not know is handed to the command, whose refusal says what it may have been.
"""

import re
import shlex
from collections import Counter
from collections.abc import Sequence
from functools import cache

from msgspec import Struct

from oomph.commands.questions import words
from oomph.commands.questions.cards import ARTICLE, is_gpu, is_one, take_gpus
from oomph.commands.questions.pieces import Text, spans
from oomph.commands.questions.unknown import require_known
from oomph.engines.registry import engine_named
from oomph.errors import CommandError, OomphError
from oomph.text.late import late_pattern

LONGEST = 400  # characters of a question
_EXAMPLE = 'oomph "can I run gpt-oss-120b on 2x 4090?"'
_CHINESE = late_pattern(r"[\u3400-\u9fff]")
_SIZED = late_pattern(r"(?i)^(?=.*[a-z]{2})(?=.*\d)[\w./:-]*\d+(?:\.\d+)?[bm](?:[-_:.][\w.:-]*)?$")  # my-model-7b


class Understood(Struct, frozen=True):
    command: str  # fit, models, gpus, compare
    model: str = ""
    gpu: str = ""
    context: str = ""
    users: int = 0
    prefer: str = ""
    purpose: str = ""
    engines: tuple[str, ...] = ()
    cards: tuple[str, ...] = ()  # of which the number is asked, or the choice
    flags: tuple[str, ...] = ()  # --only, --images
    unused: tuple[str, ...] = ()  # words of the question that decided nothing

    def arguments(self) -> list[str]:
        """Of the command, as they are typed."""
        options = {"--gpu": self.gpu, "--for": self.purpose, "--context": self.context, "--users": self.users or "",
                   "--prefer": self.prefer}  # fmt: skip
        out = [self.command, *([self.model] if self.model else [])]
        for name, value in options.items():
            out += [name, str(value)] if value else []
        for card in self.cards:
            out += ["--card", card]
        out += self.flags
        if self.command == "compare":
            return [*out, "--engines", ",".join(self.engines)] if self.engines else out
        for engine in self.engines:
            out += ["--engine", engine]
        return out

    def typed(self) -> str:
        return shlex.join(("oomph", *self.arguments()))


def is_question(line: str) -> bool:
    """Whether these words are for the grammar: one line without a flag, and no command."""
    is_plain = 0 < len(line.strip()) <= LONGEST and "\n" not in line.strip()
    return is_plain and not re.search(r"(?:^|\s)--?[a-z]", line) and not _is_command(line)


def begins_question(line: Sequence[str]) -> bool:
    """Whether several words begin as people speak: "what fits on ..." is no misspelt `what-if`."""
    return len(line) > 1 and line[0].lower() in words.PLAIN


def gpus_behind(line: str) -> tuple[str, str]:
    """(the command, the GPUs that people write behind it): "vllm serve MODEL on two 4090s"; "" where there are none."""
    for match in reversed(list(words.ON.finditer(line))):
        gpus = ARTICLE.sub("", line[match.end() :].strip().rstrip("?.! "))
        if not gpus.startswith("-") and is_gpu(gpus):
            return line[: match.start()], gpus
        if words.CARD.match(gpus.lower()):
            from oomph.sources.gpu import parse_gpus

            parse_gpus(gpus)  # says that no such card is known
    return line, ""


def _is_command(line: str) -> bool:
    """A server that is started, or another command of its program; "vllm on an L4" names an engine and runs none."""
    from oomph.commands.wrappers import engine_of, peel

    if "/" in line and len(line.split()) == 1 and _exact(line.strip()):
        return False  # a model alone, which names no server
    try:
        call = peel(line.split(), {})
    except OomphError:
        return False
    if call.source or not (name := engine_of(call.words)):
        return bool(call.source)
    engine = engine_named(name)
    follows = next(iter(call.words[1:2]), "")
    if not engine.subcommands:
        return not follows or follows.lower() not in words.PLAIN
    return engine.starts_server(call.words) or not follows or follows in engine.subcommands


def understand(question: str) -> Understood:
    if not question.strip():
        raise CommandError("there is no question: say which model, which GPUs, or both")
    if len(question) > LONGEST:
        raise CommandError(f"a question has {LONGEST} characters at most")
    text = Text(question)
    text.rewrite(_SIZE_FIRST, _name_first)
    for _, pattern, sentence in words.NOT_OURS:
        if pattern.search(text.left):
            raise CommandError(sentence, hint=_EXAMPLE)
    unused: list[str] = []
    ram = text.take(words.RAM)
    for pattern in (words.RAM, words.HEADS, words.RATES):
        while match := text.take(pattern):
            unused.append(match[0])
    file_types = _take_file_types(text)
    unused += [name for name in file_types if name.lower() != "gguf"]
    model = _take_model(text)
    if not model and words.BUY.search(text.left):
        raise CommandError(words.NO_PRICES, hint=_EXAMPLE)
    named = take_gpus(text)
    gpu, others, cards = named.gpu, named.others, tuple[str, ...]()
    if model and gpu and (named.is_counted or (others and all(is_one(card) for card in (gpu, *others)))):
        gpu, cards, others = "", (gpu, *others), ()
    if ram and gpu:
        size = re.findall(r"[0-9]{1,4}", ram[0])[0]
        gpu = f"{gpu}, {size}GB RAM"
    elif ram:
        unused.insert(0, ram[0])
    died = text.take(words.DIED) if model or gpu else None
    unused += [died[0]] if died else []
    prefer = next((name for name, pattern in words.PREFERS if pattern.search(text.left)), "")
    users = text.take(words.USERS)
    context = _take_context(text)
    unused = [*unused, *others, *named.refused]
    engines, engine_words = _take_engines(text)
    purpose = next((name for name, pattern in words.PURPOSES if pattern.search(text.left)), "") if not model else ""
    if purpose:
        text.take(dict(words.PURPOSES)[purpose])
    if prefer:
        text.take(dict(words.PREFERS)[prefer])
    flags = _take_flags(text, model, gpu)
    rest = _rest(text)
    if not model and not gpu:
        raise _nothing_named(question.lower(), bool(ram), rest)
    require_known(model, gpu, rest)
    unused += rest
    if file_types and not engines:
        engines = ("llamacpp",)  # whose files are called so; which of them is best is searched
    chosen_between = len(engines) > 1 and len(engines) == len(engine_words)
    is_choice = text.asked(words.WHICH_ENGINE) or chosen_between
    command = ("compare" if is_choice else "fit") if model and gpu else "models" if gpu else "gpus"
    if command in ("gpus", "compare"):
        prefer = ""
    if command not in ("models", "compare") and len(engines) > 1:  # it is asked of one engine
        unused += [name for name in engine_words if name not in unused]
        engines = ()
    user_count = int(users[1]) if users else 0
    return Understood(
        command, model=model, gpu=gpu, context=context, users=user_count, prefer=prefer, purpose=purpose,
        engines=engines, cards=cards, flags=flags if command in ("fit", "gpus") else (), unused=tuple(unused),
    )  # fmt: skip


def _nothing_named(question: str, has_memory: bool, rest: list[str]) -> OomphError:
    if words.DIED.search(question):
        return CommandError(words.NEEDS_LOG, hint="oomph explain server.log")
    if has_memory or words.NO_GPU.search(question):
        return CommandError(words.NEEDS_GPU, hint='oomph "what fits on a Mac mini 64GB"')
    is_name = any(word[:1].isupper() or words.BRANDS.fullmatch(word) for word in rest)
    unknown = f": {' '.join(rest)[:60]!r} is none" if is_name and len(rest) <= 4 else ""
    return CommandError(f"neither a model nor a GPU that is known is named{unknown}", hint=_EXAMPLE)


def _take_flags(text: Text, model: str, gpu: str) -> tuple[str, ...]:
    """ "Unquantised" is the checkpoint that is named and no other; images are kept where they are spoken of."""
    options = [("--only", words.PLAIN_WEIGHTS)] if model else []
    options += [("--images", words.IMAGES)] if model and gpu else []
    return tuple(flag for flag, pattern in options if text.take(pattern))


def _take_file_types(text: Text) -> list[str]:
    """ "Q4_K_M", alone or behind a model's name; in the name of a repository it is part of it."""
    types = []
    for token in re.finditer(r"\S+", text.left):
        if "/" not in token[0] and (match := words.FILE_TYPE.search(token[0])):
            start, end = token.start() + match.start(), token.start() + match.end()
            types.append(text.text[start:end].strip("-_:"))
            text.text = text.text[:start] + " " * (end - start) + text.text[end:]
            text.drop(start, end)
    return types


def _take_model(text: Text) -> str:
    from oomph import catalog
    from oomph.catalog import names

    for start, end in spans(text):
        name = text.text[start:end]
        if _may_be_model(name) and (ids := catalog.answers(name) if "/" not in name else _exact(name)):
            text.drop(start, end)
            kind = words.QUANTISED.search(text.left) if "/" not in name else None
            if kind and (ids_of_kind := catalog.answers(f"{name} {kind[1]}")):
                text.drop(kind.start(), kind.end())
                ids, name = ids_of_kind, f"{name} {kind[1]}"
            is_one = (len(ids) == 1 or _are_one(ids)) and not names.is_anothers(name, ids[0])
            return ids[0] if is_one else name
    for start, end in text.words():
        name = text.text[start:end]
        if ("/" in name and re.fullmatch(r"[\w.-]+/[\w.:-]+", name)) or (_SIZED.match(name) and not is_gpu(name)):
            text.drop(start, end)
            return name
    return ""


def _name_first(match: "re.Match[str]") -> str:
    """A "70b llama" is a "llama 70b", as the catalogue has it."""
    before, size, blank, name = match.groups()
    return match[0] if _is_of_a_family(before) or not _is_of_a_family(name) else before + name + blank + size


def _is_of_a_family(word: str) -> bool:
    from oomph.catalog import names

    return next(iter(names.tokens(word.strip())), "") in _families()


def _exact(name: str) -> tuple[str, ...]:
    from oomph import catalog

    entry = catalog.find(name)
    return (entry.id,) if entry else ()


def _are_one(ids: tuple[str, ...]) -> bool:
    """Checkpoints of one model: the first is meant."""
    from oomph.catalog import names

    return len({names.core(names.family(one)) for one in ids}) == 1


def _may_be_model(name: str) -> bool:
    """It begins as the names of a family do, ends in a word of its own, and no card is called so."""
    from oomph import catalog
    from oomph.catalog import names

    tokens = names.tokens(name)
    if not tokens or _CHINESE.search(name) or tokens[-1] in _CONNECTING or re.search(r"[^\w./: +-]", name):
        return False
    if "/" in name:
        return True
    if any(word in _CONNECTING for word in name.lower().split()):
        return False
    if tokens[0] not in _families():  # "gptoss 120b": the letters of one name
        return any(char.isdigit() for char in name) and names.is_spelt(name, catalog.ids())
    is_named = any(char.isdigit() for char in name) or len(tokens) > 1 or len(name) > _LONG
    is_named = is_named or _families()[tokens[0]] >= _KNOWN
    return is_named and not is_gpu(name)


_SIZE_FIRST = re.compile(
    r"((?:(?<=\s)|^)(?:[\w.-]+\s+)?)\b(\d+(?:\.\d+)?b)(\s+)([a-z][\w.]*)(?![\w.-]*\d+b\b)", re.IGNORECASE
)
_CONNECTING = frozenset("on for with and at in of to the my a an is run auf mit für en con para sur avec pour".split())  # noqa: SIM905
_COMMON = frozenset("a an the command step seed ring sky big open solar dream base small large best".split())  # noqa: SIM905


_LONG = 5  # letters: a longer name of a family is seldom a word of a language
_KNOWN = 4  # checkpoints of a family whose name alone is asked back; a rarer one may be a word of the language


@cache
def _families() -> dict[str, int]:
    """The first words of the catalogue's names, and how many have them."""
    from oomph import catalog
    from oomph.catalog import names

    firsts = Counter(next(iter(names.tokens(one.rpartition("/")[2])), "") for one in catalog.ids())
    return {first: n for first, n in firsts.items() if len(first) > 2 and first.isalpha() and first not in _COMMON}


def _take_context(text: Text) -> str:
    match = text.take(words.CONTEXT)
    if not match:
        return ""
    return f"{match[1]}{match[2]}" if match[1] else match[3] or match[4]


def _take_engines(text: Text) -> tuple[tuple[str, ...], list[str]]:
    """(those that are named; where one is ruled out, the others, and the words that said so)."""
    engines: list[str] = []
    refused: list[str] = []
    mentions: list[str] = []
    for name, pattern in words.ENGINES:
        if match := pattern.search(text.left):
            mentions.append(match[0])
            release = words.RELEASE.match(text.left, match.end())
            exact = f"{name}=={release[1]}" if release else name
            (refused if words.NOT.search(text.left[: match.start()]) else engines).append(exact)
            text.drop(match.start(), release.end() if release else match.end())
    if refused and not engines:
        engines = [name for name in words.OTHERS if name not in refused]
    return tuple(engines), mentions


def _rest(text: Text) -> list[str]:
    """What was not used, in the user's own letters."""
    rest = []
    for start, end in text.words():
        word = text.left[start:end].strip("'")
        plain = [char for char in word if not _CHINESE.match(char)] if _CHINESE.search(word) else [word]
        if (
            word
            and any(part.strip() and not _is_plain(part) for part in plain)
            and not re.fullmatch(r"\W+|[a-zà-ü]'?", word)
        ):
            rest.append(text.text[start:end])
    return rest


def _is_plain(word: str) -> bool:
    """It carries nothing, nor do the words that a hyphen or an apostrophe joins in it."""
    if word.isascii() and word.isdigit():
        return False  # "on 8 GPUs": how many of which?
    return word in words.PLAIN or all(part in words.PLAIN or len(part) < 3 for part in re.split(r"[-']", word))
