# ruff: noqa: E501 - tables of patterns
"""What a name says of the value beside it, and what a value looks like.

A name is cut into its words (HF_TOKEN, hfToken, hf-token, hub.hf.token), and the last of them decide, as they do for
people: `max_tokens` and `token_file` name no secret, `TOKEN_PROD` and `SECRET_KEY_BASE` do. A value has the shape of a
service's keys, no order at all, or is a placeholder, a word, an expression.
"""

import re
from collections.abc import Callable
from enum import IntEnum
from functools import cache, lru_cache
from itertools import pairwise


class Says(IntEnum):
    NOTHING = 0
    PERHAPS = 1  # a value in no order is a secret there: key, pass, sig
    SECRET = 2


def _set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


# What people call one in their languages: any word is one where it is said to be.
PASSWORDS = _set_of(
    """password passwd passwort passphrase kennwort wachtwoord contraseña contrasena senha passe mdp пароль hasło
    heslo lösenord salasana jelszó şifre adgangskode passord"""
)
_SECRET = (PASSWORDS - {"passe"}) | _set_of(
    """passwords passcode passwrd pwd secret token apikey apikeys authkey authtoken accesskey secretkey credential
    credentials psk jwt bearer authorization"""
)
_SECRET_SIGNS = (
    "密码",
    "密碼",
    "密钥",
    "密鑰",
    "令牌",
    "口令",
    "パスワード",
    "비밀번호",
)  # no blank stands around them
_PERHAPS = _set_of(
    """key keys tok pass pw auth pat pin otp totp cookie cookies session sid sig signature signing salt dsn code
    webhook hook login sas secrets nonce clé schlüssel ключ connectionstring bind"""
)
# What may follow: SECRET_KEY_BASE, ACCESS_KEY_ID, TOKEN_PROD, DB_PASSWORD_2.
_TAILS = _set_of(
    """value string text plain plaintext base base64 b64 raw prod production dev staging stage test new old id primary
    secondary default main live data bytes b url uri json"""
)
# What no secret is called, whatever else the name says.
_NO_SECRETS = _set_of(
    """name names file files path dir folder ref refs type length len size count limit ids field header headers prefix
    suffix ttl expires expiry expiration seconds policy provider manager class mode stdin var label hint required
    enabled usage budget index parser throughput endpoint issuer audience scope scopes algorithm version format
    helper store rotation age max min per rate hash manager reader writer parallelism env"""
)
# What a sentence about a secret gives instead of it.
_THINGS = _set_of("model models repo repository image host user engine release dtype device gpu port")
_KEYS = _set_of(
    """api access secret private account encryption decryption signing subscription ssh master shared storage auth
    service client app application admin deploy write function functions ingest project consumer aes hmac fernet
    webhook bot user server security openai anthropic wandb hf"""
)
_USERS = _set_of("ssh become db smtp admin root mail proxy ftp sudo user redis mysql pg")  # db_pass
_NO_KEYS = _set_of(
    """cache public primary foreign sort partition hash index object map dict state any hot block press sticky
    compile prefix group idempotency lookup config dictionary num kv query first last missing unexpected"""
)
# A tokenizer's bos_token and image_token.
_NO_TOKENS = _set_of(
    """bos eos pad unk sep cls mask image video audio per special start end next last first stop each think tool eot
    eom prefix suffix every one new per-token fim eog lf nl max min input output prompt draft sampled cached pre mid"""
)
_OF_TOKENS = frozenset(("api", "access", "auth", "refresh", "bearer"))
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-zà-öø-ɏ]+|\d+|[^\W\d_A-Za-zà-öø-ɏ]+")


def words_of(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


@lru_cache(4096)
def says(name: str) -> Says:
    """Of an identifier, a flag, a header, a variable, or the two words of a sentence before a value."""
    words = words_of(name[-100:])
    while len(words) > 1 and (words[-1] in _TAILS or words[-1].isdigit()):
        words.pop()
    if not words:
        return Says.NOTHING
    *before, last = words
    kind = before[-1] if before else ""
    if "existing" in before:  # existingSecret, existingSecretKey: what a chart looks up
        return Says.NOTHING
    if last == "token":
        return Says.NOTHING if kind in _NO_TOKENS else Says.SECRET
    if last == "tokens":
        return Says.SECRET if kind in _OF_TOKENS else Says.NOTHING
    if last in ("key", "keys"):
        if kind in _NO_KEYS:
            return Says.NOTHING
        return Says.SECRET if kind in _KEYS or (before and _is_variable(name)) else Says.PERHAPS
    if (
        last in _SECRET
        or any(sign in last for sign in _SECRET_SIGNS)
        or (len(last) > 5 and last.endswith(("password", "passwd", "apikey", "secret")))
    ):
        return Says.SECRET
    if (last == "pass" and kind in _USERS) or last.endswith(
        ("storepass", "keypass", "requirepass", "rootpass", "userpass", "dbpass")
    ):
        return Says.SECRET
    if last in _PERHAPS or last.endswith(("pass", "sessid", "sessionid")):
        return Says.SECRET if last in ("salt", "pass") and before and _is_variable(name) else Says.PERHAPS
    is_about = {"password", "passwd", "secret", "passphrase", "credential", "apikey"} & set(before)
    if _is_variable(name):
        is_about |= {"token", "pat", "key"} & set(before)
    return Says.PERHAPS if is_about and last not in _NO_SECRETS else Says.NOTHING


def is_pass(name: str) -> bool:
    """`pass` and `pw`: every value with a digit in it is a secret there."""
    return (words_of(name[-100:]) or [""])[-1].endswith(("pass", "pw"))


def is_name(text: str) -> bool:
    """It is the name of a secret, and nothing else."""
    return len(text) < 100 and re.fullmatch(r"[\w.$-]+", text) is not None and says(text) is Says.SECRET


def is_compound(name: str) -> bool:
    """`hf_token` and `password` are given a value; `token`, `secret` and `credentials` alone may be anything."""
    *before, last = words_of(name) or [""]
    if last in ("secret", "credential", "credentials"):  # existingSecret: the name of one
        return bool(before) and before[-1] in _KEYS
    if last == "token" and before[-1:] == ["id"]:  # a permission of GitHub's
        return False
    return bool(before) or last in PASSWORDS or last in ("pwd", "apikey")


def is_reference(text: str, to: str = "") -> bool:
    """What a secret is called where it is looked up: HF_TOKEN, its own name; unquoted also hf_token and api-key."""
    if not is_name(text) or any(map(str.isdigit, text)):
        return False
    if to:
        return text.isupper() or text.lower() in _SECRET or words_of(text) == words_of(to)
    return text.lower() in _SECRET or re.search(r"[_.-]", text) is not None


def may_follow(words: str) -> bool:
    """ "token registered: x" gives it, "token file: x" and "token for model: x" do not."""
    return not (_NO_SECRETS | _THINGS) & set(words.lower().split())


def _is_variable(name: str) -> bool:
    return name.isupper()


# How services begin their keys, so that a stranger who finds one knows whose it is.
_SHAPES = (
    r"hf_(?=[a-z]{0,40}[A-Z0-9])[A-Za-z0-9]{5,200}", r"hf_[A-Za-z0-9]{20,200}", r"api_org_[A-Za-z0-9]{10,200}",
    r"sk-(?=[a-z_-]{0,60}[A-Z0-9])[A-Za-z0-9_-]{8,200}", r"[srp]k_(?:live|test)_[A-Za-z0-9]{8,200}", r"whsec_[\w+/=]{16,200}",
    r"gh[pousr]_[A-Za-z0-9]{8,200}", r"github_pat_\w{8,200}", r"gl(?:pat|dt|rt|ptt|soat|cbt|imt|ft|agent)-[\w-]{8,200}",
    r"gl(?:sa|c)_[\w=]{16,400}", r"xox[abeoprs][-.][\w-]{8,200}", r"xapp-[\w-]{8,200}", r"nvapi-[\w-]{8,200}", r"r8_[A-Za-z0-9]{8,200}",
    r"A(?:KI|SI|BI|CC)A(?=[A-Za-z]{0,40}\d)[0-9A-Za-z]{8,40}", r"LTAI(?=[A-Za-z]{0,20}\d)[A-Za-z0-9]{12,30}", r"AKID(?=[A-Za-z]{0,20}\d)[A-Za-z0-9]{12,60}",
    r"AIza[\w-]{20,80}", r"GOCSPX-[\w-]{16,80}", r"ya29\.[\w-]{10,400}", r"1//0[\w-]{20,200}",
    r"eyJ[\w-]{6,2000}\.eyJ[\w-]{6,2000}\.[\w-]{4,2000}", r"pypi-[\w-]{16,400}", r"npm_[A-Za-z0-9]{16,80}",
    r"dckr_(?:pat|oat)_[\w-]{10,80}", r"gsk_[A-Za-z0-9]{16,80}", r"tvly-[\w-]{10,80}", r"SG\.[\w-]{16,80}\.[\w-]{16,80}",
    r"hv[sbr]\.[\w-]{16,200}", r"do[por]_v1_[0-9a-f]{32,80}", r"d(?:api|kea)[0-9a-f]{32}", r"shp(?:at|ss|ca|pa)_[0-9a-fA-F]{24,40}",
    r"lin_(?:api|oauth)_[A-Za-z0-9]{16,80}", r"rpa_[A-Za-z0-9]{16,80}", r"xai-[A-Za-z0-9]{16,120}", r"pplx-[A-Za-z0-9]{16,120}",
    r"AT(?:ATT|CTT)3[\w=-]{16,400}", r"ATBB[A-Za-z0-9]{20,60}", r"AGE-SECRET-KEY-1[0-9A-Z]{20,80}", r"\d{8,10}:AA[\w-]{30,40}",
    r"ntn_[A-Za-z0-9]{20,80}", r"secret_[A-Za-z0-9]{32,80}", r"figd_[\w-]{20,80}", r"sntry[su]_[\w+/=-]{20,400}", r"sq0(?:atp|csp)-[\w-]{16,80}",
    r"PMAK-[\w-]{20,120}", r"pul-[0-9a-f]{32,60}", r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{40,100}", r"HRKU-[\w-]{20,80}", r"(?:SK|AC)[0-9a-f]{32}",
    r"f[mo][12]\w?_[\w+/=,-]{20,800}", r"nfp_\w{20,80}", r"sbp_[0-9a-f]{20,80}", r"pn[ub]_\w{20,80}", r"fw_[A-Za-z0-9]{16,80}", r"tgp_v1_[\w-]{20,80}",
    r"jina_\w{20,120}", r"lsv2_(?:pt|sk)_\w{20,120}", r"[sp]k-lf-[\w-]{16,80}", r"a[ks]-[A-Za-z0-9]{16,40}", r"tskey-\w{2,20}-[\w-]{8,120}",
    r"NR(?:AK|JS|II)-[A-Za-z0-9]{16,80}", r"dt0c\d\d\.[A-Z0-9]{20,30}\.[A-Z0-9]{50,80}", r"ph[cx]_[A-Za-z0-9]{20,80}", r"SWMTKN-1-[\w-]{16,200}",
    r"CCIPAT_\w{16,100}", r"bkua_[0-9a-f]{20,60}", r"sha256~[\w-]{20,80}", r"xkeysib-[\w-]{20,120}", r"re_[A-Za-z0-9]{6,12}_[A-Za-z0-9]{16,40}",
    r"EAA[A-Za-z0-9]{40,300}", r"tk_[a-z0-9]{20,40}", r"ops_eyJ[\w-]{20,2000}", r"v1\.0-[0-9a-f]{20,40}-[0-9a-f]{100,200}", r"csk-[a-z0-9]{20,80}",
)  # fmt: skip
SHAPE = rf"(?<![\w-])(?:{'|'.join(_SHAPES)})(?!\w)"

# Nothing, a variable, a placeholder, a word that no secret is.
_HARMLESS = (
    r"none|null|nil|undefined|true|false|auto|yes|no|not|on|off|is|are|was|to|from|for|in|of|at|by|with|file|env|and|or|set|unset|missing|required|"
    r"optional|invalid|valid|wrong|incorrect|empty|expired|disabled|enabled|denied|failed|accepted|unknown|dummy|unused|test|todo|bearer|basic|"
    r"(?:string|int|bytes)(?:s|array|slice|tostring|toint|hex|base64)?|str|bool|duration|float\d*|u?int\d*|object|secret|password|token|key|default|hidden|redacted|change-?me|n/?a|not-needed|no-key|ollama|local|"
    # a type that holds one: SecretStr, OAuthToken, ApiKeyType
    r"(?-i:(?:[A-Z][A-Za-z]{1,20})?(?:Secret|Token|Password|Key|Credentials?|OAuth2?)(?:Str|String|Bytes|Type|Provider|Credentials?|Scheme|Model|Config|Source|Ref|Spec|Info)|"
    r"(?:OAuth2?|Access|Refresh|Auth|Api|Bearer|Id|JWT)(?:Token|Key))|"
    r"\*+|\w{0,4}\*{3,}\w{0,4}|\.{2,}|…|x{3,}|-+|[|>][+-]?|\$|\$\(.*|\$\{.*|\$(?:env:)?[A-Z_][A-Z0-9_]*|\$(?:env:)?[a-z_]+|%[A-Z_]+%|%\(?[a-z_]*\)?[sdr]|<.*|\{[^{}]*\}?|\{\{.*|![a-z]+|(?-i:(?:[A-Z][a-z]+){1,3}-[A-Z][A-Za-z]+)|"
    r"(?-i:[\[<]?(?:[A-Z]{2,16}|[A-Z]+(?:_[A-Z]+)+)[\]>]?)|\*+(?:redacted|hidden)\*+|(?:your|my|the|a|some|an)[_-][a-z_-]*|token-abc123|"
    r"hf_(?:x{3,}|\.{3}|…|[a-z_]*token[a-z_]*).*|sk-(?:no-key-required|x{3,}|\.{3}).*|"
    r"(?:self|args|os|config|settings|cfg|kwargs|options|opts|request|req|ctx|env|process|values|params|context|app|st|secrets|var|vars|local|data|module|each)\.[\w.\[\]\"'?]+"
)
# A word that stands for one, where nothing but its place speaks for a secret.
_SHORT_WORD = r"(?-i:[a-z][a-z_]{0,7})"
_EXAMPLES = _set_of(
    """string str text value values example sample placeholder foo bar baz abc here stdin prompt ask inherit first again
    instead too only required optional needed given present used stored twice once alone wrong correct before after when if then else"""
)
# Sums and numbers of things, certificates and public keys (also in base64), which look like keys and are none.
_PUBLIC = (
    r"[0-9a-fA-F-]{6,}|0x[0-9a-fA-F]+|sha\d+[:-]\S+|Root=\S+|(?:chatcmpl|cmpl|call|msg|resp|req|fp|run|thread|GPU|MIG)[-_]\S+|\d[\d.,:T/+-]*Z?|"
    r"AAAA[A-Z]3NzaC1\S+|AAAAE2VjZHNh\S+|(?-i:MII[A-Z][\w+/]{2}CC[\w+/]{3}gAwIBAg\S*|LS0tLS1CRUdJTi(?:BDRVJUSUZJQ0FUR|BQVUJMSUMgS0VZ)\S*)|(?:[a-z0-9]+-)*[a-z0-9]{8,10}-[a-z0-9]{5}|arn:\S+|v?\d+\.\d+\S*|[a-z][\w.-]*(?:-|@|[=~<>!]=)v?\d+(?:\.\d+){1,4}(?:[.+-]?[a-z]+\d*)?|\S+\.(?:py|so|whl|json|yaml|yml|gguf|safetensors|cubin|log|md|txt)"
)


# The pairs of letters that make up 88 of 100 in the 7,752 words of this project's documentation and source.
_COMMON_PAIRS = frozenset(
    re.findall(
        "..",
        (
            "abacadafagaialamanaparasatauaybabebiblbobucacechckclcocrctcudadedidodsduea"
            "ecedeeefegelemeneperesetevexfafefffiflfogegiglgrhahehihoiaibicidieifigilim"
            "inioipirisitivizkekikslaldlelglilllmlolsltlulymambmemimmmompmunancndnenfng"
            "ninknnnonsntnvoaocodoeokolomonoooporosotouowpapepiplpoppprpsptpuqurarcrdre"
            "rirkrmrnrorrrsrtrurysascseshsisospssstsutatctethtitltotptrtstttutyuaueulum"
            "unupurusutvaveviwawewixt"
        ),
    )
)


@cache
def _compiled(text: str) -> re.Pattern[str]:
    return re.compile(text, re.I | re.DOTALL)


def is_harmless(value: str, is_sure: bool = False) -> bool:
    """`is_sure`: it stands where nothing but a secret stands, and any word can be a password."""
    if sum(map(str.isalnum, value)) < 2 or _compiled(_HARMLESS).fullmatch(value) is not None:
        return True
    return value.lower() in _EXAMPLES if is_sure else _compiled(_SHORT_WORD).fullmatch(value) is not None


def is_template(text: str) -> bool:
    """f"Bearer {token}": nothing is in it but what a program will put there."""
    rest = _compiled(r"\{[^{}]*\}|\$\{?\w+\}?|<[^<>]*>|\b(?:Bearer|Basic|Token)\b").sub("", text)
    return rest != text and not any(map(str.isalnum, rest))


def is_plain_word(value: str) -> bool:
    """A word of a sentence rather than a key: lower-case letters, perhaps a capital first, no digit."""
    letters = value.rstrip(".:;!?").replace("-", "").replace("'", "").replace("’", "")
    return letters.isalpha() and letters[1:].islower()


def ends_sentence(value: str) -> bool:
    return value[-1:] in ".:;!?)" and is_plain_word(value.rstrip(")"))


def is_sentence(text: str) -> bool:
    return text.count(" ") > 1 and all(map(is_plain_word, text.split()))


def is_passphrase(text: str) -> bool:
    """Several words in quotes behind an option that takes a secret; a help text speaks of the option itself."""
    words = set(words_of(text))
    return (
        text[0] not in "$<{%" and not words & (_SECRET | _set_of("key your the this of api env")) and "$(" not in text
    )


def is_random(value: str) -> bool:
    """Digits among letters, or capitals among small letters: no word of a language."""
    if len(value) < 6:
        return False
    has_digit, has_letter = any(c.isdigit() for c in value), any(c.isalpha() for c in value)
    return (has_digit and has_letter) or re.search(r"[a-z][A-Z][A-Za-z]*[a-z][A-Z]", value) is not None


_RUN = re.compile(r"[A-Z]?[a-z]{3,}")


@lru_cache(4096)
def disorder(word: str) -> int:
    """How often letters, capitals and figures change where no language and no name would: 0 for a model's name.

    Words, acronyms and short parts are what names are made of. What is left of a key has no order.
    """
    total = 0
    for part in re.findall(r"[A-Za-z0-9]{7,}", word):
        strange = [run for run in _RUN.findall(part) if not _is_word(run.lower())]
        rest = re.sub(r"[A-Z]{2,}", "", _RUN.sub(_keep(strange), part))
        kinds = ["a" if c.islower() else "A" if c.isupper() else "0" for c in rest]
        figures = len(re.findall(r"[A-Za-z](?=\d)|\d(?=[A-Za-z])", part))
        total += max(0, sum(a != b for a, b in pairwise(kinds)) - 1) + max(0, figures - 2)
        total += sum(len(run) // 4 for run in strange)
    return total


def _keep(strange: list[str]) -> Callable[[re.Match[str]], str]:
    return lambda run: run[0] if run[0] in strange else ""


def _is_word(run: str) -> bool:
    """Most of its pairs of letters are common ones; of random letters three tenths are."""
    pairs = [run[at : at + 2] in _COMMON_PAIRS for at in range(len(run) - 1)]
    return sum(pairs) >= (0.6 if len(run) > 3 else 0.5) * len(pairs)


def is_key(word: str) -> bool:
    """In no order, and none of the sums and numbers of which logs are full."""
    rest = re.sub(r"(?<![A-Za-z0-9])(?:[0-9a-f]{7,}|[0-9A-F]{7,})(?![A-Za-z0-9])", "", word)
    return disorder(rest) >= 3 and is_random(rest) and not is_sum(word) and not _is_title(word)


_OF_WORDS = 0.45


def _is_title(word: str) -> bool:
    """SecretsUsedInArgOrEnv, CompressedTensorsW4A16Nvfp4MoE: half of it are words of a language with a capital each;
    of random letters and figures a hundredth are."""
    words = [run for run in re.findall(r"[A-Z][a-z]{2,}", word) if _is_word(run.lower())]
    return any(len(run) > 3 for run in words) and sum(map(len, words)) >= _OF_WORDS * sum(map(str.isalnum, word))


def is_certain_key(word: str) -> bool:
    """A key wherever it stands: twenty capitals, small letters and figures together, in no order at all."""
    if len(word) >= 40 and is_base64(word) and disorder(word) >= 8:
        return True
    runs = [run for run in re.findall(r"[A-Za-z0-9]{20,}", word) if _has_all_kinds(run)]
    return any(disorder(run) >= 8 and not _is_title(run) for run in runs) and not is_sum(word)


def _has_all_kinds(run: str) -> bool:
    return any(map(str.isdigit, run)) and any(map(str.islower, run)) and any(map(str.isupper, run))


def is_sum(value: str) -> bool:
    """A digest, a commit, a number of something."""
    return _compiled(_PUBLIC).fullmatch(value.rstrip(".:,")) is not None


def is_base64(value: str) -> bool:
    """Whole groups of four, small and capital letters and digits in no order: no path, no name, no hexadecimal sum."""
    if len(value) % 4 or re.fullmatch(r"[0-9a-f]+|[0-9A-F]+", value) or is_sum(value):
        return False
    kinds = ["a" if c.islower() else "A" if c.isupper() else "0" for c in value.rstrip("=")]
    return set(kinds) == set("aA0") and sum(a != b for a, b in pairwise(kinds)) * 3 > len(kinds)
