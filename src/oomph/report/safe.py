"""A text of a stranger in a page or picture: no markup, no secret, no character that turns the writing around."""

import html

from oomph.text.printable import printable
from oomph.text.redaction import hide_secrets


def escape(text: str, quote: bool = True) -> str:
    return html.escape(printable(hide_secrets(text)), quote)
