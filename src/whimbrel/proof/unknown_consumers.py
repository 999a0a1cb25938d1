"""Find the possible owners of an unknown consumer's claims: guests without any claim."""

from collections.abc import Collection, Iterable

from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import ConsumerId, HostName, ServerId
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.proof.collector import Collector
from whimbrel.proof.evidence import CloudSnapshot, Seen, ServerEvidence
from whimbrel.proof.evidence_reader import records_of


async def uncovered(cloud: Cloud, one: ServerEvidence, snapshot: CloudSnapshot) -> tuple[Seen, ...]:
    """Return the guests on the hosts of its claim for which neither server nor moves have a claim there.

    Guests on the host of their server's record are left out: their missing claims are known.
    """
    trees = {snapshot.roots.get(provider, provider) for provider, _ in one.own}
    there = [seen for found in snapshot.guests.values() for seen in found if snapshot.root(seen[0]) in trees]
    for with_runs in (False, True):
        there = await _without_claim(cloud, snapshot, there, with_runs=with_runs)
    homes = await _homes(cloud, {guest.key.server for _, guest in there})
    return tuple((host, guest) for host, guest in there if homes.get(guest.key) != host)


async def _homes(cloud: Cloud, servers: Collection[ServerId]) -> dict[GuestKey, HostName]:
    found = await records_of(cloud, list(servers), Collector()) if servers else []
    return {one.key: one.record.host for one in found if one.key and one.record and one.record.host}


async def _without_claim(
    cloud: Cloud, snapshot: CloudSnapshot, guests: Iterable[Seen], *, with_runs: bool
) -> list[Seen]:
    owners = {ConsumerId(guest.key.server): guest.key.server for _, guest in guests}
    if with_runs:
        owners = {name: server for server in owners.values() for name in await _runs(cloud, server)}
    held = await cloud.placement.allocations(list(owners))
    paid = {(owners[each.consumer], snapshot.roots.get(each.provider)) for each in held}
    return [(host, guest) for host, guest in guests if (guest.key.server, snapshot.root(host)) not in paid]


async def _runs(cloud: Cloud, server: ServerId) -> list[ConsumerId]:
    found = await cloud.journal.find(RunFilter(subject=server, only_open=True))
    return [ConsumerId(run.id) for run in found]
