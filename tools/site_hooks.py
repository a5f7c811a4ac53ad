"""Pages of the site that are made from the program: diagnoses, engines, the Python and JSON reference."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for name, text in pages():
        files.append(File.generated(config, name, content=text))
    return files


def on_config(config: Any) -> Any:
    """`reference/` and `rules/` in the navigation stand for all pages of those folders."""
    listed = {
        "reference/": ["reference/index.md", *(f"reference/{p.stem}.md" for p in reference())],
        "rules/": ["rules/index.md", *(f"rules/{rule.id}.md" for rule in all_rules())],
    }
    config["nav"] = [
        {title: listed.get(page, page) if isinstance(page, str) else page for title, page in entry.items()}
        for entry in config["nav"]
    ]
    return config


def pages() -> Iterator[tuple[str, str]]:
    """(path, text) of every page that is made here."""
    yield from rule_pages()
    yield "engines.md", engines_page()
    yield "contributing.md", _linked((ROOT / "CONTRIBUTING.md").read_text())
    yield "changes.md", _linked((ROOT / "CHANGELOG.md").read_text())
    yield "python-reference.md", python_page()
    yield "json-reference.md", json_page()


def reference() -> list[Path]:
    return sorted(p for p in (ROOT / "docs" / "reference").glob("*.md") if p.stem != "index")


def all_rules() -> list[Any]:
    from oomph.doctor.rules import rules

    return sorted(rules(), key=lambda rule: rule.id)


def rule_pages() -> Iterator[tuple[str, str]]:
    from oomph.doctor.rules import page

    rows = []
    for rule in all_rules():
        rows.append(f"| [{rule.id}]({rule.id}.md) | {rule.title} | {', '.join(rule.stages)} |")
        title, _, body = page(rule.id).partition("\n")
        text = re.sub(r"(?m)^([A-Z][A-Za-z -]{2,40}):", r"**\1:**", body)
        yield f"rules/{rule.id}.md", f"# {title or rule.title}\n{text}\n"
    head = "# Diagnoses\n\nWhat `oomph explain` recognises. `oomph rule ID` prints the same page.\n\n"
    yield "rules/index.md", head + "| id | what | stages |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def engines_page() -> str:
    from oomph.engines.protocol import fills
    from oomph.engines.registry import all_engines

    does = {"plan": "plan", "fit_knobs": "fit", "ways": "compare", "simulation": "simulate"}
    lines = ["# Engines and releases", "", "| engine | releases | looked at on | planned by |", "|---|---|---|---|"]
    for engine in all_engines():
        releases = engine.releases()
        known = f"{releases[0]} to {releases[-1]} ({len(releases)})" if len(releases) > 1 else engine.newest()
        day = date.fromisoformat(engine.looked_at())
        can = ", ".join(command for part, command in does.items() if fills(engine, part))
        lines.append(f"| {engine.title} | {known} | {day.day} {day:%B %Y} | {can} |")
    lines += [
        "",
        "The release is taken from `--engine`, the tag of the container's image, a pinned requirement, the package "
        "that is installed here, or the server that runs here; only then the newest known one is assumed, and the plan "
        "says so. A release that is newer than these is planned by the newest, with a note on what that puts in doubt.",
        "",
    ]
    return "\n".join(lines)


def python_page() -> str:
    import oomph

    parts = ["# Python reference", "", inspect.getdoc(oomph) or ""]
    for name in oomph.__all__:
        value = getattr(oomph, name)
        heading = f"## oomph.{name}"
        if inspect.isfunction(value):
            signature = re.sub(r"'([^']*)'", r"\1", _without_modules(str(inspect.signature(value))))
            parts += [heading, f"```python\noomph.{name}{signature}\n```", inspect.getdoc(value) or ""]
        elif inspect.isclass(value):
            parts += [heading, (inspect.getdoc(value) or "").split("\n\n")[0], _fields(value)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _fields(kind: type) -> str:
    """A table of a class's fields, with the comments behind them."""
    import sys

    if not hasattr(kind, "__struct_fields__"):
        return ""
    sys.path.insert(0, str(ROOT / "tools"))
    from schemas import comments

    described = comments(kind)
    hints = getattr(kind, "__annotations__", {})
    rows = [
        f"| `{name}` | `{_bare(hints.get(name, ''))}` | {described.get(name, '')} |" for name in kind.__struct_fields__
    ]
    return "| field | type | what it is |\n|---|---|---|\n" + "\n".join(row.replace("||", "\\|\\|") for row in rows)


def _bare(hint: Any) -> str:
    text = hint if isinstance(hint, str) else inspect.formatannotation(hint)
    return _without_modules(text).replace("|", "\\|")


def _without_modules(text: str) -> str:
    """`oomph.ir.plan.Plan` as `Plan`."""
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=\w)", "", text)


def json_page() -> str:
    parts = ["# JSON reference", "Every output of `--json`, from the schemas. Bytes are integers."]
    for path in sorted((ROOT / "docs" / "schema").glob("*.json")):
        schema = json.loads(path.read_text())
        parts += [f"## {path.stem}", f"`{schema['title']}`: [schema/{path.name}](schema/{path.name})"]
        fields = schema.get("properties", {})
        rows = [f"| `{key}` | {_kind(value)} | {value.get('description', '')} |" for key, value in fields.items()]
        parts += ["| field | type | what it is |\n|---|---|---|\n" + "\n".join(rows)] if rows else []
    return "\n\n".join(parts) + "\n"


def _kind(value: Any) -> str:
    if not isinstance(value, dict):  # `false`: a list of fixed length
        return "several"
    if "$ref" in value:
        return str(value["$ref"]).rpartition("/")[2]
    if "anyOf" in value:
        return " or ".join(_kind(one) for one in value["anyOf"])
    if value.get("type") == "array":
        return f"list of {_kind(value.get('items', {}))}"
    special = "constant" if "const" in value else "one of several" if "enum" in value else "any"
    return str(value.get("type") or special)


def _linked(text: str) -> str:
    """Links of a file in the repository's root, as they are from docs/."""
    return re.sub(r"\]\(docs/", "](", text).replace("](CHANGELOG.md)", "](changes.md)")
