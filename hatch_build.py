"""What the build adds to pyproject.toml: the addresses of the project, and a README that can stand on another page.

An index shows README.md away from the repository, where `docs/start.md` leads nowhere, a picture is not found and
nobody has a clone. With REPOSITORY every relative link becomes an address at the tag, without it its own text.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

REPOSITORY = ""  # "https://github.com/OWNER/oomph": not known yet, and known to nothing else
IN_A_CLONE = re.compile(r"pip install \.( +)# in a clone[^\n]*")
LINK = re.compile(r"(!?)\[([^\]]+)\]\((?!https?://|#)([^)\s]+)\)")


def elsewhere(text: str, repository: str, version: str) -> str:
    """Markdown that does not depend on where it stands."""

    def written(link: re.Match[str]) -> str:
        picture, label, target = link.groups()
        if not repository:
            return f"*{label}: {target}*" if picture else label
        return f"{picture}[{label}]({repository}/{'raw' if picture else 'blob'}/v{version}/{target})"

    text = IN_A_CLONE.sub(r"pip install oomph\1# or, without installing it: uvx oomph, pipx run oomph", text)
    return LINK.sub(written, text.replace('pip install ".[', 'pip install "oomph['))


class CustomMetadataHook(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        described = elsewhere(text, REPOSITORY, metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": described}
        if REPOSITORY:
            pages = {
                "Issues": "issues",
                "Changes": "blob/main/CHANGELOG.md",
                "Documentation": "blob/main/docs/start.md",
            }
            metadata["urls"] = {"Homepage": REPOSITORY} | {name: f"{REPOSITORY}/{at}" for name, at in pages.items()}
