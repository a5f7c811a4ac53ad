"""server_prompt_cache (tools/server/server-task.cpp, v0.5.0): prompts that left their slot, in host memory."""

from collections.abc import Iterator

from msgspec import Struct

from oomph.engines.llamacpp.scheduler.texts import Segments, common_prefix


class Checkpoint(Struct, frozen=True):
    """A state to go back to, of layers that cannot forget single tokens."""

    tokens: int
    first: int  # the oldest position that it has


class Prompt(Struct, frozen=True):
    text: Segments
    tokens: int
    checkpoints: tuple[Checkpoint, ...] = ()


class PromptCache:
    """Oldest first. Only prompts that begin with the same segment can share anything: they are found by it."""

    def __init__(
        self, limit: int, limit_tokens: int, token_bytes: int, state_bytes: int, checkpoint_bytes: int
    ) -> None:
        """`limit` in bytes; 0: none."""
        self.limit, self.limit_tokens = limit, limit_tokens
        self.token_bytes, self.state_bytes, self.checkpoint_bytes = token_bytes, state_bytes, checkpoint_bytes
        self.prompts: dict[int, Prompt] = {}
        self.by_beginning: dict[int, list[int]] = {}
        self.nbytes = self.tokens = self.count = 0

    def size(self, prompt: Prompt) -> int:
        checkpoints = len(prompt.checkpoints) * self.checkpoint_bytes
        return prompt.tokens * self.token_bytes + self.state_bytes + checkpoints

    def _kin(self, text: Segments) -> Iterator[tuple[int, Prompt]]:
        return ((key, self.prompts[key]) for key in self.by_beginning.get(text[0][0], ()))

    def save(self, prompt: Prompt) -> None:
        """alloc: what contains it makes it needless, what it contains goes, and so does the oldest that has no room."""
        kin = [(key, other, common_prefix(other.text, prompt.text, min(other.tokens, prompt.tokens)))
               for key, other in self._kin(prompt.text)]  # fmt: skip
        size = self.size(prompt)
        if any(shared == prompt.tokens for _, _, shared in kin) or 0 < self.limit < size:
            return
        for key, other, shared in kin:
            if shared == other.tokens:
                self.take(key)
        while self.limit and self.prompts and self.nbytes + size > self.limit:
            self.take(next(iter(self.prompts)))
        self.count += 1
        self.prompts[self.count] = prompt
        self.by_beginning.setdefault(prompt.text[0][0], []).append(self.count)
        self.nbytes += size
        self.tokens += prompt.tokens

    def better(self, text: Segments, tokens: int, present: Prompt) -> int:
        """load: which prompt begins like `tokens` of `text`, more than what the slot holds; 0: none does."""
        shared = common_prefix(present.text, text, min(present.tokens, tokens)) if present.tokens else 0
        keep, similar = shared / present.tokens if present.tokens else -1.0, shared / tokens
        best = 0
        for key, other in self._kin(text):
            shared = common_prefix(other.text, text, min(other.tokens, tokens))
            of_other, of_new = shared / other.tokens, shared / tokens
            if of_other >= 0.25 and keep < of_other and similar < of_new:
                keep, similar, best = of_other, of_new, key
        return best

    def trim(self) -> None:
        """update: the limit in tokens grows with what the limit in bytes would hold of such prompts."""
        while self.limit and self.prompts and self.nbytes > self.limit:
            self.take(next(iter(self.prompts)))
        each = max(1.0, self.nbytes / max(1, self.tokens))
        most = max(self.limit_tokens, int(self.limit / each)) if self.limit else self.limit_tokens
        while self.limit_tokens and self.prompts and self.tokens > most:
            self.take(next(iter(self.prompts)))

    def take(self, key: int) -> Prompt:
        prompt = self.prompts.pop(key)
        kin = self.by_beginning[prompt.text[0][0]]
        kin.remove(key)
        if not kin:
            del self.by_beginning[prompt.text[0][0]]
        self.nbytes -= self.size(prompt)
        self.tokens -= prompt.tokens
        return prompt
