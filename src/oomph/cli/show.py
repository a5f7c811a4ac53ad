"""An answer on standard output."""

from oomph.ir.printed import Printed


def show(answer: Printed, *, as_json: bool, indent: int = 1, everything: bool = False) -> None:
    """`--json`, or the screen; `everything` is `--all`."""
    if as_json:
        print(answer.to_json(indent=indent))
        return
    from oomph.report.views import print_answer

    print_answer(answer, everything=everything)
