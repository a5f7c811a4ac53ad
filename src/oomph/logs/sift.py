"""Which lines of a long log are kept: its head, its tail, and what stands around the loud lines between them.

A loud line has a trigger: a size, an error, an end, the start of an engine. A server prints millions of lines and logs
what people ask it, so loud words are also in lines that mean nothing; those come in great numbers and begin alike. Of
each kind of loud line (its first letters, without figures and ids) the first are kept and the latest, and a kind that
floods the log is left alone, much later where a line has a word that no healthy line has. What is kept is bounded, and
what a failure prints is not crowded out by what a healthy server prints.
"""

import re
from collections import Counter, deque
from collections.abc import Iterator

from msgspec import Struct

WHOLE = 3 << 20  # a log up to this length is kept as it is
HEAD = 3 << 18  # of a longer one, at least: a start-up with DEBUG lines and the full engine config
TAIL = 1 << 19
AROUND = 16 << 10  # on both sides of the first loud line of a kind: a traceback through torch.compile is about 10 KiB
BEFORE, BEHIND = 2 << 10, 8 << 10  # the same for the later ones
FIRST = {False: 8, True: 32}  # lines of a kind that are kept as its first; True: with a plain word
FLOOD = {False: 64, True: 4096}  # lines of a kind that are kept at all
POOL = {False: 1 << 19, True: 1 << 20}  # bytes, of the first and of the latest each
KINDS = 20_000  # kinds of lines remembered
BUSY = 4000  # loud lines of a block, beyond which those that flood the log are taken out before it is searched
MOST = 4_000_000  # loud lines looked at (seconds); behind them only the tail is kept
ALIKE = 100  # lines that are alike but for figures and ids: of those that are kept, half of them first and half last

# Each looks for one letter, which is as fast as it gets (3.6 GB/s), and at its neighbours where the letter is; a letter
# that few lines have is the better one. An empty group marks a plain word: of a failure, or of a start, that no healthy
# line has. tests/logs/test_sift.py holds every kind of failure against them.
TRIGGERS = tuple(
    re.compile(pattern)
    for pattern in (
        rb"y(?:(?<=out of memory)()|(?<=emory)(?!_))",
        rb"B(?<=[KMGT]iB)",
        rb"E(?=rror|RROR|xception|OF)",
        rb"f(?=ail|ault|atal)",
        rb"x(?<=[eE]x)(?=it|cept|ceed|haust)",
        rb"K(?=illed)()",
        rb"M(?:(?<=OutOfM)()|(?<=OOM))",
        rb"P(?=reempt)",
        rb"L(?:(?=LM engine \(v|LM API server v|LM version)()|(?<=WorkNCCL))",
        rb"S(?=erverArgs\()()",
    )
)

_IDS = b"0123456789abcdef"  # what figures and ids are made of
_FIGURES = _IDS + b" .-"  # and what stands between them in columns
_BESIDE = 10  # lines
_LONG = 128  # bytes of a line
_NOTHING = b"\0"  # in the place of a line that is left out
_KIND = 48  # letters that tell one kind of line from another, its header among them
_MESSAGE = 24  # the same without a header
_BEGIN = 32  # the same of a line without its spaces
_FIELDS = (b'"log"', b'"message"', b'"msg"')  # where the line begins that a logger wrapped into an object

Piece = tuple[int, bytes]  # number of its first line, text


class _Pool(Struct):
    """Pieces around loud lines: the first of each kind, and the latest."""

    limit: int
    first: list[Piece]
    latest: deque[Piece]
    first_size: int = 0
    latest_size: int = 0

    def add(self, piece: Piece, first: bool) -> None:
        size = len(piece[1])
        if first and self.first_size + size <= self.limit:
            self.first.append(piece)
            self.first_size += size
            return
        self.latest.append(piece)
        self.latest_size += size
        while self.latest_size > self.limit:
            self.latest_size -= len(self.latest.popleft()[1])


class Sift:
    """Takes blocks of whole lines in their order; gives the lines that are kept."""

    def __init__(self) -> None:
        self.long = False  # something may be left out
        self._begin: list[Piece] = []  # everything until the log is known to be long, then its head
        self._begin_size = 0
        self._tail: deque[Piece] = deque()
        self._tail_size = 0
        self._pools = {plain: _Pool(limit, [], deque()) for plain, limit in POOL.items()}
        self._counts: dict[bytes, int] = {}  # loud lines by kind
        self._floods: set[bytes] = set()  # lines of kinds that flood the log, without figures and ids
        self._busy = False
        self._left = MOST
        self._owed = (0, False, False)  # bytes of the next block, and whether they are plain and of the first

    def take(self, number: int, block: bytes) -> None:
        if self.long:
            self._sift(number, block)
            return
        self._begin.append((number, block))
        self._begin_size += len(block) + 1
        if self._begin_size <= WHOLE:
            return
        self.long = True
        waiting, self._begin, size = self._begin, [], 0
        for first, text in waiting:
            if size < HEAD:
                self._begin.append((first, text))
                size += len(text)
            else:
                self._sift(first, text)

    def lines(self) -> Iterator[Piece]:
        """The lines that are kept, by their number."""
        if not self.long:
            for number, text in self._begin:
                yield from enumerate(text.split(b"\n"), number)
            return
        pools = self._pools.values()
        lines: dict[int, bytes] = {}
        for number, text in (*self._begin, *(p for pool in pools for p in (*pool.first, *pool.latest)), *self._end()):
            for at, line in enumerate(text.split(b"\n"), number):
                if line != _NOTHING:
                    lines.setdefault(at, line)
        yield from _thinned(sorted(lines.items()))

    def _end(self) -> Iterator[Piece]:
        over = self._tail_size - TAIL
        for number, text in self._tail:
            cut = text.find(b"\n", over) + 1 if over > 0 else 0
            over = 0
            yield number + text.count(b"\n", 0, cut), text[cut:]

    def _sift(self, number: int, block: bytes) -> None:
        if self._left < 0:
            self._pass(number, block)
            return
        whole, block = block, self._without_floods(block) if self._busy else block
        covered = {False: 0, True: 0}  # up to where the block is in a pool already
        owed, plain, first = self._owed
        if owed:
            self._owed = (0, False, False)
            covered[plain] = self._keep(number, block, (0, owed), plain, first)
        at, line, left = 0, number, self._left
        for begin, end, plain in loud_lines(block):
            self._left -= 1
            if begin < max(covered[plain], covered[True]):
                continue
            count = self._count(kind_of(block, begin, end))
            if count > FLOOD[plain]:
                if len(self._floods) < KINDS:
                    self._floods.add(block[begin:end].translate(None, _IDS))
                continue
            before, behind = (AROUND, AROUND) if count == 1 else (BEFORE, BEHIND)
            first = count <= FIRST[plain]
            if begin < before and self._tail:
                self._keep_end(before - begin, plain, first)
            start = max(covered[plain], block.rfind(b"\n", 0, max(0, begin - before)) + 1)
            line, at = line + block.count(b"\n", at, begin), begin
            above = block.count(b"\n", start, begin)
            covered[plain] = self._keep(line - above, block, (start, end + behind), plain, first)
        self._busy = self._busy or left - self._left > BUSY
        self._pass(number, whole)

    def _without_floods(self, block: bytes) -> bytes:
        """Lines of which there were too many are left out; the numbers of the others stay."""
        lines, shapes = block.split(b"\n"), block.translate(None, _IDS).split(b"\n")
        rest = [_NOTHING if shape in self._floods else line for line, shape in zip(lines, shapes, strict=True)]
        self._busy = rest.count(_NOTHING) > BUSY
        return b"\n".join(rest)

    def _count(self, kind: bytes) -> int:
        """How many loud lines of this kind there were."""
        count = self._counts.get(kind, 0) + 1
        if count == 1 and len(self._counts) >= KINDS:
            return FLOOD[False]
        self._counts[kind] = count
        return count

    def _keep(self, number: int, block: bytes, span: tuple[int, int], plain: bool, first: bool) -> int:
        """Puts this part into its pool, and what is behind the block once it comes. Returns where the rest begins."""
        start, until = span
        end = block.find(b"\n", until) if until < len(block) else -1
        if end < 0:
            end = len(block)
            self._owed = (max(0, until - end), plain, first)
        self._pools[plain].add((number, block[start:end]), first)
        return end + 1

    def _keep_end(self, size: int, plain: bool, first: bool) -> None:
        """What stands before this block."""
        number, text = self._tail[-1]
        cut = text.rfind(b"\n", 0, max(0, len(text) - size)) + 1
        self._pools[plain].add((number + text.count(b"\n", 0, cut), text[cut:]), first)

    def _pass(self, number: int, block: bytes) -> None:
        """The last of what goes by may turn out to be the end of the log."""
        self._tail.append((number, block))
        self._tail_size += len(block)
        while self._tail_size - len(self._tail[0][1]) >= TAIL:
            self._tail_size -= len(self._tail.popleft()[1])


def loud_lines(block: bytes) -> Iterator[tuple[int, int, bool]]:
    """Where each line with a trigger begins and ends, and whether it has a plain word.

    A line whose plain word is not at its first trigger comes twice: as any loud line, then as a plain one.
    """
    begin, end, is_plain = 0, -1, False
    hits = sorted((match.start(), match.lastindex == 1) for trigger in TRIGGERS for match in trigger.finditer(block))
    for hit, plain in hits:
        if hit > end:
            begin, end = block.rfind(b"\n", 0, hit) + 1, block.find(b"\n", hit)
            end = len(block) if end < 0 else end
        elif is_plain or not plain:
            continue
        is_plain = plain
        yield begin, end, plain


def kind_of(block: bytes, begin: int, end: int) -> bytes:
    """The first letters of a line, without figures and ids."""
    if block[begin : begin + 1] == b"{":
        field = max(block.find(name, begin, end) for name in _FIELDS)
        if field >= 0:
            return block[field : min(end, field + 2 * _MESSAGE)].translate(None, _IDS)[:_MESSAGE]
    return block[begin : min(end, begin + 2 * _KIND)].translate(None, _IDS)[:_KIND]


def _thinned(lines: list[Piece]) -> Iterator[Piece]:
    """Without most of the lines that a server repeats with other figures; those beside one of another kind stay."""
    shapes = [_shape(text) for _, text in lines]
    counts, kinds = Counter(shapes), Counter(shape[:_BEGIN] for shape in shapes)
    rare = [at for at, shape in enumerate(shapes) if kinds[shape[:_BEGIN]] <= ALIKE]
    beside = {near for at in rare for near in range(at - _BESIDE, at + _BESIDE + 1)}
    seen: Counter[bytes] = Counter()
    for at, (piece, shape) in enumerate(zip(lines, shapes, strict=True)):
        seen[shape] += 1
        if at in beside or not ALIKE // 2 < seen[shape] <= counts[shape] - ALIKE // 2:
            yield piece


def _shape(line: bytes) -> bytes:
    """A line without figures and ids; of a long one that informs, such as a logged prompt, how it begins."""
    informs = len(line) > _LONG and b"INFO" in line[:_LONG]
    return (line[:_LONG] if informs else line).translate(None, _FIGURES)[: _KIND if informs else None]
