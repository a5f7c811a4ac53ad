"""An answer on standard output, and as a page where one is asked for."""

from oomph.ir.printed import Printed


def show(answer: Printed, *, as_json: bool, indent: int = 1, everything: bool = False, html: str | None = None) -> None:
    """`--json`, or the screen; `everything` is `--all`, `html` the file of `--html`."""
    if as_json:
        print(answer.to_json(indent=indent))
    else:
        from oomph.report.views import print_answer

        print_answer(answer, everything=everything)
    write_page(answer, html)


def write_page(answer: Printed, html: str | None) -> None:
    if html is not None:
        from oomph.report.views import answer_of
        from oomph.web.document import write_answers

        write_answers({"": answer_of(answer)}, html)
