"""The part of the store that registers many hosts at once.

Invariant: a host whose data equal its offer is not written. All hosts are compared with the index, which one read
brings up to date; so a start without changes costs as much for a thousand hosts as for one.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from whimbrel.adapters.sql.engine.database import Database, Tx
from whimbrel.adapters.sql.placement import new_providers, provider_writes, providers
from whimbrel.adapters.sql.placement import traits as traits_of
from whimbrel.domain.batches import batches
from whimbrel.domain.errors import Conflict
from whimbrel.domain.ids import ProviderId
from whimbrel.placement.index import Index
from whimbrel.placement.provider import Node
from whimbrel.ports.placement.placement import DISABLED, HostOffer
from whimbrel.ports.placement.provider_trees import Part

TOGETHER = 100
"""How many hosts are written per transaction: claims on these hosts wait until it commits."""


class HostStore:
    """Implements the multi-host methods of ports.placement.placement.Placement."""

    _db: Database

    async def provider_index(self) -> Index:
        raise NotImplementedError

    async def register_hosts(self, offers: Sequence[HostOffer]) -> None:
        nodes = (await self.provider_index()).nodes
        async with self._db.read() as tx:
            offered = await traits_of.all_offered(tx)
        changed = [
            offer
            for offer in sorted(offers, key=lambda offer: offer.provider)  # claims lock providers in the same order
            if not _is_so(offer, nodes.get(offer.provider), offered.get(offer.provider, frozenset()))
        ]
        created = await self._create([offer for offer in changed if offer.provider not in nodes])
        for some in batches([offer for offer in changed if offer.provider not in created], TOGETHER):
            async with self._db.write() as tx:
                for offer in some:
                    await _register(tx, offer)

    async def _create(self, offers: Sequence[HostOffer]) -> set[ProviderId]:
        """Create providers of new hosts; return those that were created. After a conflict the others were not."""
        created: set[ProviderId] = set()
        with suppress(Conflict):  # another process registers them: one by one, then
            for some in batches(offers, TOGETHER):
                async with self._db.write() as tx:
                    await new_providers.create_all(tx, [new_providers.of_offer(offer) for offer in some])
                created.update(offer.provider for offer in some)
        return created

    async def create_providers(self, parts: Sequence[Part]) -> None:
        for some in batches(parts, TOGETHER):
            async with self._db.write() as tx:
                await new_providers.create_all(tx, [new_providers.of_part(part) for part in some])

    async def set_all_aggregates(self, of_hosts: Mapping[ProviderId, Sequence[str]]) -> None:
        nodes = (await self.provider_index()).nodes
        changed = [
            host
            for host, aggregates in sorted(of_hosts.items())
            if host not in nodes or nodes[host].aggregates != frozenset(aggregates)
        ]
        for some in batches(changed, TOGETHER):
            async with self._db.write() as tx:
                for host in some:
                    await provider_writes.set_aggregates(tx, host, of_hosts[host])


def _is_so(offer: HostOffer, node: Node | None, offered: frozenset[str]) -> bool:
    return (
        node is not None
        and node.provider.name == offer.name
        and {name: stock.inventory for name, stock in node.stocks.items()} == offer.inventories
        and offered <= offer.traits <= node.traits
        and (DISABLED in node.traits) == offer.disabled
    )


async def _register(tx: Tx, offer: HostOffer) -> None:
    await provider_writes.register(tx, offer.provider, offer.name, offer.inventories)
    has_other_traits = await traits_of.offer_traits(tx, offer.provider, offer.traits)
    if await traits_of.switch_trait(tx, offer.provider, DISABLED, offer.disabled) or has_other_traits:
        await providers.bump(tx, offer.provider)
