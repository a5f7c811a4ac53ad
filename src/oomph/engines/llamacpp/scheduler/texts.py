"""What a slot has in its cache, as far as others could share it: segments of text, and how many of their tokens."""

from oomph.simulate.config import OWN, Job

FOREVER = 1 << 60

Segments = tuple[tuple[int, int], ...]  # (id, tokens); equal ids are equal text


def text_of(job: Job) -> Segments:
    """A request's prompt with its answer behind it, which nobody else has unless the job says so."""
    return (*job.chain, (OWN + job.id, FOREVER))


def common_prefix(one: Segments, other: Segments, most: int) -> int:
    """server_tokens::get_common_prefix, of the first `most` tokens of both."""
    tokens = 0
    for (name, length), (other_name, other_length) in zip(one, other):
        if name != other_name:
            break
        tokens += min(length, other_length)
        if length != other_length or tokens >= most:
            break
    return min(tokens, most)


def shifted(text: Segments, keep: int, discard: int, owner: int) -> Segments:
    """Without the tokens from `keep` on, `discard` of them. What follows stands elsewhere now: nobody shares it."""
    beginning: list[tuple[int, int]] = []
    left = keep
    for name, length in text:
        if left <= 0:
            break
        beginning.append((name, min(length, left)))
        left -= length
    return (*beginning, (hash((owner, keep, discard)), FOREVER))
