"""Text as it was copied: what forums, manuals, notebooks and other systems' shells put around a command, taken off."""

import re

from oomph.commands.call import SERVER
from oomph.engines.registry import all_engines

_QUOTES = str.maketrans("“”„‘’\u00a0", '"""\'\' ', "\u200b\ufeff")
_LONG_DASH = re.compile(r"(?<!\S)[—–−‑]+(-?)(?=[A-Za-z])([A-Za-z][\w-]*)?")
# $ cmd, (venv) user@host:~/x$ cmd, root@box:/x# cmd, PS C:\x> cmd, and a notebook's !cmd
_PROMPT = re.compile(
    r"^[ \t]*(?:\([\w.-]+\)[ \t]*)?"
    r"(?:(?:[\w.@:~/-]*[$%❯]|[\w.-]+@[\w.-]+:[^\s#$]*#|(?:PS )?[A-Za-z]:\\[^\n>]*>)[ \t]+|!(?=[\w./~]))(?=\S)",
    re.MULTILINE,
)
_FENCE = re.compile(r"^[ \t]*(?:```.*|%%(?:bash|sh|script).*)$", re.MULTILINE)
_WINDOWS = re.compile(r"[\^`][ \t]*$|^[ \t]*@?echo off|\b[A-Za-z]:\\[\w%]|\.exe\b|^[ \t]*\$\w+ *= *['\"]", re.MULTILINE)
_SET = re.compile(r"^[ \t]*set[ \t]+\"?(\w+)=([^\"\n]*?)\"?[ \t]*$", re.MULTILINE | re.IGNORECASE)
_ENV = re.compile(r"^[ \t]*\$env:(\w+)[ \t]*=[ \t]*", re.MULTILINE | re.IGNORECASE)
_POWER = re.compile(r"^[ \t]*(?:\[\w+\][ \t]*)?\$(\w+)[ \t]*=[ \t]*(?=['\"\w])", re.MULTILINE)
# $name = @("-c", 8192), $name += @(...): PowerShell's arrays, which a command takes as @name
_ARRAY = re.compile(
    r"^[ \t]*(?:\[[\w\[\]]{1,40}\][ \t]*)?\$(\w{1,80})[ \t]*(\+?=)[ \t]*@\(([^()]{0,4000})\)", re.MULTILINE
)
_PARAMETERS = re.compile(r"^[ \t]*param[ \t]*\(([^()]{0,4000})\)[ \t]*$", re.MULTILINE | re.IGNORECASE)
_BETWEEN = re.compile(r"(\"[^\"\n]*\"|'[^'\n]*')|,[ \t]*")
_REMARK = re.compile(r"^[ \t]*(?:@?rem\b.*|::.*|<#.*?#>|@echo off.*)$", re.MULTILINE | re.IGNORECASE)

# `sglang.launch_server --model-path X`: a module that a text names without `python -m`
_MODULE = re.compile(
    "^(?=(?:" + "|".join(re.escape(module) for one in all_engines() for module in one.modules) + r")\.\w)"
)

WINDOWS_FILES = (".bat", ".cmd", ".ps1")


def plain(text: str) -> str:
    """Curly quotes, long dashes, prompts and code fences as a terminal would want them."""
    text = text.replace("\r\n", "\n").translate(_QUOTES)
    if any(dash in text for dash in "—–−‑"):
        text = _LONG_DASH.sub(lambda m: ("-" if len(m[2] or "") < 4 and not m[1] else "--") + (m[2] or ""), text)
    return _PROMPT.sub("", _FENCE.sub("", text))


def from_windows(text: str, name: str = "") -> str:
    """cmd's and PowerShell's text as a shell's, where it is theirs: %NAME%, $env:NAME, set NAME=, paths, `& x.exe`."""
    text = text.replace("\r\n", "\n")
    if not name.endswith(WINDOWS_FILES) and not _WINDOWS.search(text):
        return text
    if "\\\n" in text and not name.endswith(WINDOWS_FILES):  # a shell's own continuations: its backslashes count
        return text
    text = _REMARK.sub("", text)
    text = _PARAMETERS.sub(lambda match: _BETWEEN.sub(lambda part: part[1] or "\n", match[1]), text)
    text = _SET.sub(lambda m: f"{m[1]}='{m[2]}'" if "'" not in m[2] else m[0], text)
    text = _with_arrays(text)
    text = _ENV.sub(r"export \1=", text)
    text = _POWER.sub(r"\1=", text)
    text = re.sub(r"\$\{env:(\w+)\}|\$env:(\w+)", lambda m: "${" + (m[1] or m[2]) + "}", text, flags=re.IGNORECASE)
    text = re.sub(r"%(\w+)%", r"${\1}", text)
    text = re.sub(r"^([ \t]*)(?:&[ \t]+|start[ \t]+(?:/\w+[ \t]+)*)(?=\S)", r"\1", text, flags=re.MULTILINE | re.I)
    # a backslash divides paths there; between single quotes, which stand outside double ones, a shell leaves it alone
    return re.sub(
        r"""'[^'\n]*'|"[^"\n]*"|\\(?!\n)""",
        lambda m: m[0] if m[0][0] == "'" else re.sub(r"\\(?!\n)", r"\\\\", m[0]),
        text,
    )


def _with_arrays(text: str) -> str:
    """PowerShell's arrays as a shell's: commas and remarks between the words go, @name is "${name[@]}"."""
    names = {match[1] for match in _ARRAY.finditer(text)}
    if not names:
        return text

    def array(match: re.Match[str]) -> str:
        words = re.sub(r"(\"[^\"]*\"|'[^']*')|#[^\n]*|,", lambda part: part[1] or " ", match[3])
        return f"{match[1]}{match[2]}({words})"

    text = _ARRAY.sub(array, text)
    return re.sub(r"(?<=\s)@(\w{1,80})\b", lambda m: f'"${{{m[1]}[@]}}"' if m[1] in names else m[0], text)


def inline_code(text: str) -> list[str]:
    """What stands between backticks and starts a server; a line end inside is a space, as Markdown has it."""
    # each character can be read in one way only: two readings of a line's end would double the time with every line
    spans = re.findall(r"(`{1,3})((?:[^`\n\\]|\\(?![ \t]*\n)|\\[ \t]*\n|\n(?![ \t]*\n)){1,4000})\1", text)
    codes = [" ".join(line.rstrip().removesuffix("\\") for line in code.split("\n")).strip() for _, code in spans]
    return [code for code in (_MODULE.sub("python -m ", code) for code in codes) if SERVER.search(code)]


def rejoined(text: str) -> str:
    """A command of several lines that was copied as one: the backslashes of its line ends stand between its words."""
    return re.sub(r"(?<=\s)\\[ \t]+(?=\S)", "", text)
