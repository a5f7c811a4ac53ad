"""What must never be printed: API keys, tokens, passwords, credentials in addresses.

Every output passes `Secrets.hide` (the command line's streams, the page, HTML files, the history): what people see of
oomph is what they paste into issues. A secret is known by what stands before it (`--api-key`, `'hf_token': `,
`HF_TOKEN=`), by its own shape (`hf_...`, `sk-...`, `user:password@host`), or because it was seen as one before: what is
found once is hidden wherever it is printed again, also where nothing stands before it.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

HIDDEN = "***"
_SHORTEST = 6  # a shorter value is hidden in its place only: elsewhere it could be any word
_MOST_KNOWN = 1000
# Every text with a secret has one of these. Most outputs have none, and for them nothing is compiled.
_NEEDLES = (
    "key", "token", "secret", "passw", "passphrase", "pwd", "credential", "bearer", "basic ", "auth", "webhook", "@",
    "hf_", "sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat", "glpat", "xox", "nvapi", "r8_", "akia", "asia",
    "aiza", "ya29", "eyj", "pypi-", "npm_", "dckr", "gsk_", "tvly", "api_org", "-e ", "--env", "-u ", "--user",
    "sig=", "policy=", "x-amz", "x-goog", "signature", "code=",
)  # fmt: skip
_NEEDLES_OF_NAMES = ("TOKEN", "KEY", "SECRET", "PASSW", "PWD", "CREDENTIAL", "AUTH", "WEBHOOK")

# Names of secrets: api_key, hf-token, HF_TOKEN, VLLM_API_KEY, AWS_SECRET_ACCESS_KEY, password.
_WORDS = (
    r"(?:api[_-]?keys?|(?:access|secret|private|account|encryption|signing|license|subscription|ssh)[_-]?keys?(?:[_-]id)?"
    r"|secret(?:[_-]?token)?|passw(?:or)?d|passphrase|pwd|credentials?|bearer|authorization|auth|webhook(?:[_-]url)?)"
)
# A tokenizer's bos_token and image_token are no secrets; max_tokens and tokenizer end otherwise.
_NOT_SPECIAL = "".join(
    rf"(?<!{word}[_-])"
    for word in ("bos", "eos", "pad", "unk", "sep", "cls", "mask", "image", "video", "audio", "per", "special", "start",
                 "end", "next", "last", "first", "stop", "each")
)  # fmt: skip
_START = r"(?<![\w-])(?<!\$\{)(?:--?)?[A-Za-z0-9_.-]{0,60}?"
_NAME = rf"{_START}(?:{_WORDS}|{_NOT_SPECIAL}token)(?![A-Za-z0-9-])(?!_[a-z0-9])"
_FLAG_NAME = rf"--(?:[a-z0-9]+[_-]){{0,6}}(?:{_WORDS}|token)(?:[_-]file[_-]password)?(?![\w-])"
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
        if any(needle in lowered for needle in _NEEDLES):
            rules = _rules()
            text = rules["private key"].sub(HIDDEN, text)
            text = rules["flag"].sub(self._hide_flag, text)
            for name in ("address", "query", "named", "pair", "variable", "user", "bearer"):
                text = rules[name].sub(self._hide_pair, text)
            text = rules["shape"].sub(lambda match: self._hide_value(match[0]), text)
        for value in self._known:
            if value in text:
                text = text.replace(value, HIDDEN)
        return text

    def knows_part_of(self, text: str) -> bool:
        """Something that is known to be secret stands in it."""
        return any(value in text for value in self._known)

    def is_about(self, text: str) -> bool:
        """It is a secret, holds one, or is the name of one, so that a secret may stand beside it."""
        return self.hide(text) != text or _rules()["name"].fullmatch(text) is not None

    def hide_fields(self, value: Any) -> Any:
        """The same of a JSON value, text by text: what is left is as well-formed as it was."""
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, list):
            self.learn_words(text for text in value if isinstance(text, str))
            return [self.hide_fields(item) for item in value]
        if isinstance(value, dict):
            pair = value.get("name"), value.get("value")  # a manifest's {name: HF_TOKEN, value: ...}
            if isinstance(pair[0], str) and isinstance(pair[1], str) and self._names_a_secret(pair[0]):
                value = {**value, "value": self._hide_value(pair[1])}
            return {
                self.hide(name): self._hide_value(item)
                if isinstance(item, str) and self._names_a_secret(name)
                else self.hide_fields(item)
                for name, item in value.items()
            }
        return value

    @staticmethod
    def _names_a_secret(name: str) -> bool:
        return len(name) < 100 and _rules()["name"].fullmatch(name) is not None

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
                if re.search(_NAME, name, re.IGNORECASE):
                    self.learn(value)
            else:
                self.hide(value)

    def learn_words(self, words: Iterable[str]) -> None:
        """A command line: `--api-key VALUE` as two words, whatever characters the value has."""
        listed = list(words)
        for word, value in zip(listed, [*listed[1:], ""]):
            if len(word) > 100_000 or not any(needle in word.lower() for needle in _NEEDLES):
                continue
            if word.startswith("--") and len(word) < 100 and re.fullmatch(_FLAG_NAME, word, re.IGNORECASE):
                if not value.startswith("-") and not _rules()["harmless"].fullmatch(value):
                    self.learn(value)
            else:
                self.hide(word)

    def _hide_flag(self, match: re.Match[str]) -> str:
        """The first word is the value. Further ones are values too, unless they are a path or a plain word."""
        number = 0

        def hide(word: re.Match[str]) -> str:
            nonlocal number
            number += 1
            plain = "/" in word[0] or (word[0].isalpha() and word[0].islower())
            return word[0] if number > 1 and plain else self._hide_value(word[0])

        return match["before"] + _rules()["word"].sub(hide, match["values"])

    def _hide_pair(self, match: re.Match[str]) -> str:
        groups, whole, before = match.groupdict(), match[0], match["before"]
        name = groups.get("name")
        if name and name.upper().startswith(_ENGINE_VARIABLES) and not re.search(_NAME, name, re.IGNORECASE):
            return whole
        if groups.get("list") is not None:
            inner = _rules()["word"].sub(lambda word: self._hide_value(word[0]), groups["list"])
            return whole[: len(before) + 1] + inner + whole[-1]
        for key in ("header", "quoted", "bare"):
            value = groups.get(key)
            if value is not None:
                if value.replace(".", "").isdigit() and "token" in before.lower():
                    return whole  # "KiB per token: 128"
                start = match.start(key) - match.start()
                return whole[:start] + self._hide_value(value) + whole[start + len(value) :]
        return whole

    def _hide_value(self, value: str) -> str:
        """What is printed in its place. A stranger's value is looked for elsewhere only if it is not a plain word."""
        if not value.strip() or _rules()["harmless"].fullmatch(value):
            return value
        for part in (value, value.partition(":")[2]):  # user:password, and the password alone
            if any(c.isdigit() for c in part) and any(c.isalpha() for c in part):
                self.learn(part)
        return HIDDEN


@cache
def _rules() -> dict[str, re.Pattern[str]]:
    """Compiled when the first text needs them. A rule's group `before` stays, what follows it is hidden."""
    quote = r"\\{0,3}[\"'`]"
    value = (
        r"(?:(?:Bearer|Basic|Token|Digest|ApiKey)\s{1,4}(?P<header>[^\s\"'`,;\\]{1,4000})"
        r"|[\[(](?P<list>[^\])]{0,4000})[\])]"
        r"|(?P<q>\\{0,3}[\"'`])(?P<quoted>(?:(?!(?P=q)).){0,4000}?)(?P=q)"
        r"|(?P<bare>[^\s,;&|<>(){}\[\]\"'`\\]{1,4000}))"
    )
    patterns = {
        "pair": rf"(?P<before>{_NAME}(?:{quote})?\s{{0,4}}(?:=>|[:=])\s{{0,4}}){value}",
        # vLLM's --api-key takes several values; a list in a manifest has quotes and commas between them
        "flag": rf"(?P<before>{_FLAG_NAME}(?:{quote})?)"
        rf"(?P<values>(?:(?:[\s,=\\]|\n\s{{0,40}}-\s){{1,200}}(?!(?:{quote})?-)(?:{quote})?[^\s\"'`,\\]{{1,4000}}(?:{quote})?){{1,16}})",
        "user": r"(?P<before>(?<![\w-])(?:-u|--user|--proxy-user)[\s=]{1,4}[\"']?[^\s:\"']{1,200}:)"
        r"(?P<bare>[^\s\"']{1,400})",
        # a manifest's {name: HF_TOKEN, value: ...}
        "named": rf"(?P<before>name[\"']?\s{{0,4}}:\s{{0,4}}[\"']?{_NAME}[\"']?(?:\\n|[\s,]){{1,80}}"
        rf"[\"']?value[\"']?\s{{0,4}}:\s{{0,4}}){value}",
        "variable": r"(?P<before>(?<![\w-])(?:-e|--env)[\s=]{1,4}[\"']?(?P<name>[A-Za-z_]\w{0,80})=)"
        r"(?:[\"'](?P<quoted>[^\"']{0,4000})[\"']|(?P<bare>[^\s\"']{1,4000}))",
        "address": r"(?P<before>\b[a-z][a-z0-9+.-]{1,20}://)(?P<bare>[^\s/\"'<>]{1,400})(?=@)",
        "query": r"(?P<before>[?&](?:x-amz-(?:signature|credential|security-token)|x-goog-(?:signature|credential)|"
        r"signature|sig|policy|key-pair-id|access_token|auth|token|key|api_?key|code|password|secret)=)"
        r"(?P<bare>[^\s&#\"'<>]{1,4000})",
        "bearer": r"(?P<before>\b(?:Bearer|Basic)\s{1,4})(?P<bare>[A-Za-z0-9+/_.~=-]{6,4000})",
        "shape": r"(?<![\w-])(?:"
        r"hf_(?=[a-z]{0,40}[A-Z0-9])[A-Za-z0-9]{5,200}|hf_[A-Za-z0-9]{20,200}|api_org_[A-Za-z0-9]{10,200}"
        r"|sk-[A-Za-z0-9_-]{8,200}|gh[pousr]_[A-Za-z0-9]{8,200}|github_pat_\w{8,200}|glpat-[\w-]{8,200}"
        r"|xox[abprs]-[\w-]{8,200}|nvapi-[\w-]{8,200}|r8_[A-Za-z0-9]{8,200}|A[KS]IA(?=[A-Za-z]{0,40}\d)[0-9A-Za-z]{8,40}|AIza[\w-]{20,80}"
        r"|ya29\.[\w-]{10,400}|eyJ[\w-]{6,2000}\.eyJ[\w-]{6,2000}\.[\w-]{4,2000}|pypi-[\w-]{16,400}"
        r"|npm_[A-Za-z0-9]{16,80}|dckr_pat_[\w-]{10,80}|gsk_[A-Za-z0-9]{16,80}|tvly-[\w-]{10,80})(?!\w)",
        "private key": r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]{0,8000}(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?",
        # nothing, a variable, a placeholder, or the next word of a sentence
        "harmless": r"(?:none|null|nil|true|false|auto|yes|no|not|is|are|to|from|for|file|env|and|or|\*+|\.{2,}|…|"
        r"x{3,}|\$.*|%.*|<.*|\{.*|(?:your|my|the|a|some)[_-].*|change-?me|redacted|hidden|hf_(?:x{3,}|\.{3}|…).*)",
        "word": r"[^\s\"'`,=\\\[\]]+",
        "name": _NAME,
    }
    exact = ("shape", "bearer")
    return {name: re.compile(text, re.DOTALL | (0 if name in exact else re.I)) for name, text in patterns.items()}


def hide_secrets(text: str) -> str:
    """Without memory: for a single text, such as an entry of the history."""
    return Secrets().hide(text)
