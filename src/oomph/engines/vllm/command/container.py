"""vLLM's official container image: which command it starts by itself."""

import re
from collections.abc import Sequence

from oomph.commands.call import image_tag, program, short
from oomph.engines.registry import engine_named
from oomph.errors import CommandError
from oomph.facts.vllm.facts import at
from oomph.facts.vllm.versions import NEWEST, nearest


def entry_point(image: str) -> str:
    """That of the release in the image's tag, else of the newest."""
    tag = engine_named("vllm").image_release(image_tag(image))
    try:
        release = nearest(tag)[0] if tag else NEWEST
    except CommandError:
        release = NEWEST
    return " ".join(at(release).command_line.entry_point)


# Official images by name; another's image or one with a tag of its own (nightly-rocm) may be for anything.
_VENDORS = (
    ("nvidia", r"(?:.*/)?vllm/vllm-openai(?::(?!.*(?:rocm|xpu|cpu)).*)?"),
    ("amd", r"(?:.*/)?(?:vllm/vllm-openai-rocm|rocm/vllm(?:-dev)?)(?::.*)?"),
    ("intel", r"(?:.*/)?intel/vllm(?::.*)?"),
)


def vendor(image: str) -> str:
    """Whose cards alone an official image has code for."""
    name = image.partition("@")[0].lower()
    return next((maker for maker, form in _VENDORS if re.fullmatch(form, name)), "")


def refusal(image: str, words: Sequence[str]) -> str:
    """`docker run vllm/vllm-openai vllm serve M`: the official image would run `vllm serve vllm serve M`."""
    name = image.split("@", 1)[0].rsplit(":", 1)[0]
    if not name.endswith("vllm/vllm-openai") or not words:
        return ""
    if program(words[0]) not in ("vllm", "serve", "python", "bash", "sh"):
        return ""
    repeated = "vllm serve" if list(words[:2]) == ["vllm", "serve"] else words[0]
    return (
        f"the image starts `{entry_point(image)}` by itself and would stop at {short(words[0])}: leave "
        f"{short(repeated)} out, or set the entry point"
    )
