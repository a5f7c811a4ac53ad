# ruff: noqa: E501 - tables of patterns
"""Where secrets stand in what people paste: behind a name in every language's way to assign, in addresses, in commands.

A pattern's group `before` stays, what follows it is a value: `bare`, `quoted`, `header`, or the words of a `list`. All
repetitions are bounded, so that no text takes longer than its length.
"""

import re
from functools import cache

# Every text with a secret has one of these, or a word in no order. Most outputs have none, and for them nothing is compiled.
NEEDLES = (
    "key", "token", "secret", "pass", "pwd", "pw", "credential", "bearer", "basic", "auth", "hook", "@", "psk", "pat", "jwt", "dsn",
    "hf_", "sk-", "sk_", "rk_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "glpat", "glsa", "xox", "xapp", "nvapi", "r8_", "akia", "asia", "ltai", "aiza", "ya29",
    "eyj", "pypi-", "npm_", "dckr", "gsk_", "tvly", "api_org", "--env", "-u ", "--user", "sig", "policy=", "x-amz",
    "x-goog", "code", "cookie", "login", "literal", "sg.", "hvs.", "dop_v1", "dapi", "gocspx", "shpat", "lin_api", "identified",
    "rpa_", "xai-", "pplx-", "atatt", "data:", " -a ", " -w ", " -k ", " -t ", "<<<", "telegram", "hc-ping", "sudo -s", "/user:", "alias set",
    "pk_live", "pk_test", "pk-lf", "whsec_", "gldt-", "glrt-", "glptt-", "glsoat-", "glcbt-", "glimt-", "glft-", "glagent-", "glc_", "abia", "acca",
    "akid", "1//0", "hvb.", "hvr.", "shpss", "shpca", "shppa", "atctt", ":aa", "ntn_", "figd_", "sntry", "sq0", "pmak-", "pul-", "atlasv1", "hrku-",
    "fm1", "fm2", "fo1", "fo2", "nfp_", "pnu_", "pnb_", "tgp_v1", "jina_", "lsv2_", "swmtkn", "sha256~",
    "securestring", "fernet", "client(", "creds", "http-basic", "stringdata", "host add", "heslo", "salasana", "adgangskode", "session", "/t/", "connection", "log in", "logging in", "logged in", "-U ", "salt", "sid", "otp", "senha", "contrase", "pdo(", "mysqli", "connect(", ":*:", ":5432:", "schtasks", "plink", "ticket=",
    "kennwort", "wachtwoord", "mdp",
)  # fmt: skip
OPTION = r"(?<![\w-])-[ep]"  # -e NAME=..., -pSECRET; not those of --enforce-eager and --port
# Words that stand on every screen and hold a needle: a secret's name does not end so.
NO_NEEDLES = ("tokens", "decode", "encode")
NOT_ASCII_NEEDLES = (
    "密",
    "令牌",
    "口令",
    "парол",
    "ключ",
    "パスワード",
    "비밀번호",
    "schlüssel",
    "clé",
    "hasło",
    "lösenord",
    "jelszó",
    "şifre",
)

QUOTE = r"\\{0,3}[\"'`]"
IS = r"(?:is|was|ist|lautet|est|es|è|é|är|er|jest)"
# Behind a name: the ways to assign of shells, makefiles, Python, JavaScript, Go, R, YAML, TOML, C#, addresses and types before a value.
_ASSIGN = r"(?::=|=>|\?=|\+=|\|\|=|\?\?=|<-|:(?!\s?(?:bearer|basic|token|digest|apikey)\s)\s?[\w.\[\]| ]{1,40}?=|:-|:\?|={1,3}|:|：|%3[ad])"
NAMED = rf"(?P<article>(?<![\w$.-])[A-Za-z]{{2,16}} )?(?<![\w$.-])(?P<name>[\w$.-]{{1,100}})(?:{QUOTE}|[\])}}]){{0,4}}\s{{0,4}}(?P<op>{_ASSIGN})[ \t]{{0,4}}(?:!!(?:str|binary|int)[ \t]{{1,4}})?"
# A name and its value with nothing between them: ENV HF_TOKEN x, set -x HF_TOKEN x, "invalid token 'x'", IDENTIFIED BY 'x'.
SPACED = (
    r"(?<![\w$.-])(?P<name>identified\s{1,4}by|[\w$.-]{2,100}(?<!\.))[\"']?[ \t]{1,8}(?:(?:"
    + IS
    + r"|-value)[ \t]{1,2})?(?![=:])"
)
# What stands before the name in a command that sets a variable or an option.
VERB = r"(?<![\w-])(?:env|arg|setenv|setx?|config|configure\s{1,4}set|put|add|export)\s{1,4}(?:[-/]{1,2}\w{1,20}\s{1,4}){0,3}[\"']?(?:[^\s\"']{1,100}[:/])?$"
# What stands before a name whose value follows it, however it looks.
SETS = r"(?<![\w-])(?:(?-i:ENV|ARG)|setx|setenv|set\s-\w{1,4}|config(?:ure)?\s{1,4}set|(?:kv|secret)\s{1,4}put)\s{1,4}(?:\S{1,100}[:/])?$"
# "Device token registered: x"
TOLD = r"(?<![\w$.-])(?P<name>(?:api|access|secret)[ _-]key|(?-i:[A-Z]{2,20}(?:_[A-Z]{2,20}){1,4})|[A-Za-z]{3,12})[ \t]{1,2}"
TOLD += (
    r"(?:(?P<words>[a-z]{2,14}(?:[ \t][a-z]{2,14}){0,2}|(?:for|of|to|from)[ \t]\S{1,120}?)[ \t]{0,2}[:=]|(?:[a-z]{1,14}[ \t]){1,5}"
    + IS
    + r")[ \t]{1,4}"
)
# | HF_TOKEN | the hub's token | x |
CELL = (
    r"(?<![\w$.-])(?P<name>[A-Z][A-Z0-9_]{3,60})`?[ \t]{0,40}\|(?:[^|\n]{0,200}\|)?[ \t]{0,40}(?=[^|\n]{1,400}(?:\||$))"
)
CALL = rf"[(,\[]\s{{0,4}}{QUOTE}(?P<name>[\w$.-]{{1,100}}){QUOTE}\s{{0,4}},\s{{0,4}}"
# An option or a setting and what it is without one: add_argument("--api-key", type=str, default="...").
DEFAULT = (
    rf"[(,\[]\s{{0,4}}{QUOTE}(?P<name>[\w$.-]{{1,100}}){QUOTE}\s{{0,4}},[^\n]{{0,200}}?\bdefault\s{{0,4}}=\s{{0,4}}"
)
# What a program takes where no variable gives one: os.getenv("HF_TOKEN") or "..."
FALLBACK = rf"\b(?:getenv|environ|env)(?:\.get)?[.(\[]{{1,2}}\s?(?:{QUOTE})?(?P<name>[\w-]{{1,100}})(?:{QUOTE})?[)\]]{{0,2}}\s?(?:or|\|\||\?\?)\s?"
TAG = r"<(?P<name>[\w.:-]{1,80})>"
# A manifest's {name: HF_TOKEN, value: ...}, a comment between them, <add key="..." value="..."/>; a default of Terraform's variable.
PAIRED = (
    rf"\b(?:name|key|variable)(?:{QUOTE})?\s{{0,4}}[:=]?\s{{0,4}}{QUOTE}?(?P<name>[\w$.-]{{1,100}})(?:{QUOTE})?(?:[\s,;{{]|#[^\n]{{0,200}}){{1,80}}"
    rf"(?:(?:description|type|sensitive|secure)\s{{0,8}}[=:][^\n]{{0,200}}\s{{1,40}}){{0,4}}(?:{QUOTE})?(?:value|default)(?:{QUOTE})?\s{{0,8}}[:=]\s{{0,4}}"
)
VALUE = (
    r"(?:(?:Bearer|Basic|Token|Digest|ApiKey)[ \t]{1,4}(?P<header>[^\s\"'`,;\\]{1,4000})"
    r"|[\[(](?P<list>[^\])]{0,4000})[\])]"
    r"|[rbfuL@$]{0,2}(?P<q>\\{0,3}[\"'`])(?P<quoted>(?:(?!(?P=q))[^\n]){0,4000}?)(?P=q)|(?P<bare>[^\s,;&|<>(){}\[\]\"'`\\]{1,4000}))"
)
_PLAIN = r"(?:(?P<q>\\{0,3}[\"'`])(?P<quoted>(?:(?!(?P=q))[^\n]){0,4000}?)(?P=q)|(?P<bare>[^\s,;&|<>(){}\[\]\"'`\\]{1,4000}))"
# Several words in quotes behind an option: a password of words.
PHRASE = r"[ \t=]{1,4}(?P<q>[\"'])(?P<quoted>[^\"'\n]{1,200}[ ][^\"'\n]{1,200})(?P=q)"
_REST = r"[^\n|;&]{0,200}?\s"  # of a command, up to an option
_WEBHOOKS = (
    r"hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/", r"(?:\w{1,20}\.)?discord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/",
    r"api\.telegram\.org/(?:file/)?bot", r"[\w-]{0,60}\.?webhook\.office\.com/webhookb2/", r"outlook\.office(?:365)?\.com/webhook/",
    r"hooks\.zapier\.com/hooks/catch/", r"open\.(?:feishu\.cn|larksuite\.com)/open-apis/bot/v2/hook/", r"hc-ping\.com/",
    r"maker\.ifttt\.com/trigger/[^/\s]{1,80}/with/key/", r"events\.pagerduty\.com/integration/",
    r"hook\.\w{2,4}\d?\.make\.com/", r"chat\.googleapis\.com/v1/spaces/", r"[\w.-]{1,100}/t/", r"prod-\d{1,3}\.\w{2,30}\.logic\.azure\.com",
    r"[\w.:-]{1,100}/(?:[\w.-]{1,40}/){0,3}(?:web)?hooks?/(?:[a-z]{2,20}/){0,2}(?=[\w/-]{0,80}\d)",
)  # fmt: skip
# Commands whose option or place is a password, whatever it looks like.
_PASSWORDS = (
    rf"\b(?:docker|podman|nerdctl|buildah|skopeo|oras|helm|crane|az|oc|argocd)\s{{1,4}}(?:(?:registry|acr|auth)\s)?login\b{_REST}(?:-p|--password)[ =]",
    r"\bsshpass\s{1,4}-p\s?", rf"\btwine\s{_REST}?(?:-p|--password)\s", r"/pass(?:word)?:",
    rf"\b(?:mysql|mysqldump|mysqladmin|mariadb|7z[ar]?|rar|unrar)\s{_REST}?-p(?=[^\s-])", rf"\bredis-cli\s{_REST}?(?:-a|--pass)\s", rf"\b(?:ldapsearch|ldapadd|ldapmodify)\s{_REST}?-w\s",
    rf"\b(?:unzip|zip|sqlcmd|bcp)\s{_REST}?-P\s", r"\bhtpasswd\s(?=[^\n|;&]{0,80}?-\w{0,4}b)(?:-\S{1,20}\s{1,4}){1,6}\S{1,100}\s\S{1,100}\s", r"-pass(?:in|out)?\s(?:pass:)",
    r"\bnet use\s[^\n]{1,100}\s/user:\S{1,60}\s", rf"\bsmbclient\s{_REST}?(?:-U|--user)[ =][^\s%]{{1,100}}%", rf"\bhttps?\s{_REST}?(?:-a|--auth)[ =][^\s:]{{1,100}}:",
    rf"\bssh-keygen\s{_REST}?-[NP]\s", rf"\bcurl\s{_REST}?(?:-E|--cert)\s[^\s:]{{1,100}}:", r"(?:--password-stdin|--with-token|sudo\s-S)[^\n|;&<]{0,80}<<<\s?",
    r"\bmc\s{1,4}(?:alias\sset|config\shost\sadd)(?:\s{1,4}\S{1,200}){3}\s{1,4}", rf"\bopenssl\s{_REST}?-k\s", r"\b(?:add|create|change)_(?:user|password)\s{1,4}\S{1,100}\s{1,4}",
    rf"\bcurl\s{_REST}?(?:-u|--user|--proxy-user)[ =](?:{QUOTE})?[^\s:\"'\\]{{1,200}}:", r"\b(?:secrets?|keyvault|kv|token)\s[^\n|;<]{0,120}?<<<\s?", r"\bread\s[^\n|;<]{0,60}(?:token|secret|key|pass\w{0,10})\s{0,4}<<<\s?",
    r"\b(?:secrets?|keyvault|ssm|secretsmanager)\s[^\n|;]{0,200}?(?:--value|--body|--string|--secret-string|--plaintext|--data)[ =]", r"\b(?:create|alter)\s(?:user|role)\s[^\n;]{0,200}?(?:identified\s{1,4}by|password)\s{1,4}(?=')",
    # a database: where it is, the user, the password
    rf"\b(?:pdo|mysqli|(?:mysqli?|mysqldb|pymysql|psycopg\d?|py?odbc|pg|oci|mssql|drivermanager)[_.]\w{{0,4}}connect(?:ion)?)\((?:\s{{0,4}}{QUOTE}[^\"'\\\n]{{1,200}}{QUOTE},){{2}}\s{{0,4}}(?={QUOTE})",
    rf"\b\w{{0,40}}(?:auth|credentials?|login)\s?=?\s?[( ]\s{{0,4}}{QUOTE}[^\"'\n]{{1,100}}{QUOTE},\s{{0,4}}(?={QUOTE})",
    # what a program asks for, and what it takes without an answer
    rf"\b\w{{0,40}}(?:password|passwd|passphrase|secret|token|api_?key)\s?=\s?(?:await\s)?[\w.]{{1,60}}\([^()\n]{{0,100}}\)\s{{0,4}}(?:or|\|\||\?\?)\s{{0,4}}(?={QUOTE})",
    # a command that asks for one is given it, or an option that takes what a command prints
    r"\b(?:kinit|passwd|chpasswd|su|sudo|cryptsetup|gpg|smbclient|ssh-add|vault|docker|podman|helm|gh|hf|huggingface-cli|npm|twine)\b[^\n|;<]{0,120}<<<\s?",
    rf"(?<![\w-])--?[\w-]{{0,30}}(?:pass|token|secret|key)[\w-]{{0,20}}[ =](?:[<$]\(|{QUOTE})\s{{0,2}}(?:echo|printf)\s{{1,4}}",
    rf"\bjwt\.(?:en|de)code\([^\n,]{{1,200}},\s{{0,4}}b?(?={QUOTE})", rf"\b(?:schtasks)\s{_REST}?/rp\s", rf"\bwinrs\s{_REST}?-p(?:assword)?:", rf"\b(?:plink|pscp|psftp|psexec\d*|evil-winrm)\s{_REST}?-pw?\s",
    r"ConvertTo-SecureString\s{1,4}(?=[^\n|;]{0,200}?-AsPlainText)(?:-(?:String|AsPlainText|Force)\s{1,4}){0,3}(?!-)", r"\bconfig\s{1,4}http-basic\.\S{1,60}\s{1,4}\S{1,100}\s{1,4}", rf"\blftp\s{_REST}?-u\s[^\s,]{{1,100}},",
)  # fmt: skip
# Commands that may be given one, in whose place other words may stand as well.
_LOGINS = (
    r"\b(?:add|create|change)-?(?:user|password)\s{1,4}\S{1,100}\s{1,4}", rf"\bdoctl\s{_REST}?-t\s", r"\b(?:wandb|comet|clearml|hf|huggingface-cli|ngc|modal|gh|vault)\s{1,4}(?:auth\s|config\s|token\s){0,2}(?:login|set|lookup)\s{1,4}(?:--?\w[\w-]{0,30}\s{1,4}){0,3}",
    r"\b(?:ansible-vault\s{1,4}encrypt_string|travis\s{1,4}encrypt)\s{1,4}(?:--[\w-]{1,40}[ =]\S{1,100}\s{1,4}){0,3}",
    r"\bnet(?:\.exe)?\suser\s{1,4}[^\s/]{1,60}\s{1,4}(?!/)",
    # a store of secrets is given one
    r"\b(?:secrets?|keyvault)\s[^\n|;]{0,200}?-b[ =]",
    r"\b\w{0,40}(?:password|passwd|secret|api_?key|fernet)\(\s{0,4}b?(?=[\"'])",
    r"\b(?:login|set_api_key|set_token|set_key|save_token|basic_auth)\(\s{0,4}(?:\w{1,20}\s?=\s?)?",
)  # fmt: skip
PATTERNS = {
    "private key": r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]{0,8000}(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?",
    # vLLM's --api-key takes several values; a list in a manifest has quotes and commas between them
    "flag": rf"(?P<before>(?<![\w-])--?(?P<name>[A-Za-z][\w.-]{{1,60}})(?:{QUOTE})?)"
    rf"(?P<values>(?:(?:[\s,=\\]|\n\s{{0,40}}-\s){{1,200}}(?!(?:{QUOTE})?-)(?:{QUOTE})?[^\s\"'`,\\]{{1,4000}}(?:{QUOTE})?){{1,16}})",
    "address": r"(?P<before>\b[a-z][a-z0-9+.-]{1,20}://)(?P<bare>[^\s/\"'<>]{1,400})(?=@)",
    "webhook": rf"(?P<before>https?://(?:{'|'.join(_WEBHOOKS)}))(?P<bare>[^\s\"'<>)\]]{{4,4000}})",
    "query": r"(?P<before>(?:[?&;]|%26)(?:x-amz-(?:signature|credential|security-token)|x-goog-(?:signature|credential)|"
    r"signature|sig|policy|key-pair-id|token|(?:api|access|auth|secret)[_-]?(?:key|token)|password|auth|ticket|key|code|jwt|sas|se?ssion(?:_?id)?)(?:=|%3d))(?P<bare>[^\s&#\"'<>]{1,4000})",
    "password": rf"(?P<before>{'|'.join(_PASSWORDS)}){_PLAIN}",
    "login": rf"(?P<before>{'|'.join(_LOGINS)}){_PLAIN}",
    "echo": rf"(?P<before>\b(?:echo|printf)\s{{1,4}}(?:-n\s{{1,4}}|[\"']?%s(?:\\n)?[\"']?\s{{1,4}})?){_PLAIN}"
    r"(?=\s{0,4}(?:\|[^\n|]{0,120}(?:--password-stdin|--with-token|sudo\s-S|base64|login|passwd|kinit|cryptsetup)|>{1,2}\s{0,4}\S{0,120}(?:token|secret|pass|netrc|credential|key)\S{0,40}))",
    "piped": rf"(?P<before>(?<![^\s;&|(=])){_PLAIN}(?=\s{{0,4}}\|\s{{0,4}}ConvertTo-SecureString(?P<plain>[^\n|;)]{{0,60}}-AsPlainText)?)",
    # {value: ..., name: HF_TOKEN}: what sorts keys otherwise than people do
    "value first": rf"(?P<before>\bvalue(?:{QUOTE})?\s{{0,4}}[:=]\s{{0,4}}){_PLAIN}(?=[\s,;#]{{1,80}}(?:{QUOTE})?(?P<key>name|key)(?:{QUOTE})?\s{{0,4}}[:=]\s{{0,4}}(?:{QUOTE})?(?P<name>[\w$.-]{{1,100}}))",
    "literal": rf"(?P<before>--from-literal[= ](?:{QUOTE})?[\w.-]{{1,80}}=){_PLAIN}",
    "netrc": r"(?P<before>\b(?:login|machine|default)\s{1,20}\S{1,200}\s{1,20}passw(?:or)?d\s{1,20})(?P<bare>\S{1,400})",
    # "login: carol / x", as people write down both
    "pair": rf"(?P<before>(?<![\w-])(?:login|log in|sign in|credentials?|creds|account|user(?:name)?/pass(?:word)?|zugangsdaten)(?: (?:is|are|with))?(?:{QUOTE})?[ \t]{{0,4}}[:=]?[ \t]{{1,4}}[\w.@-]{{2,60}}[ \t]{{1,2}}/[ \t]{{1,2}})(?P<bare>[^\s\"',;)]{{4,200}})",
    "pgpass": r"(?P<before>(?<![\w.:*-])[\w.*-]{1,100}:(?:\d{2,5}|\*):[\w*.-]{1,60}:[\w*.-]{1,60}:)(?P<bare>[^\s:\"')]{4,200})",
    # the quotes are around the name as well
    "quoted variable": rf"(?P<before>(?<![\w-])(?:-e\s{{0,4}}|--env[\s=]{{1,4}})(?P<q>{QUOTE})(?P<name>[A-Za-z_]\w{{0,80}})=)(?P<quoted>[^\\\"'\n]{{0,4000}})(?=(?P=q))",
    "variable": rf"(?P<before>(?<![\w-])(?:-e\s{{0,4}}|--env[\s=]{{1,4}})(?:{QUOTE})?(?P<name>[A-Za-z_]\w{{0,80}})=)"
    rf"(?:{QUOTE}(?P<quoted>[^\\\"']{{0,4000}}){QUOTE}|(?P<bare>[^\s\"'\\]{{1,4000}}))",
    "user": rf"(?P<before>(?<![\w-])(?:-u|--user|--proxy-user|-U|--(?:src-|dest-)?creds)[\s=]{{1,4}}(?:{QUOTE})?[^\s:\"'\\]{{1,200}}:)(?P<bare>[^\s\"'\\]{{1,400}})",
    "option": rf"(?P<before>(?<![\w-])-[pPkwaUuEtTN](?:\s{{1,3}}|=)?(?:{QUOTE})?)(?P<bare>[^\s\"',;|&\\]{{8,400}})",
    "bearer": r"(?P<before>\b(?:Bearer|Basic)\s{1,4})(?P<bare>[A-Za-z0-9+/_.~=-]{6,4000})",
    "client": rf"(?P<before>\b\w{{0,40}}Client\(\s{{0,4}}{QUOTE})(?P<bare>[^\s\"'\\]{{8,400}})(?={QUOTE})",
    "base64": r"(?P<before>(?:^|[\s\"',{])[\w.-]{1,60}[\"']?:\s{0,4}[\"']?)(?P<bare>[A-Za-z0-9+/]{38,4000}={0,2})(?![\w+/=.-])",
}
# Patterns that cost more than to look for the words without which they cannot match.
ONLY_WITH = {
    "password": (
        "login", "pass", "-p", "-a", "-w", "-e ", "securestring", "<<<", "net use", "keygen", "auth", "credential", "pdo(", "mysqli", "connect", "smbclient", "--cert",
        "alias set", "host add", "-k", "-u", "_user", "secret", "ssm", "keyvault", "identified", "jwt.", "schtasks", "plink", "pscp", "psftp", "psexec", "winrm", "winrs", "key", "token", "http-basic",
    ),
    "login": ("login", "pass", "-t", "-b", "securestring", "set_", "lookup", "basic_auth(", " set ", "user", "secret", "keyvault", "key(", "fernet", "encrypt"),
    "piped": ("securestring",),
    "value first": ("value",),
    "netrc": ("passw",),
    "client": ("client(",),
    "echo": ("echo", "printf"),
}  # fmt: skip
PGPASS_LINE = r"(?:localhost|\*|[\w-]{1,60}(?:\.[\w-]{1,60}){1,8}):(?:[1-9]\d{3,4}|\*):[\w*.-]{1,60}:[a-z*][\w*.-]{0,60}:[^\s:]{4,200}"
SURE = ("password", "netrc", "literal")  # their value is one, whatever it looks like
_CASED = ("bearer", "base64", "option")
# Where several values stand together: `data` of a Kubernetes Secret, whose kind stands before them or after, a text behind a
# secret's name in YAML, the pairs of a cookie.
BLOCKS = {
    "kind first": r"(?P<before>^[ \t]{0,40}kind:[ \t]{0,4}Secret[ \t\x1c-\x1e]{0,4}\n(?:(?!---)[^\n]{0,400}\n){0,40}?[ \t]{0,40}(?:data|stringData):[ \t\x1c-\x1e]{0,4}\n)"
    r"(?P<block>(?:[ \t][^\n]{0,8000}(?:\n|\Z)){1,60})",
    "kind last": r"(?P<before>^[ \t]{0,40}(?:data|stringData):[ \t\x1c-\x1e]{0,4}\n)(?P<block>(?:[ \t][^\n]{0,8000}\n){1,60})"
    r"(?=[ \t]{0,40}kind:[ \t]{0,4}Secret)",
    # only a Secret has it
    "string data": r"(?P<before>(?:^[ \t]{0,40}|[\"'])stringData:[ \t\x1c-\x1e]{0,4}\n)(?P<block>(?:[ \t][^\n]{0,8000}(?:\n|\Z)){1,60})",
    "below": r"(?P<before>^(?P<indent>[ \t]{0,40}(?:- )?)[\"']?(?P<name>[\w.-]{1,100})[\"']?:[ \t\x1c-\x1e]{0,4}\n)"
    r"(?P<block>(?:(?P=indent)[ \t][^\n]{0,8000}(?<!:)(?<!:[\x1c-\x1e])(?:\n|\Z)){1,8})",
    "text": r"(?P<before>^(?P<indent>[ \t]{0,40}(?:- )?)[\"']?(?P<name>[\w.-]{1,100})[\"']?:[ \t]{0,4}[|>][+-]?\d?[ \t\x1c-\x1e]{0,4}\n)"
    r"(?P<block>(?:(?P=indent)[ \t][^\n]{0,8000}(?:\n|\Z)){1,60})",
    "cookies": rf"(?P<before>(?<![a-z])cookies(?:{QUOTE})?\s{{0,4}}[:=]\s{{0,4}}\{{)(?P<block>[^{{}}]{{1,4000}})",
    "inline data": rf"(?P<before>(?<![a-z])stringData(?:{QUOTE})?\s{{0,4}}:\s{{0,4}}\{{)(?P<block>[^{{}}]{{1,4000}})",
    "cookie": rf"(?P<before>(?<!\w)(?:set-)?cookies?2?(?:{QUOTE})?\]?\s{{0,4}}[:=]\s{{0,4}}(?:{QUOTE})?|\bcurl\b[^\n]{{0,400}}?\s(?:-b|--cookie)\s{{1,4}}(?:{QUOTE})?)"
    r"(?P<block>[^\n\r\"'`]{1,4000})",
}
ENTRIES = {
    "kind first": r"^(?P<before>[ \t]{1,40}(?:[\w.-]{1,200}:[ \t]{1,8}|[\w.-]{1,100}=)?)(?P<bare>(?![|>\s])[^\n\x1c-\x1e]{1,8000})",
    "kind last": r"^(?P<before>[ \t]{1,40}(?:[\w.-]{1,200}:[ \t]{1,8}|[\w.-]{1,100}=)?)(?P<bare>(?![|>\s])[^\n\x1c-\x1e]{1,8000})",
    "string data": r"^(?P<before>[ \t]{1,40}(?:[\w.-]{1,200}:[ \t]{1,8}|[\w.-]{1,100}=)?)(?P<bare>(?![|>\s])[^\n\x1c-\x1e]{1,8000})",
    "below": r"^(?P<before>[ \t]{1,80}(?:value|default|inline|plaintext):[ \t]{1,8}[\"']?)(?P<bare>(?![|>\s\[{])[^\s\"',]{4,8000})",
    "text": r"^(?P<before>[ \t]{1,80})(?P<bare>(?!\s)[^\n\x1c-\x1e]{1,8000})",
    "cookies": rf"(?P<before>{QUOTE}\s{{0,4}}:\s{{0,4}}{QUOTE})(?P<bare>[^\\\"'`]{{1,4000}})",
    "inline data": rf"(?P<before>[\w.-](?:{QUOTE})?\s{{0,4}}:\s{{0,4}}(?:{QUOTE})?)(?P<bare>[^\\\"'`,\s]{{1,4000}})",
    "cookie": r"(?P<before>(?<![\w.-])(?!(?:path|domain|expires|max-age|samesite|version|priority)=)[\w.!#$%&*+^|~-]{1,200}=)(?P<bare>[^;\s]{1,4000})",
}
# A line that speaks of a secret: what is in no order there is one, wherever it stands.
CONTEXT = (
    r"pass(?:w|phrase|e\b|code)|/pass\b|secret|api.?key|access.?key|private.?key|auth(?!or)|\blog(?:g(?:ed|ing))?[ -]?in\b|credential|cookie|session|webhook|"
    r"token(?!s|iz)|netrc|\bsudo -S\b|\bbearer\b|\bkey(?:=|\b)|\bpsk\b|\bjwt\b|signing|"
    r"密码|密碼|密钥|密鑰|令牌|口令|парол|ключ|パスワード|비밀번호|kennwort|schlüssel|contrase|senha|\bclave\b|wachtwoord"
)
CONTEXT_NEEDLES = ("pass", "secret", "key", "auth", "login", "log in", "log-in", "logged", "logging", "credential", "cookie", "session", "webhook", "token",
                   "netrc", "sudo", "bearer", "psk", "jwt", "signing", "kennwort", "contrase", "senha", "clave", "wachtwoord")  # fmt: skip
# A line that speaks of what everybody may know: no word in it is a key by its looks alone.
OPEN = r"\bx-[\w-]{2,30}-id\b|public.?key|known_hosts|pubkey|fingerprint|integrity|digest|checksum|\bsha\d|etag|\b(?:request|trace|span|tool_call|response|run|task|actor)[ _-]?id\b|[\"']id[\"']"


@cache
def pattern(text: str, cased: bool = False, lines: bool = False) -> re.Pattern[str]:
    """Compiled when the first text needs it."""
    return re.compile(text, re.DOTALL | (re.RegexFlag(0) if cased else re.I) | (re.M if lines else re.RegexFlag(0)))


@cache
def patterns() -> dict[str, re.Pattern[str]]:
    """In the order in which they are applied."""
    return {name: pattern(text, name in _CASED) for name, text in PATTERNS.items()}


@cache
def blocks() -> dict[str, tuple[re.Pattern[str], re.Pattern[str]]]:
    """Where several values stand together, and each of them there."""
    return {
        name: (re.compile(text, re.I | re.M), re.compile(ENTRIES[name], re.I | re.M)) for name, text in BLOCKS.items()
    }
