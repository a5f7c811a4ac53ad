"""What the page asks back: on which GPUs, and what was meant by a name that nobody knows."""

import re

from oomph.errors import CommandError, OomphError
from oomph.text.late import late_pattern
from oomph.web.elements import soft
from oomph.web.markup import Html, el

# Cards that most people have or rent, the smallest first: a click is enough.
USUAL = (
    "RTX 3060 12GB", "RTX 4060 Ti 16GB", "RTX 3090", "2x RTX 3090", "RTX 4090", "RTX 5090", "M4 Pro 64GB", "L40S",
    "A100 80GB", "H100", "8x H100",
)  # fmt: skip
_MEANT = late_pattern(r"did you mean ([^?]{1,300})\?")
_NAME = late_pattern(r"'([^']{1,200})'")


class NoGpu(CommandError):
    """Nobody has said on which GPUs, and this machine has none: the page asks, and never invents them."""

    def __init__(self, model: str = "") -> None:
        super().__init__("no GPU is named")
        self.model = model


def which_gpus(model: str) -> Html:
    buttons = [el("button", name, type="button", data_gpu=name) for name in USUAL]
    size = _weights(model)
    about = f"Its weights take {size}. " if size else ""
    says = el("p", el("strong", "ON WHICH GPUS?"), " ", about, "Nothing names them.", cls="says")
    others = soft("Or type yours into the field above: a card, a cloud instance, a size such as 24GB.")
    heading = el("header", el("h1", model), cls="heading") if model else None
    return el(
        "article", heading, el("div", says, el("p", buttons, cls="meant"), others, cls="verdict asks"), cls="view asks"
    )


def _weights(model: str) -> str:
    from oomph.answers.inspection import inspect
    from oomph.sources.load import load_once
    from oomph.units import human

    try:
        return human(inspect(load_once(model)).bytes) if model else ""
    except OomphError:
        return ""


def meant(refused: OomphError) -> dict[str, object]:
    """The names that a refusal offers, and the one that they would replace; for a GPU that is like none, usual ones."""
    offered = _MEANT.search(f"{refused.message} {refused.hint}")
    wrong = _NAME.search(refused.message)
    names = re.split(r", | or ", offered[1]) if offered else []
    usual = USUAL if getattr(refused, "field", "") == "gpu" and not names else ()
    return {"meant": [name for name in names if name][:5], "wrong": wrong[1] if wrong else "", "usual": usual}
