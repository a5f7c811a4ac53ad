"""A question as words that are taken out of it one after another: what is left at the end decided nothing."""

import re
import unicodedata
from collections.abc import Callable

from oomph.commands.questions import words
from oomph.text.late import late_pattern

MOST_WORDS = 8  # of one name
_BORDER = late_pattern(r"(?<=[\u3400-\u9fff])(?=[\w(])|(?<=[\w)])(?=[\u3400-\u9fff])")
_WORD = late_pattern(r"[^\s?!,;:¿¡。，？！；：、\"“”]+(?:,(?=\d{3}\b)\d+)*(?::[\w.]+)?")


class Text:
    """A question of which pieces are taken; what is left is said."""

    def __init__(self, text: str) -> None:
        bits = words.BITS.sub(r"\1-bit", text)
        plain = words.GIGABYTES.sub(r"\1 GB", unicodedata.normalize("NFKC", bits).replace("’", "'"))
        plain = words.IN_BRACKETS.sub(r" \1 ", plain)
        plain = words.MILLION.sub(r"\1M", plain)
        self.text = words.WITH_SIZE.sub(lambda match: " " * len(match[0]), plain)
        if words.SHARED.search(self.text.lower()):
            self.text = words.RAM_WORD.sub(lambda match: " " * len(match[0]), self.text)
        self.left = self.text.lower()

    def take(self, pattern: "re.Pattern[str]") -> "re.Match[str] | None":
        match = pattern.search(self.left)
        if match:
            self.drop(match.start(), match.end())
        return match

    def asked(self, pattern: "re.Pattern[str]") -> bool:
        return pattern.search(self.text.lower()) is not None

    def drop(self, start: int, end: int) -> None:
        self.left = self.left[:start] + " " * (end - start) + self.left[end:]

    def words(self) -> list[tuple[int, int]]:
        """Where each word of what is left begins and ends."""
        spaced = _BORDER.finditer(self.left)
        cuts = {match.start() for match in spaced}
        out = []
        for match in _WORD.finditer(self.left):
            start = match.start()
            for cut in sorted(cut for cut in cuts if start < cut < match.end()):
                out.append((start, cut))
                start = cut
            out.append((start, match.end()))
        return [(start, start + len(self.left[start:end].rstrip(".'"))) for start, end in out]

    def rewrite(self, pattern: "re.Pattern[str]", replacement: "Callable[[re.Match[str]], str]") -> None:
        """Before anything is taken."""
        self.text = pattern.sub(replacement, self.text)
        self.left = self.text.lower()


def spans(text: Text) -> "list[tuple[int, int]]":
    """Every run of words, the longest first, from left to right."""
    places = text.words()
    return [
        (places[at][0], places[at + length - 1][1])
        for length in range(min(MOST_WORDS, len(places)), 0, -1)
        for at in range(len(places) - length + 1)
    ]
