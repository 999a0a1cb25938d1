"""The capacity of some hosts, from the index of all providers: columns in the order of the hosts."""

from collections.abc import Sequence

import numpy as np

from whimbrel.domain.ids import ProviderId
from whimbrel.placement.assignments import request_of
from whimbrel.placement.index import Index
from whimbrel.placement.provider import Node
from whimbrel.placement.search import UNNAMED
from whimbrel.ports.arrays import Mask, Numbers
from whimbrel.ports.placement.assignments import ResourceRequest
from whimbrel.ports.placement.capacity import ProviderState


class IndexCapacity:
    """Implements ports.placement.capacity.HostCapacity."""

    def __init__(self, index: Index, hosts: Sequence[ProviderId]) -> None:
        self._index = index
        self._hosts = hosts

    @property
    def _rows(self) -> Numbers:
        return self._index.rows_of(self._hosts)  # looked up each time: rows of removed providers are reused

    @property
    def known(self) -> Mask:
        return self._index.is_root(self._rows)

    def free(self, resource_class: str) -> Numbers:
        return self._index.stocks(resource_class).free.take(self._rows)

    def used(self, resource_class: str) -> Numbers:
        return self._index.stocks(resource_class).used.take(self._rows)

    def capacity(self, resource_class: str) -> Numbers:
        return self._index.stocks(resource_class).capacity.take(self._rows)

    def offers(self, resource_class: str) -> bool:
        return bool(self._trees(self._index.stocks(resource_class).capacity > 0).any())

    def largest(self, resource_class: str) -> Numbers:
        stocks = self._index.stocks(resource_class)
        return self._most(np.minimum(stocks.most, stocks.capacity))

    def spare(self, resource_class: str) -> Numbers:
        stocks = self._index.stocks(resource_class)
        return self._most(np.minimum(stocks.most, stocks.free))

    def most_free(self, resource_class: str, amount: int) -> Numbers:
        stocks = self._index.stocks(resource_class)
        return self._most(np.where(stocks.fitting(amount), stocks.free, -1))

    def _most(self, column: Numbers) -> Numbers:
        return self._index.trees().most(column).take(self._rows)

    def _trees(self, mask: Mask) -> Mask:
        return self._index.trees().any(mask).take(self._rows)

    def fits(self, resource_class: str, amount: int) -> Mask:
        return self._trees(self._index.stocks(resource_class).fitting(amount))

    def has_trait(self, name: str) -> Mask:
        return self._index.traits.at(name, self._rows)

    def tree_has_trait(self, name: str) -> Mask:
        return self._trees(self._index.traits.any([name]))

    def in_aggregate(self, uuid: str) -> Mask:
        return self._index.aggregates.at(uuid, self._rows)

    def could_hold(self, resources: ResourceRequest) -> Mask:
        return self._index.could_hold(request_of(resources)).take(self._rows)

    def simple(self, resources: ResourceRequest) -> Mask:
        return self._alone(resources, unused=False)

    def simple_if_unused(self, resources: ResourceRequest) -> Mask:
        return self._alone(resources, unused=True)

    def _alone(self, resources: ResourceRequest, *, unused: bool) -> Mask:
        request = request_of(resources)
        if list(request.groups) != [UNNAMED]:
            return np.zeros(len(self._hosts), np.bool_)
        return self._index.alone(request, unused=unused).take(self._rows)

    def state(self, host_index: int) -> ProviderState:
        node = self._index.nodes[self._hosts[host_index]]
        return self._index.derived([node], state_of)[node.provider.uuid]


def state_of(node: Node) -> ProviderState:
    capacity = {name: stock.capacity for name, stock in node.stocks.items()}
    return ProviderState(
        id=node.provider.uuid,
        name=node.provider.name,
        root=node.provider.root,
        parent=node.provider.parent,
        free={name: capacity[name] - stock.used for name, stock in node.stocks.items()},
        capacity=capacity,
        max_unit={name: stock.inventory.max_unit for name, stock in node.stocks.items()},
        traits=node.traits,
        aggregates=node.aggregates,
    )
