"""ggml-alloc.c: where each tensor of a graph goes in its backend's compute buffer, and how large the buffer becomes."""

from collections.abc import Sequence

from oomph.engines.llamacpp.ggml.tensor import FREE, INPLACE, Tensor

LARGE = 1 << 62
MAX_CHUNKS = 16  # GGML_VBUFFER_MAX_CHUNKS


class Chunk:
    """Free blocks in order of their addresses; the last one is what is left of the chunk."""

    def __init__(self, size: int) -> None:
        self.blocks: list[list[int]] = [[0, size]]
        self.most = 0

    def give(self, offset: int, size: int) -> None:
        blocks = self.blocks
        for index, block in enumerate(blocks):
            if block[0] + block[1] == offset:
                block[1] += size
                if index < len(blocks) - 1 and block[0] + block[1] == blocks[index + 1][0]:
                    block[1] += blocks[index + 1][1]
                    del blocks[index + 1]
                return
            if offset + size == block[0]:
                block[0], block[1] = offset, block[1] + size
                if index and blocks[index - 1][0] + blocks[index - 1][1] == block[0]:
                    blocks[index - 1][1] += block[1]
                    del blocks[index]
                return
        at = next((index for index, block in enumerate(blocks) if block[0] >= offset), len(blocks))
        blocks.insert(at, [offset, size])


class Buffer:
    """ggml_dyn_tallocr. `chunk`: the largest allocation that the backend makes (Vulkan: 1 GiB)."""

    def __init__(self, alignment: int, chunk: int = LARGE) -> None:
        self.alignment, self.chunk = alignment, chunk
        self.chunks: list[Chunk] = []

    @property
    def most(self) -> int:
        return sum(chunk.most for chunk in self.chunks)

    def padded(self, size: int) -> int:
        return (size + self.alignment - 1) // self.alignment * self.alignment

    def take(self, size: int) -> tuple[int, int]:
        size = self.padded(size)
        number, index = self._best_block(size)
        if number < 0:
            number, index = self._best_end(size)
        if number < 0:
            last = len(self.chunks) == MAX_CHUNKS - 1
            self.chunks.append(Chunk(LARGE if last else max(size, self.chunk)))
            number, index = len(self.chunks) - 1, 0
        chunk = self.chunks[number]
        block = chunk.blocks[index]
        offset = block[0]
        block[0] += size
        block[1] -= size
        if not block[1]:
            del chunk.blocks[index]
        chunk.most = max(chunk.most, offset + size)
        return number, offset

    def _best_block(self, size: int) -> tuple[int, int]:
        """The tightest free block that is not the last of its chunk, of the last chunk that has one."""
        best = (-1, -1)
        for number, chunk in enumerate(self.chunks):
            fit = LARGE
            for index in range(len(chunk.blocks) - 1):
                if size <= chunk.blocks[index][1] <= fit:
                    best, fit = (number, index), chunk.blocks[index][1]
        return best

    def _best_end(self, size: int) -> tuple[int, int]:
        best, most = (-1, -1), -LARGE
        for number, chunk in enumerate(self.chunks):
            if not chunk.blocks:
                continue
            block = chunk.blocks[-1]
            reuse = chunk.most - block[0] - size
            better = (most < 0 and reuse > most) or 0 <= reuse < most
            if block[1] >= size and better:
                best, most = (number, len(chunk.blocks) - 1), reuse
        return best

    def give(self, chunk: int, offset: int, size: int) -> None:
        self.chunks[chunk].give(offset, self.padded(size))  # also of nothing: it leaves an empty block between others


class Allocator:
    """ggml_gallocr: tensors are placed in the order of the graph and given back after their last use."""

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self.buffers = buffers

    def run(self, nodes: Sequence[tuple[Tensor, int]], leaves: Sequence[tuple[Tensor, int]]) -> list[int]:
        for leaf, buffer in leaves:
            self.place(leaf, buffer)
        for node, buffer in nodes:
            if node.view is not None and node.op != "NONE":
                node.view.views += 1
            if node.is_input:
                self.place(node, buffer)
            for parent in node.src:
                parent.children += 1
                if parent.is_input:
                    self.place(parent, buffer)
        for node, buffer in nodes:
            for parent in node.src:
                if not parent.allocated and parent.view is None:
                    self.place(parent, buffer)
            self.place(node, buffer)
            for parent in node.src:
                parent.children -= 1
                if not parent.children and not parent.views:
                    self.release(parent)
        return [buffer.most for buffer in self.buffers]

    def place(self, node: Tensor, buffer: int) -> None:
        if node.home != FREE or node.allocated or node.view is not None:
            return
        node.allocated = True
        if node.op in INPLACE and self.inherit(node):
            return
        node.buffer = buffer
        node.chunk, node.offset = self.buffers[buffer].take(node.size)

    def inherit(self, node: Tensor) -> bool:
        """The place of a parent that nobody else reads."""
        for parent in node.src:  # a view is never "own": what it shows is kept
            if not parent.allocated or parent.is_output or not node.same_layout(parent):
                continue
            if parent.children == 1 and not parent.views:
                self._take_over(node, parent)
                return True
        return False

    def _take_over(self, node: Tensor, parent: Tensor) -> None:
        node.buffer, node.chunk, node.offset = parent.buffer, parent.chunk, parent.offset
        parent.allocated = False
        buffer = self.buffers[node.buffer]
        had, needs = buffer.padded(parent.size), buffer.padded(node.size)
        if had > needs:
            buffer.give(node.chunk, node.offset + needs, had - needs)

    def release(self, parent: Tensor) -> None:
        """What nobody reads any more."""
        if parent.view is not None:
            source = parent.view
            source.views -= 1
            if not source.views and not source.children and source.allocated:
                self._free(source)
        elif parent.allocated:
            self._free(parent)

    def _free(self, node: Tensor) -> None:
        if node.is_output:
            return
        self.buffers[node.buffer].give(node.chunk, node.offset, node.size)
        node.allocated = False
