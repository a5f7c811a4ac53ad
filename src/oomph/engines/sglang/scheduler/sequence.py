"""The tokens of a request without the tokens: which segment each stands in, and where."""

from bisect import bisect_right

from oomph.simulate.config import OWN, Job


class Sequence:
    """Equal positions of two sequences hold the same token if they have the same place in the same segment."""

    __slots__ = ("ends", "segments")

    def __init__(self, job: Job) -> None:
        self.ends: list[int] = []
        self.segments: list[tuple[int, int]] = []  # segment, position at which it starts
        stop = 0
        for segment, length in job.chain:
            if length:
                self.segments.append((segment, stop))
                stop += length
                self.ends.append(stop)
        self.segments.append((OWN + job.id, stop))
        self.ends.append(1 << 62)

    def page(self, start: int, size: int) -> tuple[tuple[int, int], ...]:
        """What the tokens from `start` on are: the key of a child in the tree."""
        index = bisect_right(self.ends, start)
        if self.ends[index] >= start + size:  # nearly always
            return (self.segments[index],)
        pieces = [self.segments[index]]
        while self.ends[index] < start + size:
            index += 1
            pieces.append(self.segments[index])
        return tuple(pieces)

    def common(self, other: "Sequence", start: int, stop: int) -> int:
        """The position, `stop` at most, up to which both are alike from `start` on."""
        mine, theirs = bisect_right(self.ends, start), bisect_right(other.ends, start)
        if self.segments[mine] == other.segments[theirs] and self.ends[mine] >= stop <= other.ends[theirs]:
            return stop  # nearly always
        position = start
        while position < stop and self.segments[mine] == other.segments[theirs]:
            end, other_end = self.ends[mine], other.ends[theirs]
            position = min(end, other_end)
            mine += end == position
            theirs += other_end == position
        return min(position, stop)
