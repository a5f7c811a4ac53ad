"""A view as one file: the page's own view and style, nothing from outside, and a policy that says so."""

import base64
import hashlib
import re
from collections.abc import Mapping

from oomph.report.answer import Answer
from oomph.report.safe import escape
from oomph.text.output_file import write_output
from oomph.web.markup import Html
from oomph.web.page import pages
from oomph.web.style import static, stylesheet


def write_answers(answers: Mapping[str, Answer], path: str) -> None:
    """Each under its name; the title of the file is that of the first."""
    first = next(iter(answers.values()))
    write_document(pages(answers), f"oomph {first.command}: {first.heading.title or first.heading.unnamed}", path)


def write_document(view: Html, title: str, path: str) -> None:
    write_output(path, document(view, title), is_markup=True)


def document(view: Html, title: str) -> str:
    """Only a view with charts brings a script: the one that draws them from the data beside them."""
    charts = 'class="plot"' in view
    style = stylesheet() + (static("vendor/uplot.css") if charts else "")
    scripts = [static("vendor/uplot.js"), static("plots.js").replace("export ", "") + "\ndrawPlots(document);\n"]
    marks = " ".join(map(_mark, scripts)) if charts else "'none'"
    policy = f"default-src 'none'; style-src {_mark(style)}; script-src {marks}; base-uri 'none'; form-action 'none'"
    values = {
        "TITLE": escape(title), "POLICY": policy, "STYLE": style, "VIEW": view,
        "SCRIPTS": "".join(f"<script>{s}</script>" for s in scripts) if charts else "",
    }  # fmt: skip
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], static("file.html"))


def _mark(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
