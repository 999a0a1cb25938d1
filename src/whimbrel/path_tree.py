"""Tables of URLs as a tree of paths: a path is walked once, whatever the table's length.

Law: where a word and a parameter both fit, the word is meant first.
"""

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

Leaf = TypeVar("Leaf")


class PathTree(Generic[Leaf]):
    """What is below a path, and at it. leaves: what is at it, by method. names: of its parameters."""

    def __init__(self) -> None:
        self.leaves: dict[str, list[Leaf]] = {}
        self.names: tuple[str, ...] = ()
        self._below: dict[str, PathTree[Leaf]] = {}
        self._wild: PathTree[Leaf] | None = None

    def add(self, method: str, path: str, leaf: Leaf) -> None:
        """Add a line of the table. path: such as "/images/{image_id}"; "/" is the root."""
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
        """Tell whether a path may begin with this word."""
        return word in self._below

    def find(self, parts: Sequence[str]) -> list[tuple["PathTree[Leaf]", dict[str, str]]]:
        """Give all that a path may mean, the likeliest first, each with the path's parameters."""
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


def methods_of(found: Sequence[tuple[PathTree[Leaf], dict[str, str]]]) -> list[str]:
    """List the methods that a path may be asked with."""
    return sorted({method for node, _ in found for method in node.leaves})
