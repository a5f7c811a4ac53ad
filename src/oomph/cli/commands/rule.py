"""`oomph rule ID`: the page of a diagnosis."""

import click

from oomph.errors import InputError


@click.command()
@click.argument("rule", required=False, default="")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(rule: str, as_json: bool) -> None:
    """The page of a diagnosis: what it is, how to recognise it, what fixes it and what does not. Without one, all ids.

    \b
    oomph rule K02
    oomph rule
    """
    from oomph.doctor.rules import rules

    if rule:
        text = rule_page(rule)
        titles = {one.id: one.title for one in rules()}
        pages = [{"id": rule.upper(), "title": titles.get(rule.upper(), ""), "page": text}]
    else:
        pages = [{"id": one.id, "title": one.title, "page": ""} for one in rules()]
        text = "".join(f"{page['id']:<5}{page['title']}\n" for page in pages)
    if as_json:
        from oomph.report.json import dumps

        text = dumps({"schema": 1, "rules": pages}) + "\n"
    print(text, end="")


def rule_page(rule: str) -> str:
    from oomph.doctor.rules import page, rules

    text = page(rule)
    if not text:
        names = ", ".join(r.id for r in rules())
        raise InputError(f"no rule is called {rule[:20]!r}", hint=f"rules: {names}")
    return text
