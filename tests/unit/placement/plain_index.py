"""What the index of Placement is compared with: all providers in dictionaries, searched one by one."""

from collections.abc import Callable, Iterable, Sequence

from whimbrel.domain.ids import ProviderId
from whimbrel.placement.provider import Node
from whimbrel.placement.search import SHARING, Request, serves


class NodeIndex:
    """All providers, by uuid and by tree: the plain Woods. They do not change."""

    version = 0

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes = {node.provider.uuid: node for node in nodes}
        self.trees: dict[ProviderId, list[Node]] = {}
        for node in self.nodes.values():
            self.trees.setdefault(node.provider.root, []).append(node)

    def tree(self, root: ProviderId) -> list[Node]:
        return self.trees[root]

    def tree_of(self, uuid: ProviderId) -> list[Node]:
        node = self.nodes.get(uuid)
        return self.trees[node.provider.root] if node else []

    def roots(self, request: Request) -> Iterable[ProviderId]:
        if self.sharing():
            return self.trees
        return [root for root, tree in self.trees.items() if len(tree) > 1 or serves(tree[0], request)]

    def still_roots(self, roots: Sequence[ProviderId], request: Request) -> list[ProviderId]:
        return list(roots)

    def sharing(self) -> list[Node]:
        return [node for node in self.nodes.values() if SHARING in node.traits]

    def unique_fits(self, request: Request, cut: object) -> Callable[[ProviderId], None]:
        return lambda root: None
