"""HTML that cannot be wrong by accident: what is not `Html` already is a stranger's text, and is escaped.

    el("p", "The ", el("code", flag), " flag", cls="soft")

An attribute that is None or False is left out, one that is True has no value, and `data_command` is data-command. There
is no way to write a style or a handler: the page's policy would refuse both.
"""

from collections.abc import Iterable

from oomph.report.safe import escape

_VOID = frozenset(("br", "hr", "input", "meta", "link"))


class Html(str):
    """Markup. Only `el` and `join` make it."""

    __slots__ = ()


def el(tag: str, *children: object, cls: str = "", **attributes: object) -> Html:
    head = tag + (f' class="{escape(cls)}"' if cls else "")
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        key = name.rstrip("_").replace("_", "-")
        head += f" {key}" if value is True else f' {key}="{escape(str(value))}"'
    inner = join(*children)
    return Html(f"<{head}>" if tag in _VOID and not inner else f"<{head}>{inner}</{tag}>")


def join(*children: object) -> Html:
    """Children side by side; lists are laid out flat, None is nothing."""
    return Html("".join(map(_text, children)))


def _text(child: object) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return child
    if isinstance(child, str):
        return escape(child, quote=False)
    if isinstance(child, Iterable):
        return "".join(map(_text, child))
    return escape(str(child), quote=False)
