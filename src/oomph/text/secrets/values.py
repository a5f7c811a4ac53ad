"""Whether what stands behind a name is a secret: not a figure, a word of a sentence, a call or a reference to one.

What stands around a value decides where its looks do not: in `PASSWORD=maple` any word is a password.
"""

import re

from oomph.text.secrets.places import (
    CALL,
    CELL,
    DEFAULT,
    FALLBACK,
    IS,
    PAIRED,
    PGPASS_LINE,
    SETS,
    SPACED,
    TAG,
    TOLD,
    VERB,
    pattern,
)
from oomph.text.secrets.words import (
    PASSWORDS,
    Says,
    disorder,
    is_base64,
    is_compound,
    is_harmless,
    is_key,
    is_name,
    is_pass,
    is_plain_word,
    is_random,
    is_reference,
    is_sentence,
    is_sum,
    is_template,
    may_follow,
    says,
    words_of,
)


class Place:
    """One value behind a name: what stands around it decides where its looks do not."""

    def __init__(self, head: re.Match[str], value: re.Match[str], certainty: Says, kind: str, text: str) -> None:
        self.kind, self.in_table, self.is_spaced = kind, kind == CELL, kind in (SPACED, TOLD, CELL)
        self.name, self.certainty = head["name"], certainty
        # "my token is x", ENV HF_TOKEN x: nothing else could be meant
        self.has_verb = self.is_spaced and (
            _has_verb(text, head)
            or "words" in head.groupdict()
            or pattern(rf"\s(?:{IS}|-value)\s|[是为]\s?$").search(head[0]) is not None
        )
        self.op = (head.groupdict().get("op") or "").strip()
        self.before = head[0].lower()
        self.value, self.text, self.following = value, text, text[value.end() : value.end() + 2]
        self.start = head.start()
        self.line = text[text.rfind("\n", 0, head.start()) + 1 : value.end()]
        before = (text[max(0, head.start() - 200) : head.start()].split() or [""])[-1]
        self.is_resource = before.startswith("arn:")

    def secret_span(self) -> tuple[int, int] | None:
        """Where the secret stands, if there is one: the value, the words of a list, or what a call is given."""
        key = next(key for key in ("list", "header", "quoted", "bare") if self.value[key] is not None)
        if key == "list":
            return None if self.following == "::" else self.value.span(key)  # [System.Convert]::ToBase64String(...)
        if key == "bare" and self.following[:1] == "(":  # SecretStr("..."), get_token()
            argument = pattern(r"\(\s{0,4}[rbfu]{0,2}[\"'](?P<quoted>[^\"']{6,4000})[\"']").match(
                self.text, self.value.end()
            )
            is_given = argument is not None and is_random(argument["quoted"]) and not is_name(argument["quoted"])
            return argument.span("quoted") if argument is not None and is_given else None
        return None if self.is_no_secret(key) else self.value.span(key)

    def may_list(self, word: str) -> bool:
        return self.certainty is Says.SECRET or is_random(word)

    def is_sure(self, key: str) -> bool:
        """Nothing but a secret can stand there, whatever it looks like: a password may be any word."""
        if self.certainty is not Says.SECRET or self.op == ":-":
            return False
        is_variable, is_own = self.name.isupper() and len(self.name) > 4, is_compound(self.name)
        ends = self.following[:1] in ("", "\n", "\r", "\x1c", "\x1d", "\x1e")
        if key in ("header", "list"):
            return key == "header" or is_own
        if self.kind in (PAIRED, CALL, DEFAULT, FALLBACK, TAG):
            return is_variable or key == "quoted" or (self.kind == TAG and is_own)
        if self.is_spaced:
            before = self.text[max(0, self.start - 200) : self.start]
            return (ends or self.following[:1] in (" ", "'", '"')) and pattern(SETS).search(before) is not None
        if key == "quoted":
            return is_variable or (is_own and not is_sentence(self.value[key]))
        is_code = pattern(r"\([^\"']*$").search(self.line) is not None  # connect(host, password=word)
        if self.op == "=" and self.before[-1:] == "=":
            return is_variable or (is_own and not is_code)
        return (is_variable or is_own) and self._is_row(ends)

    def _is_row(self, ends: bool) -> bool:
        """A name and one word fill a line, a header in quotes or a place between braces."""
        if ends and pattern(r"[ \t-]{0,40}[\w.-]{1,100}(?::[ \t]{0,8}\S{1,400}|[ \t]?=[ \t]?[^\s.]{1,400})").fullmatch(
            self.line
        ):
            return self.op == ":" or words_of(self.name)[-1].startswith("pass")
        is_header = self.following[:1] in ("'", '"') and pattern(
            r"[\"'][ \t-]{0,40}[\w-]{1,60}:[ \t]{0,8}\S{1,400}$"
        ).search(self.line)
        return bool(is_header) or (self.following[:1] in (",", "}") and self.op == ":" and "{" in self.line)

    def is_no_secret(self, key: str) -> bool:
        value = self.value[key]
        is_sure = self.is_sure(key)
        if (
            is_harmless(value, is_sure)
            or self.is_resource
            or self.op == ":?"
            or (key == "bare" and self._is_expression(value))
        ):
            return True
        if value.replace(".", "").replace(",", "").isdigit() and "pass" not in self.before and "pwd" not in self.before:
            return True  # "KiB per token: 128"
        if self.certainty is Says.PERHAPS or self.op == ":-":
            return not self._is_likely(value)
        if key == "header":
            return self.is_spaced and is_plain_word(value)  # "using bearer token authentication"
        is_command = key == "quoted" and self.value["q"][-1:] == "`" and " " in value
        if is_sure:
            return is_reference(value, self.name) or is_template(value) or is_command
        if self.is_spaced:
            return not self._is_said(key, value)
        if self.name.strip("-_") == "token" and is_plain_word(value.strip()) and len(value) < 12:
            return True  # a piece of a text: {"token": "Hello", "logprob": ...}
        if key == "quoted":
            is_prose = "phrase" not in self.before and is_sentence(value)
            return (
                is_reference(value, self.name)
                or is_template(value)
                or is_command
                or (is_prose and not self.name.isupper())
            )
        return self._is_prose(value) or is_reference(value)

    def _is_likely(self, value: str) -> bool:
        if is_pass(self.name):  # but not the verb: "Pass `--kv-cache-dtype fp8`"
            return is_random(value) and not is_path(value) and not (self.is_spaced and value.startswith("-"))
        is_long_sum = (
            len(value) >= 20
            and pattern(r"[0-9a-f]+" if not self.name.isupper() else r"[0-9a-f-]+").fullmatch(value) is not None
        )
        return is_random(value) and disorder(value) >= 2 and (not is_sum(value) or is_long_sum) and not is_path(value)

    def _is_said(self, key: str, value: str) -> bool:
        """Nothing but a blank between them: a command that sets it, or a sentence that quotes it."""
        if self.is_told_password():
            return True
        if self.has_verb or self.in_table:
            return is_random(value) and not (self.in_table and (is_sum(value) or self.following[:1].isalnum()))
        if key == "quoted" and words_of(self.name)[-1].startswith(("passw", "passphrase")):
            return not is_sentence(value) and not is_reference(value) and not is_template(value)
        if key == "quoted":
            return " " not in value and not is_plain_word(value) and not is_reference(value) and not is_template(value)
        return is_random(value) and (is_key(value) or (len(value) >= 12 and "/" not in value and not is_sum(value)))

    def is_told_password(self) -> bool:
        """ "the password is cornflower," and not "the password is required": the sentence ends with a noun."""
        claim = pattern(
            rf"(?:{'|'.join(PASSWORDS)})[\"']?(?:\s(?:for|of|to|on|at)(?:\s[\w.@-]{{1,40}}){{1,4}})?\s{IS}\s"
        ).search(self.before)
        ends = pattern(r"[.,!]{0,3}(?:\s|$)(?!\s{0,4}[a-z])|,").match(self.text, self.value.end())
        value = (self.value["bare"] or "").rstrip(".,!")
        return (
            claim is not None
            and ends is not None
            and not pattern(r"\w*(?:ed|ing|[ai]ble|less|sensitive)").fullmatch(value)
        )

    def _is_expression(self, value: str) -> bool:
        if self.following[:1] == "[" and "." in value:
            return True
        if is_path(value) or ("/" in value and is_reference(value.rpartition("/")[2])):
            return True
        is_code = self.before.endswith((" = ", ": ", " == ", "=> ")) or self.name[:1] == "$"
        return is_code and disorder(value) < 3 and pattern(r"[a-z_]\w*(?:\.[a-z_]\w*)+:?").fullmatch(value) is not None

    def _is_prose(self, value: str) -> bool:
        goes_on = self.before[-1:].isspace() and self.following[:1] == " " and self.following[1:].isalnum()
        return goes_on and (is_plain_word(value) or (self.before.strip(": ") == "token" and not is_random(value)))


def certainty_of(head: re.Match[str], kind: str) -> Says:
    """What the name says; a bare `key` or `token` also by the word before it."""
    name = head["name"]
    if kind == SPACED and name.lower().startswith("identified"):
        return Says.SECRET
    if (
        head.string[head.start("name") - 1 : head.start("name")] == "/"
        and head[0][-1:] == " "
        and name.lower() == "token"
    ):
        return Says.NOTHING  # bytes/token = ...
    article = (head.groupdict().get("article") or "").strip()
    if article and name.lower() in ("key", "keys", "token", "tokens", "string"):
        return says(f"{article}_{name}".lower())
    if name.lower() == "passe":
        return Says.SECRET if head.string[: head.start("name")][-7:].lower() == "mot de " else Says.NOTHING
    if kind == SPACED and name.startswith("-"):
        return Says.NOTHING  # a flag, which is looked at by itself
    if kind == TOLD:
        return Says.SECRET if says(name) is Says.SECRET and may_follow(head["words"] or "") else Says.NOTHING
    return says(name)


def _has_verb(text: str, head: re.Match[str]) -> bool:
    if _is_row(text, head):
        return True
    return pattern(VERB).search(text[max(0, head.start() - 200) : head.start()]) is not None


def _is_row(text: str, head: re.Match[str]) -> bool:
    """A variable and one word, alone on their line: a listing in columns."""
    name = head["name"]
    if not (name.isupper() and "_" in name) or text[: head.start()].rpartition("\n")[2].strip():
        return False
    return " " not in text[head.end() : head.end() + 400].partition("\n")[0].strip()


def is_no_secret(rule: str, value: str, key: str, match: re.Match[str]) -> bool:
    """What stands where a secret could: a figure, a word of a sentence, a call, a user's name without a password."""
    following = match.string[match.end() : match.end() + 1]
    if rule == "base64":
        return not is_base64(value)
    if rule == "address":
        return (":" not in value and is_plain_word(value)) or is_template(value)
    if rule == "user":
        return value.isdigit() or value.isupper() or is_harmless(value.rstrip(">])}"))
    if rule == "value first":
        certainty = says(match["name"])
        is_likely = certainty is Says.SECRET or (certainty is Says.PERHAPS and is_key(value))
        return not is_likely or is_template(value) or not _is_one_mapping(match)
    if rule == "echo":
        return value.startswith("$")
    if rule == "option":
        return not is_key(value) or is_path(value) or "/" in value or "." in value
    if rule == "pgpass":  # whatever it looks like where the five fill their line and the first is a machine
        is_line = _fills_line(match) and pattern(PGPASS_LINE).fullmatch(match[0]) is not None
        return is_harmless(value, is_line) or not (is_line or is_random(value))
    if rule == "password":
        return (
            is_reference(value, "in quotes" if key == "quoted" else "")
            or is_template(value)
            or (key == "bare" and following == "(")
        )
    if rule == "client":
        return not is_key(value) or "/" in value or "." in value
    if rule == "piped" and match["plain"] is not None:
        return value.startswith("$") or is_template(value)
    if rule == "pair":
        return not is_random(value) or is_path(value)
    if rule in ("bearer", "login", "piped"):
        return (rule == "bearer" or key == "bare" or is_plain_word(value)) and (
            not is_random(value) or following == "("
        )
    return is_reference(value) or is_template(value)


def _fills_line(match: re.Match[str]) -> bool:
    """Or stands in quotes."""
    text = match.string
    before, after = text[max(0, match.start() - 1) : match.start()], text[match.end() : match.end() + 1]
    return before in ("", "\n", "'", '"') and after in ("", "\n", "\r", "'", '"', "\x1c", "\x1d", "\x1e")


def _is_one_mapping(match: re.Match[str]) -> bool:
    """The value's key and the name's stand on one line, or one under the other."""
    text, start, end = match.string, match.start(), match.start("key")
    if "\n" not in text[start:end]:
        return True
    before, indent = (re.split(r"[\n\x1c-\x1e]", text[:at])[-1] for at in (start, end))
    return len(before) == len(indent) or (before.strip(" -") != "" and indent != "")  # an error quotes its beginning


def is_path(value: str) -> bool:
    return (
        re.match(r"(?:~|\.{0,2})/[\w.-]*(?:/|\.\w|$)|[\w.-]+(?:/[\w.-]+){2,}\.\w{1,12}$|s3://|gs://", value) is not None
    )


def is_argument(text: str, word: re.Match[str]) -> bool:
    """add_argument("--api-key", type=str): the name of another argument."""
    return text[word.end() : word.end() + 1] == "=" and word[0].isidentifier()
