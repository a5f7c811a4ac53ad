"""What a command answers, as one value: a heading, a verdict, and blocks that say the rest.

A module of `screens/` makes it from what was computed; `report/screen.py` prints it as text, `web/page.py` as HTML: a
sentence is written once. What only one of them can show (a chart, a bar of characters) is that printer's business.
"""

from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from oomph.ir import Judged, Margin, Plan, StageName

if TYPE_CHECKING:  # a plan without advice needs no judge
    from oomph.advice import what_if


class Block(Struct, frozen=True):
    """What an answer is made of. One that has nothing to say is not printed."""


class Heading(Struct, frozen=True):
    title: str
    about: tuple[str, ...] = ()  # engine, GPUs
    below: tuple[str, ...] = ()  # in lines of their own
    unnamed: str = ""  # what the page calls it where it has no title


class Verdict(Struct, frozen=True):
    """ "FAILED while loading the weights   the weights do not fit"."""

    word: str  # "": the sentence alone
    tone: str  # fits, at_risk, close or fails: its colour
    says: str = ""
    where: str = ""  # belongs to the word
    command: str = ""  # what it speaks of; the blocks print it too
    data: dict[str, str] = {}  # what its button brings beside the command


class Paragraph(Block, frozen=True):
    """Sentences under a name in the margin; on the page a section under its title."""

    name: str
    sentences: tuple[str, ...]
    title: str = ""  # the name says it


class Quote(Block, frozen=True):
    """What an engine prints, in its own words."""

    name: str
    text: str


class Question(Block, frozen=True):
    """The command that was asked about: a file shows it, above a terminal's answer it stands anyway."""

    command: str


class Room(Block, frozen=True):
    """How much is left at the stage that decides, at both ends of the interval."""

    margin: Margin
    stage: str  # in words


class Bars(Block, frozen=True):
    """The memory of each GPU, to scale."""

    plan: Plan


class StartUp(Block, frozen=True):
    """The stages of a start, to scale."""

    plan: Plan


class Basis(Block, frozen=True):
    """Every term with its interval and where it is from, the cache, the stages and the settings."""

    plan: Plan


class Facts(Block, frozen=True):
    """Figures in a few words each, beside their names."""

    rows: tuple[tuple[str, str], ...]


class Stages(Block, frozen=True):
    """Which stages of a start-up were passed, and in which one it died."""

    died: StageName


class Entry(Struct, frozen=True):
    term: str
    bytes: int
    basis: str


class Ledger(Block, frozen=True):
    """What took the memory, as a log tells it."""

    entries: tuple[Entry, ...]
    total: str  # behind the sum
    card_bytes: int  # 0: not known


class Changes(Block, frozen=True):
    """What can be done, each with what it gives."""

    name: str
    title: str
    judged: tuple[Judged, ...]
    effects: tuple[str, ...]  # what each gives, in a few words
    before: str  # how it is without them
    engine: str
    shown: int  # on one screen
    command: str = ""  # of the best, ready to be pasted
    in_columns: bool = True  # on a screen: what each gives in a column of its own


class Reasons(Block, frozen=True):
    """What does not help, and why."""

    name: str
    title: str
    rows: tuple[tuple[str, str], ...]
    shown: int  # on one screen


class Items(Block, frozen=True):
    """Possibilities: each with what it is called and what it means."""

    name: str
    rows: tuple[tuple[str, str], ...]
    title: str = ""  # what stands around them says it


class Inquiry(Block, frozen=True):
    """The question that tells two possibilities apart. Nothing waits for its answer but a terminal."""

    text: str
    answers: tuple[tuple[str, StageName, str], ...]  # "yes", what it decides, and that in words
    command: str = ""  # what shows it the next time


class LogLine(Struct, frozen=True):
    number: int
    text: str
    marked: bool  # it says something; the others stand around it


class Excerpt(Block, frozen=True):
    lines: tuple[LogLine, ...]


class Effects(Block, frozen=True):
    """Every change, made alone and planned."""

    rows: "tuple[what_if.Row, ...]"
    fits: bool  # without any of them
    engine: str


class Aside(Block, frozen=True):
    """What a figure rests on, how something was sorted: for those who ask."""

    text: str


def picked_for(measure: str) -> Aside:
    """By what the best one of a search was told."""
    return Aside(f"Picked for, most important first: {measure}.")


class Command(Block, frozen=True):
    """What to type, ready to be pasted."""

    command: str
    button: str = ""  # on a page


class Pairs(Block, frozen=True):
    """Names, and what is to be said of each."""

    title: str
    rows: tuple[tuple[str, str], ...]


class Tile(Struct, frozen=True):
    part: str
    form: str  # its dtype or quantisation
    bytes: int
    bits: str  # the colour of so many bits


class Treemap(Block, frozen=True):
    """Bytes to scale."""

    title: str
    tiles: tuple[Tile, ...]


class Sides(Block, frozen=True):
    """The memory of two plans, side by side."""

    before: Plan
    after: Plan


class Column(Struct, frozen=True):
    name: str
    width: int = 0  # in a terminal; 0: as wide as what is in it
    is_number: bool = False  # stands to the right
    gap: str = ""  # before it, in a terminal
    is_path: bool = False  # where a terminal has no room, its last part will do


class Piece(NamedTuple):
    """Of a bar inside a cell."""

    part: str  # its colour
    share: float  # of the whole width


class Cell(Struct, frozen=True):
    text: str
    key: float | str | None = None  # what it is sorted by; None: its text
    tone: str = ""
    bar: tuple[Piece, ...] = ()


class Row(Struct, frozen=True):
    cells: tuple[str | Cell, ...]
    below: tuple[str, ...] = ()  # what more is to be said of it
    command: str = ""  # behind its button
    data: dict[str, str] = {}  # what the button brings beside the command
    group: str = ""  # the head that it stands under


class Table(Block, frozen=True):
    title: str  # of its section on a page
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    order: tuple[int, ...] = ()  # the columns of a terminal; (): all of them, as they stand
    button: str = ""
    label: str = ""  # for who does not see it; "": its title
    indent: int = 2
    below: int = 6  # where a terminal begins what stands below a row
    more: str = ""  # what a terminal says of the rows that it does not show
    shown: tuple[int, ...] = ()  # the rows of one screen; (): all of them
    sorts: bool = True
    has_head: bool = True  # in a terminal
    tall: bool = False  # with a bar to scroll by, on a page


class Dot(NamedTuple):
    x: float
    y: float
    colour: str
    radius: float
    words: str  # what it is
    command: str
    chosen: bool = False


class Axis(NamedTuple):
    title: str
    ticks: tuple[tuple[float, str], ...]
    even: bool = False  # linear instead of logarithmic


class Scatter(Block, frozen=True):
    """Each point is a command; their ticks span the picture."""

    title: str
    dots: tuple[Dot, ...]
    across: Axis
    up: Axis
    label: str
    legend: tuple[tuple[str, str], ...]  # colour, what it means
    remark: str = ""


class Series(Struct, frozen=True, omit_defaults=True):
    label: str
    colour: str  # that of a part
    ys: tuple[float, ...]
    unit: str = ""
    top: float | None = None  # of its axis; None: its own


class Plot(Struct, frozen=True, rename={"across": "x"}):  # what the page's script reads
    title: str
    across: str
    xs: tuple[float, ...]
    series: tuple[Series, ...]
    mark: float | None = None  # where on the axis the verdict stands


class Plots(Block, frozen=True):
    """Lines over one axis."""

    title: str
    plots: tuple[Plot, ...]
    end: str  # of the axis, in words
    on_screen: bool = False  # a terminal draws them too


class Answers(Block, frozen=True):
    """Answers inside an answer."""

    answers: "tuple[Answer, ...]"
    title: str = ""
    on_screen: bool = False  # a terminal prints them too


class Shares(Block, frozen=True):
    """Who holds how much of each GPU: its memory, and (name, bytes) of everyone on it."""

    cards: tuple[tuple[int, tuple[tuple[str, int], ...]], ...]


class Verbatim(Block, frozen=True):
    """A text as it is, to be copied."""

    title: str
    text: str


class Notes(Block, frozen=True):
    notes: tuple[str, ...]
    name: str = "note"
    title: str = "Notes"


class Details(Block, frozen=True):
    """For those who want all of it: with --all, or on a click."""

    summary: str
    blocks: tuple[Block, ...]


class Answer(Struct, frozen=True):
    command: str  # the class of its view on the page
    heading: Heading
    verdict: Verdict | None
    blocks: tuple[Block, ...]
    data: dict[str, str] = {}  # what a script on the page may read
    lines: int = 0  # of its first screen in a terminal; 0: as many as it takes
