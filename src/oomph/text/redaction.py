"""What must never leave the program: API keys, tokens, passwords, credentials in addresses.

Every output passes `Secrets.hide` (the command line's streams, files, the page, agents, the learnt starts): what people
see of oomph is what they paste into issues. A secret is known by what stands before it (`--api-key`, `'hf_token': `,
`HF_TOKEN=`), by its own shape (`hf_...`, `sk-...`, `user:password@host`), or because it was seen as one before: what is
found once is hidden wherever it is printed again, also where nothing stands before it.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from oomph.text.secret_patterns import (
    CONTEXT,
    FLAG_NAME,
    NAME,
    NEEDLES,
    blocks,
    is_base64,
    is_harmless,
    is_key,
    is_name,
    is_plain_word,
    is_random,
    is_template,
    pattern,
    patterns,
)

HIDDEN = "***"
_SHORTEST = 6  # a shorter value is hidden in its place only: elsewhere it could be any word
_MOST_KNOWN = 1000
_LONG = 38  # characters of a word that could be base64
_NEEDLES_OF_NAMES = ("TOKEN", "KEY", "SECRET", "PASS", "PWD", "CREDENTIAL", "AUTH", "WEBHOOK")
# What could as well be a sentence or code: only a value that is no word is hidden.
_ONLY_RANDOM = ("told", "bearer", "spaced")
# A container's variable is hidden unless an engine reads it.
_ENGINE_VARIABLES = (
    "VLLM_", "CUDA_", "NVIDIA_", "NCCL_", "PYTORCH_", "TORCH", "OLLAMA_", "LLAMA_", "GGML_", "SGLANG_", "SGL_",
    "TRTLLM_", "TLLM_", "HF_H", "HF_DATASETS", "HF_ENDPOINT", "TRANSFORMERS_", "OMP_", "MKL_", "RAY_", "HIP_", "ROCR_",
    "HSA_", "XLA_", "TRITON_", "FLASHINFER_", "LD_", "PATH", "HOME", "LANG", "LC_", "TZ", "MODEL", "PORT", "HOST",
    "PYTHON", "UV_", "PIP_",
)  # fmt: skip


class Secrets:
    """What is known to be secret, in one process."""

    def __init__(self) -> None:
        self._known: list[str] = []  # the longest first

    def hide(self, text: str) -> str:
        """The text without its secrets. Each secret that is found is remembered."""
        lowered = text.lower().replace("tokens", " ")  # of a cache: no secret's name ends so
        if any(needle in lowered for needle in NEEDLES) or any(len(word) >= _LONG for word in text.split()):
            for name, (block, entry) in blocks().items():
                if name.split()[0] in lowered or (name == "cookie" and "curl" in lowered):
                    text = block.sub(lambda match, entry=entry: self._hide_block(match, entry), text)  # type: ignore[misc]
            for name, rule in patterns().items():
                if name == "flag":
                    text = rule.sub(self._hide_flag, text)
                elif name in ("shape", "private key"):
                    text = rule.sub(lambda match: self._hide_value(match[0]), text)
                else:
                    text = rule.sub(lambda match, name=name: self._hide_pair(match, name), text)  # type: ignore[misc]
            text = "\n".join(map(self._hide_keys, text.split("\n")))
        return self.hide_known(text)

    def hide_known(self, text: str) -> str:
        """Without what is known already: for markup, whose texts were looked at one by one."""
        for value in self._known:
            if value in text:
                text = text.replace(value, HIDDEN)
        return text

    def knows_part_of(self, text: str) -> bool:
        """Something that is known to be secret stands in it."""
        return any(value in text for value in self._known)

    def is_about(self, text: str) -> bool:
        """It is a secret, holds one, or is the name of one, so that a secret may stand beside it."""
        return self.hide(text) != text or is_name(text)

    def hide_fields(self, value: Any) -> Any:
        """The same of a JSON value, text by text: what is left is as well-formed as it was."""
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, list | tuple):
            self.learn_words(text for text in value if isinstance(text, str))
            return [self.hide_fields(item) for item in value]
        if isinstance(value, dict):
            pair = value.get("name"), value.get("value")  # a manifest's {name: HF_TOKEN, value: ...}
            if isinstance(pair[0], str) and isinstance(pair[1], str) and is_name(pair[0]):
                value = {**value, "value": self._hide_value(pair[1])}
            return {
                self.hide(name) if isinstance(name, str) else name: self._hide_value(item)
                if isinstance(item, str) and is_name(name)
                else self.hide_fields(item)
                for name, item in value.items()
            }
        return value

    def learn(self, value: str) -> None:
        """A value of which its owner says that it is secret."""
        if value not in self._known and len(value) >= _SHORTEST and len(self._known) < _MOST_KNOWN:
            self._known = sorted([*self._known, value], key=len, reverse=True)

    def learn_environment(self, environment: Mapping[str, str]) -> None:
        """The user's own variables: HF_TOKEN, a proxy's password."""
        for name, value in environment.items():
            named = any(needle in name.upper() for needle in _NEEDLES_OF_NAMES)
            if len(value) > 4000 or not (named or "@" in value):
                continue
            if named and not value.startswith(("/", ".", "~", "$")) and not value.isdigit() and " " not in value:
                if pattern(NAME).search(name) or name.upper().endswith("PASS"):
                    self.learn(value)
            else:
                self.hide(value)

    def learn_words(self, words: Iterable[str]) -> None:
        """A command line: `--api-key VALUE` as two words, whatever characters the value has."""
        listed = list(words)
        for word, value in zip(listed, [*listed[1:], ""]):
            if len(word) > 100_000 or not any(needle in word.lower() for needle in NEEDLES):
                continue
            if word.startswith("--") and len(word) < 100 and pattern(FLAG_NAME).fullmatch(word):
                if not value.startswith("-") and not is_harmless(value):
                    self.learn(value)
            else:
                self.hide(word)

    def _hide_flag(self, match: re.Match[str]) -> str:
        """The first word is the value; those behind it are values too as long as they are no words of a sentence."""
        words = list(pattern(r"[^\s\"'`,=\\\[\]]+").finditer(match["values"]))
        words = [word for word in words if word[0] != "-"]  # of a list in a manifest
        texts = [word[0] for word in words]
        if len(texts) > 1 and is_plain_word(texts[0]) and is_plain_word(texts[1]):
            return match[0]
        out, at = [match["before"]], 0
        for number, word in enumerate(words):
            if number and (not is_random(word[0]) or "/" in word[0]):
                break
            if is_harmless(word[0]):
                break
            out += [match["values"][at : word.start()], self._hide_value(word[0])]
            at = word.end()
        return "".join([*out, match["values"][at:]])

    def _hide_keys(self, line: str) -> str:
        """What looks like a key in a line that speaks of one."""
        if len(line) < 14 or not pattern(CONTEXT).search(line):
            return line
        word = pattern(r"[\w~+/=!*.$%^-]{14,400}")
        return word.sub(lambda one: self._hide_value(one[0]) if is_key(one[0]) else one[0], line)

    def _hide_block(self, match: re.Match[str], entry: re.Pattern[str]) -> str:
        return match["before"] + entry.sub(lambda one: one["before"] + self._hide_value(one["bare"]), match["block"])

    def _hide_pair(self, match: re.Match[str], rule: str) -> str:
        groups, whole, before = match.groupdict(), match[0], match["before"]
        name = groups.get("name")
        if name and name.upper().startswith(_ENGINE_VARIABLES) and not pattern(NAME).search(name):
            return whole
        if groups.get("list") is not None:
            inner = pattern(r"[^\s\"'`,=\\\[\]]+").sub(lambda word: self._hide_value(word[0]), groups["list"])
            return whole[: len(before) + 1] + inner + whole[-1]
        for key in ("header", "quoted", "bare"):
            value = groups.get(key)
            if value is not None:
                if _is_no_secret(match, rule, key, value):
                    return whole
                start = match.start(key) - match.start()
                return whole[:start] + self._hide_value(value) + whole[start + len(value) :]
        return whole

    def _hide_value(self, value: str) -> str:
        """What is printed in its place. A stranger's value is looked for elsewhere only if it is not a plain word."""
        if is_harmless(value):
            return value
        for part in (value, value.partition(":")[2]):  # user:password, and the password alone
            if any(c.isdigit() for c in part) and any(c.isalpha() for c in part):
                self.learn(part)
        return HIDDEN


def _is_no_secret(match: re.Match[str], rule: str, key: str, value: str) -> bool:
    """What stands where a secret could: a figure, a word of a sentence, a call, a user's name without a password."""
    before = match["before"].lower()
    following = match.string[match.end() : match.end() + 2]
    if rule == "base64":
        return not is_base64(value)
    if rule == "address":
        return ":" not in value and is_plain_word(value)
    if rule == "user":
        return value.isdigit() or value.isupper()
    if rule == "echo":
        return value.startswith("$")
    if rule in _ONLY_RANDOM and not is_random(value):
        return rule == "bearer" or key == "bare" or is_plain_word(value)
    if rule == "told" and is_name(before.strip()):
        return len(value) < 12 or key != "bare" or "/" in value  # "using token X"
    if value.replace(".", "").replace(",", "").isdigit() and "token" in before:
        return True  # "KiB per token: 128"
    if key != "bare":
        return (
            is_name(value)
            or is_template(value)
            or ("phrase" not in before and value.count(" ") > 1 and _is_sentence(value))
        )
    if following[:1] == "(" or (following[:1] == "[" and "." in value):
        return True  # token = get_token()
    goes_on = before[-1:].isspace() and following[:1] == " " and following[1:].isalnum()
    is_prose = is_plain_word(value) or (before.strip(": ") == "token" and not is_random(value))
    return (goes_on and is_prose) or (rule == "pair" and is_name(value))


def _is_sentence(text: str) -> bool:
    return all(map(is_plain_word, text.split()))


_session: Secrets | None = None


def session() -> Secrets:
    """What this process knows to be secret: the user's own variables and command line, and what was found since."""
    return _session or start_session(())


def start_session(words: Sequence[str]) -> Secrets:
    global _session
    _session = Secrets()
    _session.learn_environment(os.environ)
    _session.learn_words(words)
    return _session


def hide_secrets(text: str) -> str:
    return session().hide(text)
