"""Reports to Placement what bandwidth and packet rates hosts have: below each host its agents, below each its cards.

Law: a provider's uuid follows from host and device, so that every start finds what the last one made; what others have
reported is never touched. Names and uuids are as Neutron makes them: the compute service reads the device out of them.
"""

from collections.abc import Iterable, Iterator
from uuid import UUID, uuid5

import structlog

from whimbrel.domain.errors import Conflict, Refused
from whimbrel.domain.host_nics import AGENTS, HostNet, HostNic, VnicType
from whimbrel.domain.ids import ProviderId
from whimbrel.embedded.network.resource_requests import BANDWIDTH, PACKETS, physnet_trait, vnic_trait
from whimbrel.ports.placement.placement import Inventory
from whimbrel.ports.placement.provider_trees import Part, ProviderTrees

log = structlog.get_logger(__name__)

NAMESPACES: dict[VnicType, UUID] = {
    "normal": UUID("87ee7d5c-73bb-11e8-9008-c4d987b2a692"),
    "direct": UUID("87f1895c-73bb-11e8-9008-c4d987b2a692"),
}
"""Kind of agent -> where its uuids come from. Source: Neutron's drivers for Open vSwitch and SR-IOV."""


async def report(trees: ProviderTrees, hosts: Iterable[HostNet]) -> None:
    """Have Placement know what these hosts have now; what it knows already is not written. Raises: Unavailable."""
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
                    await _have(trees, part)
            for gone in (*below.get(agent, ()), *([agent] if agent in known.parts else ())):
                if gone not in {part.uuid for part in wanted}:
                    await _remove(trees, gone)


def _parts(root: ProviderId, host: HostNet, kind: VnicType) -> list[Part]:
    """List an agent and its cards; none where the host has nothing of that kind."""
    agent = _agent(root, host, kind)
    cards = list(_cards(agent, host, kind))
    return [agent, *cards] if cards or agent.inventories else []


def _agent(root: ProviderId, host: HostNet, kind: VnicType) -> Part:
    """Describe an agent; packets go through a switch in software, so only one of the kinds counts them."""
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


async def _have(trees: ProviderTrees, part: Part) -> None:
    try:
        await trees.have(part)
    except (Conflict, Refused) as no:
        log.warning("what a host has is not reported", provider=part.name, reason=no.reason)


async def _remove(trees: ProviderTrees, uuid: ProviderId) -> None:
    try:
        await trees.remove(uuid)
    except Conflict as no:  # servers hold something of it: it goes at a start after they let go
        log.warning("a provider stays that no host reports", provider=uuid, reason=no.reason)
