"""Reports the bandwidth and packet rates of hosts to Placement: agents below each host, NICs below each agent.

Invariant: a provider's uuid is derived from host and device, so that every start finds existing ones; the providers of
others are never changed. Names and uuids are Neutron's: the compute service parses the device out of them.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from uuid import UUID, uuid5

import structlog

from whimbrel.domain.errors import Conflict, Refused
from whimbrel.domain.host_nics import AGENTS, HostNet, HostNic, VnicType
from whimbrel.domain.ids import ProviderId
from whimbrel.embedded.network.resource_requests import BANDWIDTH, PACKETS, physnet_trait, vnic_trait
from whimbrel.ports.placement.placement import Inventory
from whimbrel.ports.placement.provider_trees import KnownTrees, Part, ProviderTrees

log = structlog.get_logger(__name__)

NAMESPACES: dict[VnicType, UUID] = {
    "normal": UUID("87ee7d5c-73bb-11e8-9008-c4d987b2a692"),
    "direct": UUID("87f1895c-73bb-11e8-9008-c4d987b2a692"),
}
"""Type of agent -> namespace of its uuids. Source: Neutron's drivers for Open vSwitch and SR-IOV."""


async def report(trees: ProviderTrees, hosts: Iterable[HostNet]) -> None:
    """Report the present resources of these hosts to Placement; unchanged ones are not written. Raises: Unavailable."""
    hosts = list(hosts)
    known = await trees.known()
    if new := [part for host in hosts for part in _all_parts(known, host) if part.uuid not in known.parts]:
        with suppress(Conflict, Refused):  # one by one below, with a warning for each that cannot be
            await trees.create(new)
            known = await trees.known()
    below = known.by_parent()
    for host in hosts:
        root = known.roots.get(host.host)
        if root is None:
            log.warning("a host is not known to Placement", host=host.host)
            continue
        for kind in AGENTS:
            wanted = _parts(root, host, kind)
            agent = _agent(root, host, kind).uuid
            for part in wanted:
                if known.parts.get(part.uuid) != part:
                    await _ensure(trees, part)
            for gone in (*below.get(agent, ()), *([agent] if agent in known.parts else ())):
                if gone not in {part.uuid for part in wanted}:
                    await _remove(trees, gone)


def provider_ids(host: HostNet) -> set[str]:
    """Return the ids of the providers that a host can have in Placement: its agents and cards."""
    names = [host.host, *(f"{host.host}:{card.name}" for card in host.cards)]
    return {str(uuid5(namespace, name)) for namespace in NAMESPACES.values() for name in names}


def _all_parts(known: KnownTrees, host: HostNet) -> Iterator[Part]:
    """Yield what a host has, agents before their NICs; nothing if Placement does not know the host."""
    if root := known.roots.get(host.host):
        for kind in AGENTS:
            yield from _parts(root, host, kind)


def _parts(root: ProviderId, host: HostNet, kind: VnicType) -> list[Part]:
    """Return an agent and its NICs; empty if the host has none of that type."""
    agent = _agent(root, host, kind)
    cards = list(_cards(agent, host, kind))
    return [agent, *cards] if cards or agent.inventories else []


def _agent(root: ProviderId, host: HostNet, kind: VnicType) -> Part:
    """Return an agent; packets pass a software switch, so only one of the types counts them."""
    rates = {"any": host.kpps, "egress": host.egress_kpps, "ingress": host.ingress_kpps} if kind == "normal" else {}
    return Part(
        uuid=ProviderId(str(uuid5(NAMESPACES[kind], host.host))),
        name=f"{host.host}:{AGENTS[kind]}",
        parent=root,
        inventories={PACKETS[way]: Inventory(total=total) for way, total in rates.items() if total},
        traits=frozenset({vnic_trait(kind)}),
    )


def _cards(agent: Part, host: HostNet, kind: VnicType) -> Iterator[Part]:
    for card in host.cards:
        inventories = _bandwidth(card)
        if kind in card.vnic_types and inventories:
            yield Part(
                uuid=ProviderId(str(uuid5(NAMESPACES[kind], f"{host.host}:{card.name}"))),
                name=f"{agent.name}:{card.name}",
                parent=agent.uuid,
                inventories=inventories,
                traits=frozenset({physnet_trait(card.physnet), vnic_trait(kind)}),
            )


def _bandwidth(card: HostNic) -> dict[str, Inventory]:
    totals = {"egress": card.egress_kbps, "ingress": card.ingress_kbps}
    return {BANDWIDTH[way]: Inventory(total=total) for way, total in totals.items() if total}


async def _ensure(trees: ProviderTrees, part: Part) -> None:
    try:
        await trees.ensure(part)
    except (Conflict, Refused) as no:
        log.warning("the inventory of a host was not reported", provider=part.name, reason=no.reason)


async def _remove(trees: ProviderTrees, uuid: ProviderId) -> None:
    try:
        await trees.remove(uuid)
    except Conflict as no:  # servers have allocations on it: a start after their release removes it
        log.warning("a provider that no host reports was not deleted", provider=uuid, reason=no.reason)
