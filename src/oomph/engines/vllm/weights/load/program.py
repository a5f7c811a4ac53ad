"""What repacking one place did, so that it can be done again for the next place of its kind without every allocation.

Which whole segments a place takes depends on those that are free, and on nothing that is split: where the same ones are
free, or more of those of which there were always some left, it takes the same again. What happens in between to blocks
that are split depends on their addresses and is done anew.
"""

from typing import Literal

from msgspec import Struct

from oomph.engines.common.allocator import LARGE_BUFFER, MIN_LARGE, ROUND, SMALL, Block
from oomph.units import round_up

Rise = tuple[str, int, int]  # module, size, bytes above the start: each higher than the one before


Does = Literal["take", "take many", "touch", "give", ""]


class Part(Struct):
    """A stretch without split blocks, then one step that has some. A tensor is touched that goes again before anything
    else comes."""

    rises: list[Rise]
    change: int
    job: int = 0
    tensor: str = ""
    module: str = ""
    size: int = 0
    count: int = 1
    rounded: int = 0  # the size of its block
    does: Does = ""
    is_alone: bool = False  # many tensors, and none that come before they go would take what they leave of a segment
    after: int = 0  # of a tensor that is touched: what changes besides until it goes
    key: tuple[int, str] = (0, "")


class Program(Struct):
    parts: list[Part]
    start: dict[int, int]  # free whole segments of each size, to begin with
    lowest: dict[int, int]  # the fewest of them on the way
    added: dict[int, int]  # how many more there are at the end
    need: int  # split segments become ones of 20 MiB when they are free, at any time: so many have to be there

    def is_valid(self, free: dict[int, int]) -> bool:
        """Whether the place would take the same segments again."""
        start, lowest = self.start, self.lowest
        if self.need > free.get(LARGE_BUFFER, 0):
            return False
        for size, count in free.items():
            more = count - start.get(size, 0)
            if more and size != LARGE_BUFFER:
                left = lowest.get(size, 0)
                if left < 1 or left + more < 1:
                    return False
        return not (start.keys() - free.keys() - {LARGE_BUFFER})


_MOST_STARTS = 4  # of one place: none free, those of a few places, steady


class Programs:
    """Those of the places of one network: what they do does not depend on the load in which they were written."""

    def __init__(self) -> None:
        self._known: dict[object, list[Program]] = {}

    def valid(self, key: object, free: dict[int, int]) -> Program | None:
        """The latest that does the same where these whole segments are free."""
        for program in reversed(self._known.get(key, ())):
            if program.is_valid(free):
                return program
        return None

    def add(self, key: object, program: Program | None) -> None:
        if program is not None:
            programs = self._known.setdefault(key, [])
            programs.append(program)
            del programs[:-_MOST_STARTS]


class Recorder:
    """Writes the program of a place while it is repacked."""

    def __init__(self, free: dict[int, int]) -> None:
        self._start, self._level, self._lowest = dict(free), dict(free), dict(free)
        self._parts: list[Part] = []
        self._rises: list[Rise] = []
        self._change = self._top = self._taken = self._need = 0
        self._is_exact = True  # no request of 20 MiB got a larger segment

    def take(self, size: int, block: Block, *, is_new: bool) -> None:
        """A block that is not split. `is_new`: its segment was not among the free ones."""
        self._change += block.size
        if block.is_whole:
            if block.size == LARGE_BUFFER:
                self._taken += 1
                self._need = max(self._need, self._taken)
            elif size <= LARGE_BUFFER:
                self._is_exact = False
            if block.size == LARGE_BUFFER or not is_new:
                self._move(block.size, -1)

    def rise(self, module: str, size: int) -> None:
        """After what was taken last."""
        if self._change > self._top:
            self._top = self._change
            self._rises.append((module, size, self._change))

    def give(self, block: Block) -> None:
        self._change -= block.size
        if block.is_whole:
            self._taken -= block.size == LARGE_BUFFER
            self._move(block.size, 1)

    def split(self, job: int, tensor: str, module: str, size: int = 0, count: int = 1) -> None:
        """A step with split blocks."""
        does: Does = "give" if not size else "take" if count == 1 else "take many"
        part = Part(
            self._rises,
            change=self._change,
            job=job,
            tensor=tensor,
            module=module,
            size=size,
            count=count,
            rounded=round_up(size, ROUND),
            does=does,
        )
        part.key = (job, tensor)
        self._parts.append(part)
        self._rises, self._change, self._top = [], 0, 0

    def program(self) -> Program | None:
        """None where it cannot be done again by these rules."""
        if not self._is_exact:
            return None
        self._parts.append(Part(self._rises, self._change))
        self._join_passing()
        for at, part in enumerate(self._parts):
            part.is_alone = part.count > 1 and SMALL < part.size <= MIN_LARGE - ROUND and self._leaves_alone(at)
        added = {size: count - self._start.get(size, 0) for size, count in self._level.items()}
        return Program(
            self._parts,
            self._start,
            self._lowest,
            {size: count for size, count in added.items() if count},
            self._need,
        )

    def _join_passing(self) -> None:
        """A tensor that goes before another one comes is one part, not two."""
        joined: list[Part] = []
        for part in self._parts:
            last = joined[-1] if joined else part
            if part.does == "give" and not part.rises and last.does == "take" and last.key == part.key:
                last.does, last.after = "touch", part.change
            else:
                joined.append(part)
        self._parts = joined

    def _leaves_alone(self, at: int) -> bool:
        """Whether tensors that come before those of a part go are too large for what these leave of a segment."""
        many = self._parts[at]
        for part in self._parts[at + 1 :]:
            if part.key == many.key:
                return part.does == "give"
            if part.size and part.rounded <= LARGE_BUFFER % many.rounded:
                return False
        return False

    def _move(self, size: int, count: int) -> None:
        level = self._level[size] = self._level.get(size, 0) + count
        if level < self._lowest.get(size, 0):
            self._lowest[size] = level
