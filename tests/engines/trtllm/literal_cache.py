"""KVCacheManager's blocks once more, one object each, with the names of kvCacheManager.cpp and evictionPolicy.cpp:
what the literal scheduler runs on. Nothing is shared with `engines/trtllm/scheduler`."""

from __future__ import annotations

from typing import Any


class NoFreeBlocks(Exception):
    pass


class Block:
    def __init__(self) -> None:
        self.ref_count = 0
        self.prev: Block | None = None
        self.next: dict[int, Block] = {}  # children in the search tree
        self.key = 0

    def has_refs(self) -> bool:
        return self.ref_count > 0

    def in_tree(self) -> bool:
        return self.prev is not None

    def free_block_and_all_descendants(self) -> None:
        if self.prev is not None:
            del self.prev.next[self.key]
            self.prev = None
        for child in list(self.next.values()):
            child.free_block_and_all_descendants()


class WindowBlockManager:
    """One window's pool."""

    def __init__(self, window_size: int, tokens_per_block: int, blocks: int, is_swa: bool, reuse: bool) -> None:
        self.window_size, self.tokens_per_block = window_size, tokens_per_block
        self.is_swa, self.enable_reuse = is_swa, reuse
        self.root = Block()
        self.free_queue = [Block() for _ in range(blocks)]
        self.allocated: dict[Any, list[list[Block]]] = {}  # sequence -> block index -> one for each beam
        self.front_removed: dict[Any, int] = {}
        self.num_tokens: dict[Any, int] = {}

    def get_free_block(self) -> Block:
        if not self.free_queue:
            raise NoFreeBlocks
        block = self.free_queue.pop(0)
        block.free_block_and_all_descendants()
        return block

    def allocate_block(self, sequence: Any, beams: int, share: bool) -> None:
        if share:
            block = self.get_free_block()
            block.ref_count += beams
            self.allocated[sequence].append([block] * beams)
        else:
            row = []
            for _ in range(beams):
                block = self.get_free_block()
                block.ref_count += 1
                row.append(block)
            self.allocated[sequence].append(row)

    def add_sequence(self, sequence: Any, length: int, beams: int, keys: list[int]) -> int:
        """`keys`: of the full blocks of length - 1 tokens. What it returns has been found in the tree."""
        self.allocated[sequence], self.front_removed[sequence], self.num_tokens[sequence] = [], 0, length
        num_context_blocks = -(-length // self.tokens_per_block)
        if not self.enable_reuse:
            for _ in range(num_context_blocks - 1):
                self.allocate_block(sequence, beams, True)
            self.allocate_block(sequence, beams, length % self.tokens_per_block == 0)
            return 0
        num_shared = num_context_blocks if beams == 1 else num_context_blocks - 1
        search, matched = self.root, 0
        for index in range(num_shared):
            match = search.next.get(keys[index]) if index < len(keys) and matched == index else None
            if match is None:
                break
            if not match.has_refs():
                self.free_queue.remove(match)
            match.ref_count += beams
            self.allocated[sequence].append([match] * beams)
            search, matched = match, matched + 1
        for _ in range(matched, num_shared):
            self.allocate_block(sequence, beams, True)
        for _ in range(num_shared, num_context_blocks):
            self.allocate_block(sequence, beams, False)
        return matched * self.tokens_per_block

    def add_token(self, sequence: Any, beams: int) -> None:
        self.num_tokens[sequence] += 1
        while (
            self.is_swa
            and self.num_tokens[sequence] - self.front_removed[sequence] * self.tokens_per_block
            >= self.window_size + self.tokens_per_block
        ):
            assert beams == 1, "detachBlock does not support beamWidth > 1 now"
            block = self.allocated[sequence][self.front_removed[sequence]][0]
            block.ref_count -= 1
            if not block.has_refs():
                self.free_queue.append(block)
            self.front_removed[sequence] += 1
        if (self.num_tokens[sequence] - 1) % self.tokens_per_block == 0:
            self.allocate_block(sequence, beams, beams == 1)

    def remove_token(self, sequence: Any) -> None:
        if (self.num_tokens[sequence] - 1) % self.tokens_per_block == 0:
            (block,) = self.allocated[sequence].pop()
            block.ref_count -= 1
            self.free_queue.insert(0, block)
        self.num_tokens[sequence] -= 1

    def store_blocks(self, sequence: Any, keys: list[int]) -> None:
        search = self.root
        for key, row in zip(keys, self.allocated[sequence], strict=False):
            match = search.next.get(key)
            if match is None:
                match = row[0]
                match.free_block_and_all_descendants()
                match.key, match.prev = key, search
                search.next[key] = match
            search = match

    def release_blocks(self, sequence: Any) -> None:
        rows = self.allocated.pop(sequence)
        for row in reversed(rows[self.front_removed.pop(sequence) :]):
            for block in reversed(row):
                block.ref_count -= 1
                if not block.has_refs():
                    self.free_queue.append(block)
        del self.num_tokens[sequence]

    def count_reusable_blocks(self, keys: list[int], only_allocated: bool) -> int:
        count, search = 0, self.root
        for key in keys:
            match = search.next.get(key)
            if match is None:
                break
            count += not only_allocated or match.has_refs()
            search = match
        return count

    def find_new_context_block(self, keys: list[int]) -> int | None:
        search = self.root
        for key in keys:
            match = search.next.get(key)
            if match is None:
                return key
            search = match
        return None

    def scheduling_free(self, paused: list[Any]) -> int:
        """startScheduling and schedulingReleaseBlocks on copies of the reference counts."""
        counts: dict[int, int] = {}
        freed = 0
        for sequence in paused:
            for row in self.allocated[sequence][self.front_removed[sequence] :]:
                for block in row:
                    counts[id(block)] = counts.get(id(block), block.ref_count) - 1
                    freed += counts[id(block)] == 0
        return len(self.free_queue) + freed
