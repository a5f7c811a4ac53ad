# ruff: noqa: E501 - tables of patterns
"""How secrets look in what people paste: the names before them, the commands around them, their own shapes.

A pattern's group `before` stays, what follows it is a value: `bare`, `quoted`, `header`, or the words of a `list`. All
repetitions are bounded, so that no text takes longer than its length.
"""

import re
from functools import cache
from itertools import pairwise

# Every text with a secret has one of these. Most outputs have none, and for them nothing is compiled.
NEEDLES = (
    "key", "token", "secret", "passw", "passphrase", "pass", "pwd", "credential", "bearer", "basic ", "auth", "hook", "@",
    "hf_", "sk-", "sk_", "rk_", "gh", "glpat", "glsa", "xox", "xapp", "nvapi", "r8_", "akia", "asia", "ltai", "aiza", "ya29",
    "eyj", "pypi-", "npm_", "dckr", "gsk_", "tvly", "api_org", "-e ", "--env", "-u ", "--user", "sig=", "policy=", "x-amz",
    "x-goog", "signature", "code=", "cookie", "login", "literal", "sg.", "hvs.", "dop_v1", "dapi", "gocspx", "shpat", "lin_api",
    "rpa_", "xai-", "pplx-", "atatt", "data:", " -a ", " -w ", "<<<", "telegram", "hc-ping", "-p", "sudo -s", "/user:", "alias set", "session", "/t/", "connectionstring", "dsn",
)  # fmt: skip

# Names of secrets: api_key, hf-token, HF_TOKEN, VLLM_API_KEY, AWS_SECRET_ACCESS_KEY, accessKeyId, password.
WORDS = (
    r"(?:(?:api|auth|access|secret|private|account|encryption|signing|license|subscription|ssh|master|shared|storage)[ _-]?keys?"
    r"(?:[_-]?id)?|secret(?:[_-]?(?:token|string))?|passw(?:or)?d|passphrase|passwort|pwd|credentials?|bearer|authorization"
    r"|auth|webhook(?:[_-]url)?|connection[_-]?string|(?:access|auth|refresh|session|id|bot|deploy)[ _-]?token|密码|令牌)"
)
# A tokenizer's bos_token and image_token are no secrets; max_tokens and tokenizer end otherwise.
_NOT_SPECIAL = "".join(
    rf"(?<!{word}[_-])"
    for word in ("bos", "eos", "pad", "unk", "sep", "cls", "mask", "image", "video", "audio", "per", "special", "start",
                 "end", "next", "last", "first", "stop", "each", "think", "tool", "eot", "eom", "prefix", "suffix")
)  # fmt: skip
_START = r"(?<![\w-])(?<!\$\{)(?:--?)?[A-Za-z0-9_.-]{0,60}?"
NAME = rf"{_START}(?:{WORDS}|{_NOT_SPECIAL}token)(?![A-Za-z0-9-])(?!_[a-z0-9])"
FLAG_NAME = rf"--(?:[a-z0-9]+[_-]){{0,6}}(?:{WORDS}|token)(?:[_-]file[_-]password)?(?![\w-])"
_QUOTE = r"\\{0,3}[\"'`]"
_PLAIN = r"(?:[rbfu]{0,2}(?P<q>\\{0,3}[\"'`])(?P<quoted>(?:(?!(?P=q)).){0,4000}?)(?P=q)|(?P<bare>[^\s,;&|<>(){}\[\]\"'`\\]{1,4000}))"
_VALUE = (
    r"(?:(?:Bearer|Basic|Token|Digest|ApiKey)[ \t]{1,4}(?P<header>[^\s\"'`,;\\]{1,4000})"
    rf"|[\[(](?P<list>[^\])]{{0,4000}})[\])]|{_PLAIN})"
)
_REST = r"[^\n|;&]{0,200}?\s"  # of a command, up to an option
_WEBHOOKS = (
    r"hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/", r"(?:\w{1,20}\.)?discord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/",
    r"api\.telegram\.org/(?:file/)?bot", r"[\w-]{0,60}\.?webhook\.office\.com/webhookb2/", r"outlook\.office(?:365)?\.com/webhook/",
    r"hooks\.zapier\.com/hooks/catch/", r"open\.(?:feishu\.cn|larksuite\.com)/open-apis/bot/v2/hook/", r"hc-ping\.com/",
    r"maker\.ifttt\.com/trigger/[^/\s]{1,80}/with/key/", r"events\.pagerduty\.com/integration/",
    r"hook\.\w{2,4}\d?\.make\.com/", r"chat\.googleapis\.com/v1/spaces/", r"[\w.-]{1,100}/t/", r"prod-\d{1,3}\.\w{2,30}\.logic\.azure\.com",
)  # fmt: skip
_SHAPES = (
    r"hf_(?=[a-z]{0,40}[A-Z0-9])[A-Za-z0-9]{5,200}", r"hf_[A-Za-z0-9]{20,200}", r"api_org_[A-Za-z0-9]{10,200}",
    r"sk-(?=[a-z_-]{0,60}[A-Z0-9])[A-Za-z0-9_-]{8,200}", r"[srp]k_(?:live|test)_[A-Za-z0-9]{8,200}", r"gh[pousr]_[A-Za-z0-9]{8,200}",
    r"github_pat_\w{8,200}", r"gl(?:pat|dt|rt|ptt|soat)-[\w-]{8,200}", r"glsa_\w{16,200}", r"xox[abeprs][-.][\w-]{8,200}",
    r"xapp-[\w-]{8,200}", r"nvapi-[\w-]{8,200}", r"r8_[A-Za-z0-9]{8,200}", r"A[KS]IA(?=[A-Za-z]{0,40}\d)[0-9A-Za-z]{8,40}",
    r"LTAI(?=[A-Za-z]{0,20}\d)[A-Za-z0-9]{12,30}", r"AIza[\w-]{20,80}", r"GOCSPX-[\w-]{16,80}", r"ya29\.[\w-]{10,400}",
    r"eyJ[\w-]{6,2000}\.eyJ[\w-]{6,2000}\.[\w-]{4,2000}", r"pypi-[\w-]{16,400}", r"npm_[A-Za-z0-9]{16,80}",
    r"dckr_pat_[\w-]{10,80}", r"gsk_[A-Za-z0-9]{16,80}", r"tvly-[\w-]{10,80}", r"SG\.[\w-]{16,80}\.[\w-]{16,80}",
    r"hvs\.[\w-]{16,200}", r"dop_v1_[0-9a-f]{32,80}", r"dapi[0-9a-f]{32}", r"shpat_[0-9a-f]{24,40}", r"lin_api_[A-Za-z0-9]{16,80}",
    r"rpa_[A-Za-z0-9]{16,80}", r"xai-[A-Za-z0-9]{16,120}", r"pplx-[A-Za-z0-9]{16,120}", r"ATATT3[\w=-]{16,400}",
    r"AGE-SECRET-KEY-1[0-9A-Z]{20,80}", r"\d{8,10}:AA[\w-]{30,40}",
)  # fmt: skip
_CASED = ("shape", "bearer", "password", "base64")
_PATTERNS = {
    "private key": r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]{0,8000}(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?",
    # vLLM's --api-key takes several values; a list in a manifest has quotes and commas between them
    "flag": rf"(?P<before>{FLAG_NAME}(?:{_QUOTE})?)"
    rf"(?P<values>(?:(?:[\s,=\\]|\n\s{{0,40}}-\s){{1,200}}(?!(?:{_QUOTE})?-)(?:{_QUOTE})?[^\s\"'`,\\]{{1,4000}}(?:{_QUOTE})?){{1,16}})",
    "address": r"(?P<before>\b[a-z][a-z0-9+.-]{1,20}://)(?P<bare>[^\s/\"'<>]{1,400})(?=@)",
    "webhook": rf"(?P<before>https?://(?:{'|'.join(_WEBHOOKS)}))(?P<bare>[^\s\"'<>)\]]{{4,4000}})",
    "query": r"(?P<before>(?:[?&;]|%26)(?:x-amz-(?:signature|credential|security-token)|x-goog-(?:signature|credential)|"
    r"signature|sig|policy|key-pair-id|access_?key(?:_?id)?|access_token|auth|token|key|api_?key|code|password|pass|pwd|secret|"
    r"client_secret|jwt|sas|se?ssion(?:_?id)?)(?:=|%3d))(?P<bare>[^\s&#\"'<>]{1,4000})",
    # a manifest's {name: HF_TOKEN, value: ...}
    "named": rf"(?P<before>name[\"']?\s{{0,4}}:\s{{0,4}}[\"']?{NAME}[\"']?(?:\\n|[\s,]){{1,80}}"
    rf"[\"']?value[\"']?\s{{0,4}}:\s{{0,4}}){_VALUE}",
    "told": rf"(?P<before>\b(?:login|set_api_key|set_token|set_key|basic_auth)\(\s{{0,4}}(?:\w{{1,20}}\s?=\s?)?|\b(?:wandb|comet|clearml|hf|huggingface-cli|ngc|modal|"
    rf"gh)\s{{1,4}}(?:auth\s|config\s|token\s){{0,2}}(?:login|set)\s{{1,4}}(?:--?\w[\w-]{{0,30}}\s{{1,4}}){{0,3}}|ConvertTo-SecureString\s{{1,4}}"
    rf"(?:-(?:String|AsPlainText|Force)\s{{1,4}}){{0,3}}|\b(?:token|key|password|passwd|passphrase|secret|passwort)\s{{1,2}}(?:is|was|ist)"
    rf"\s?:?\s{{1,2}}|(?:--password-stdin|--with-token|sudo\s-S)[^\n|;&<]{{0,80}}<<<\s?|{NAME}\s{{1,2}}){_PLAIN}",
    # os.environ["HF_TOKEN"] = "...", token%3D...
    "pair": rf"(?P<before>{NAME}(?:{_QUOTE})?\]?\s{{0,4}}(?:=>|:=|:\s?[\w.\[\]| ]{{1,40}}?=|[:=]|%3[ad])[ \t]{{0,4}}){_VALUE}",
    # putenv("HF_TOKEN", "..."), SetEnvironmentVariable("HF_TOKEN", "...")
    "call": rf"(?P<before>\(\s{{0,4}}{_QUOTE}{NAME}{_QUOTE}\s{{0,4}},\s{{0,4}}){_PLAIN}",
    # ENV HF_TOKEN ..., set -x HF_TOKEN ..., aws configure set aws_secret_access_key ..., git config user.password ...
    "spaced": rf"(?P<before>(?<![\w-])(?:env|arg|setenv|setx?|config|configure\s{{1,4}}set|put|add)\s{{1,4}}(?:-{{1,2}}\w{{1,20}}\s{{1,4}}){{0,3}}"
    rf"[\"']?(?:[^\s\"']{{1,100}}[:/])?{NAME}[\"']?[ \t]{{1,8}}){_PLAIN}",
    "password": rf"(?P<before>(?<![\w-])(?:(?:[A-Z][A-Z0-9_]{{0,60}}_)?PASS\s?=\s?|[A-Z][A-Z0-9_]{{0,60}}_(?:KEY|SECRET|TOKEN|PASSWORD|SALT)(?:_[A-Z]{{1,20}}){{0,3}}=|(?:db|root|admin|user|smtp|mail|ftp|ssh|redis|my"
    rf"sql|pg|postgres|mongo|sudo|proxy|ldap|rabbitmq)_?[Pp]ass{_QUOTE}?\s{{0,4}}[:=]\s{{0,4}})){_PLAIN}",
    "login": rf"(?P<before>\b(?:docker|podman|nerdctl|buildah|skopeo|oras|helm|crane|az|oc)\s{{1,4}}(?:registry\s)?login\b{_REST}"
    rf"(?:-p|--password)[ =]|\bsshpass\s{{1,4}}-p\s?|\btwine\s{_REST}?(?:-p|--password)\s|/pass(?:word)?:|\bmc\s{{1,4}}(?:alias\sset|config\shost\sadd)(?:\s{{1,4}}\S{{1,200}}){{3}}\s{{1,4}}|\b(?:mysql|mysqldump|mysqladmin|mariadb)\s{_REST}?-p(?=[^\s-])|\bredis-cli\s"
    rf"{_REST}?(?:-a|--pass)\s|\b(?:ldapsearch|ldapadd|ldapmodify)\s{_REST}?-w\s|\b(?:unzip|zip)\s{_REST}?-P\s|\bhtpasswd\s{_REST}?"
    rf"-\w{{0,4}}b\w{{0,4}}\s\S{{1,100}}\s\S{{1,100}}\s|-pass(?:in|out)?\s(?:pass:)|\bnet use\s[^\n]{{1,100}}\s/user:\S{{1,60}}\s){_PLAIN}",
    "echo": rf"(?P<before>\b(?:echo|printf)\s{{1,4}}(?:-n\s{{1,4}}|[\"']?%s(?:\\n)?[\"']?\s{{1,4}})?){_PLAIN}"
    r"(?=\s{0,4}\|[^\n|]{0,120}(?:--password-stdin|--with-token|sudo\s-S|base64|login))",
    "literal": rf"(?P<before>--from-literal[= ][\"']?[\w.-]{{1,80}}=){_PLAIN}",
    "netrc": r"(?P<before>\b(?:login|machine)\s{1,20}\S{1,200}\s{1,20}passw(?:or)?d\s{1,20})(?P<bare>\S{1,400})",
    "variable": r"(?P<before>(?<![\w-])(?:-e|--env)[\s=]{1,4}[\"']?(?P<name>[A-Za-z_]\w{0,80})=)"
    r"(?:[\"'](?P<quoted>[^\"']{0,4000})[\"']|(?P<bare>[^\s\"']{1,4000}))",
    "user": r"(?P<before>(?<![\w-])(?:-u|--user|--proxy-user|-U)[\s=]{1,4}[\"']?[^\s:\"']{1,200}:)(?P<bare>[^\s\"']{1,400})",
    "bearer": r"(?P<before>\b(?:Bearer|Basic)\s{1,4})(?P<bare>[A-Za-z0-9+/_.~=-]{6,4000})",
    "base64": r"(?P<before>(?:^|[\s\"',{])[\w.-]{1,60}[\"']?:\s{0,4}[\"']?)(?P<bare>[A-Za-z0-9+/]{38,4000}={0,2})(?![\w+/=.-])",
    "shape": rf"(?<![\w-])(?:{'|'.join(_SHAPES)})(?!\w)",
}
# The values of `data` in a Kubernetes Secret, whose kind stands before them or after; the pairs of a cookie.
_BLOCKS = {
    "kind first": r"(?P<before>^[ \t]{0,40}kind:[ \t]{0,4}Secret[ \t]{0,4}\n(?:(?!---)[^\n]{0,400}\n){0,40}?[ \t]{0,40}(?:data|stringData):[ \t]{0,4}\n)"
    r"(?P<block>(?:[ \t]{1,40}[^\n]{0,8000}(?:\n|\Z)){1,60})",
    "kind last": r"(?P<before>^[ \t]{0,40}(?:data|stringData):[ \t]{0,4}\n)(?P<block>(?:[ \t]{1,40}[^\n]{0,8000}\n){1,60})"
    r"(?=[ \t]{0,40}kind:[ \t]{0,4}Secret)",
    "cookie": rf"(?P<before>(?<!\w)(?:set-)?cookies?2?(?:{_QUOTE})?\]?\s{{0,4}}[:=]\s{{0,4}}(?:{_QUOTE})?|\bcurl\b[^\n]{{0,400}}?\s(?:-b|--cookie)\s{{1,4}}[\"']?)"
    r"(?P<block>[^\n\r\"'`]{1,4000})",
}
ENTRIES = {
    "kind first": r"^(?P<before>[ \t]{1,40}[\w.-]{1,200}:[ \t]{1,8})(?P<bare>[^\n]{1,8000})",
    "kind last": r"^(?P<before>[ \t]{1,40}[\w.-]{1,200}:[ \t]{1,8})(?P<bare>[^\n]{1,8000})",
    "cookie": r"(?P<before>(?<![\w.-])(?!(?:path|domain|expires|max-age|samesite|version|priority)=)[\w.!#$%&*+^|~-]{1,200}=)(?P<bare>[^;\s]{1,4000})",
}
# Nothing, a variable, a placeholder, a word that no secret is, or an expression of a program.
_HARMLESS = (
    r"none|null|nil|undefined|true|false|auto|yes|no|not|on|off|is|are|was|to|from|for|in|of|at|by|with|file|env|and|or|set|unset|missing|required|"
    r"optional|invalid|valid|wrong|incorrect|empty|expired|disabled|enabled|denied|failed|accepted|unknown|dummy|unused|test|todo|bearer|basic|"
    r"string|str|int|bool|bytes|object|secret|password|token|key|default|hidden|redacted|change-?me|n/?a|"
    r"\*+|\.{2,}|…|x{3,}|-+|\$|\$\(.*|\$\{.*|\$(?:env:)?[A-Z_][A-Z0-9_]*|\$(?:env:)?[a-z_]+|%[A-Z_]+%|%\(?[a-z_]*\)?[sdr]|<.*|\{[^{}]*\}?|\{\{.*|"
    r"(?-i:[\[<]?[A-Z][A-Z_]+[\]>]?|[a-z][a-z_]{0,7})|(?:your|my|the|a|some|an)[_-][a-z_-]*|hf_(?:x{3,}|\.{3}|…|[a-z_]*token[a-z_]*).*|sk-(?:no-key-required|x{3,}|\.{3}).*|"
    r"(?:self|args|os|config|settings|cfg|kwargs|options|opts|request|ctx|env|process|values|params|context|app|st|secrets)\.[\w.]+"
)


@cache
def patterns() -> dict[str, re.Pattern[str]]:
    """Compiled when the first text needs them, in the order in which they are applied."""
    return {name: re.compile(text, re.DOTALL | _flags(name)) for name, text in _PATTERNS.items()}


@cache
def blocks() -> dict[str, tuple[re.Pattern[str], re.Pattern[str]]]:
    """Where several values stand together, and each of them there."""
    return {
        name: (re.compile(text, re.I | re.M), re.compile(ENTRIES[name], re.I | re.M)) for name, text in _BLOCKS.items()
    }


@cache
def pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.I | re.DOTALL)


def _flags(name: str) -> re.RegexFlag:
    return re.RegexFlag(0) if name in _CASED else re.I


def is_name(text: str) -> bool:
    """It is the name of a secret."""
    return len(text) < 100 and pattern(NAME).fullmatch(text) is not None


def is_harmless(value: str) -> bool:
    return not any(map(str.isalnum, value)) or pattern(_HARMLESS).fullmatch(value) is not None


def is_template(text: str) -> bool:
    """f"Bearer {token}": nothing is in it but what a program will put there."""
    rest = pattern(r"\{[^{}]*\}|\$\{?\w+\}?|<[^<>]*>|\b(?:Bearer|Basic|Token)\b").sub("", text)
    return rest != text and not any(map(str.isalnum, rest))


def is_plain_word(value: str) -> bool:
    """A word of a sentence rather than a key: lower-case letters, perhaps a capital first, no digit."""
    letters = value.rstrip(".:;!?").replace("-", "").replace("'", "").replace("’", "")
    return letters.isalpha() and letters[1:].islower()


def is_random(value: str) -> bool:
    """Digits among letters, or capitals among small letters: no word of a language."""
    if len(value) < 6:
        return False
    has_digit, has_letter = any(c.isdigit() for c in value), any(c.isalpha() for c in value)
    return (has_digit and has_letter) or re.search(r"[a-z][A-Z][A-Za-z]*[a-z][A-Z]", value) is not None


# A line that speaks of a secret: what looks like a key there is one, wherever it stands.
CONTEXT = (
    r"passw|passphrase|/pass:|secret|api.?key|access.?key|private.?key|auth(?!or)|\blogin|credential|cookie|session|webhook|"
    r"token(?!s|iz)|netrc|\bsudo -S\b|\bbearer\b|\bkey(?:=|\b)"
)
# Sums and numbers of things, which look like keys and are none.
NO_KEYS = r"[0-9a-fA-F-]{6,}|0x[0-9a-fA-F]+|sha\d+[:-]\S+|Root=\S+|chatcmpl-\S+|cmpl-\S+|GPU-\S+|\d[\d.,:T/+-]*Z?"


def is_key(word: str) -> bool:
    """Twelve letters and digits or more in no order, once the words of a language are taken out."""
    for run in re.findall(r"[A-Za-z0-9]{12,}", word):
        rest = re.sub(r"[A-Z][a-z]{2,}|[a-z]{3,}", "", run)
        kinds = ["a" if c.islower() else "A" if c.isupper() else "0" for c in rest]
        figures = len(re.findall(r"[A-Za-z](?=\d)|\d(?=[A-Za-z])", run))
        if figures >= 5 or (len(rest) >= 9 and "0" in kinds and sum(a != b for a, b in pairwise(kinds)) >= 4):
            return pattern(NO_KEYS).fullmatch(word) is None
    return False


def is_base64(value: str) -> bool:
    """Whole groups of four, small and capital letters and digits in no order: no path, no name, no hexadecimal sum."""
    if len(value) % 4 or re.fullmatch(r"[0-9a-f]+|[0-9A-F]+", value):
        return False
    kinds = ["a" if c.islower() else "A" if c.isupper() else "0" for c in value.rstrip("=")]
    return set(kinds) == set("aA0") and sum(a != b for a, b in pairwise(kinds)) * 3 > len(kinds)
