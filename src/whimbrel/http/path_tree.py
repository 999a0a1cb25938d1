"""Route tables as a tree of path segments: one walk finds a path, whatever the length of the table.

Invariant: if a literal segment and a parameter both match, the literal precedes.
"""

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

Leaf = TypeVar("Leaf")


class PathTree(Generic[Leaf]):
    """A node of the tree. leaves: the entries of this path, by method. names: of the parameters in the path."""

    def __init__(self) -> None:
        self.leaves: dict[str, list[Leaf]] = {}
        self.names: tuple[str, ...] = ()
        self._below: dict[str, PathTree[Leaf]] = {}
        self._wild: PathTree[Leaf] | None = None

    def add(self, method: str, path: str, leaf: Leaf) -> None:
        """Add an entry of the table. path: such as "/images/{image_id}"; "/" is the root."""
        node, names = self, []
        for part in path.strip("/").split("/"):
            if part.startswith("{"):
                names.append(part[1:-1])
                node._wild = node._wild or PathTree()
                node = node._wild
            else:
                node = node._below.setdefault(part, PathTree())
        assert node.names in ((), tuple(names)), f"{path} is in the table with other names too"
        node.names = tuple(names)
        node.leaves.setdefault(method, []).append(leaf)

    def begins(self, word: str) -> bool:
        """Check whether a path can begin with this literal segment."""
        return word in self._below

    def find(self, parts: Sequence[str]) -> list[tuple["PathTree[Leaf]", dict[str, str]]]:
        """Return all nodes that match a path, the best match first, each with the parameters of the path."""
        return [(node, dict(zip(node.names, values, strict=True))) for node, values in self._walk(parts, 0, ())]

    def _walk(
        self, parts: Sequence[str], depth: int, values: tuple[str, ...]
    ) -> Iterator[tuple["PathTree[Leaf]", tuple[str, ...]]]:
        if depth == len(parts):
            if self.leaves:
                yield self, values
            return
        below = self._below.get(parts[depth])
        if below is not None:
            yield from below._walk(parts, depth + 1, values)
        if self._wild is not None and parts[depth]:
            yield from self._wild._walk(parts, depth + 1, (*values, parts[depth]))
