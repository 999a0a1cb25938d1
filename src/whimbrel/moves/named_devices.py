"""Which ports and volumes of a server its runs have named. What no run has named is the claim of another client.

In Neutron and Cinder the members of a project can name its servers in ports and attachments that they make. What the
compute service leaves behind there looks the same, but a run of the server has named the port, its MAC or the volume,
or made the volume.
"""

from collections.abc import Collection, Iterable

import msgspec

from whimbrel.domain.ids import ServerId
from whimbrel.domain.run import Run
from whimbrel.moves.facts import moves_of
from whimbrel.moves.steps.volumes import marks
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.services.network import Port
from whimbrel.ports.services.volumes import Attachment
from whimbrel.ports.stores.journal import RunFilter


async def without_claims(
    server: ServerId, ports: Iterable[Port], attachments: Iterable[Attachment], in_use: Collection[str], cloud: Cloud
) -> tuple[list[Port], list[Attachment]]:
    """Leave out unbound ports and attachments that no run of the server has named.

    in_use: ids of ports and volumes that its record or a guest has, which always count. A bound port counts too: only
    services bind ports.
    """
    ports, attachments = list(ports), list(attachments)
    doubtful = {name for port in ports if not port.host and port.id not in in_use for name in (port.id, port.mac)}
    doubtful |= {one.volume_id for one in attachments if one.volume_id not in in_use}
    if not doubtful:
        return ports, attachments
    runs = await cloud.journal.find(RunFilter(subject=server))
    claimed = doubtful - _named(runs, doubtful)
    if any(one.volume_id in claimed for one in attachments):
        claimed -= await _made(runs, cloud)
    return (
        [port for port in ports if not claimed.issuperset((port.id, port.mac))],
        [one for one in attachments if one.volume_id not in claimed],
    )


def _named(runs: Iterable[Run], names: Collection[str]) -> set[str]:
    """Return the ids and MACs that are anywhere in the facts of a run, of whatever kind."""
    facts = [msgspec.json.encode(run.facts).decode() for run in runs]
    return {name for name in names if any(name in each for each in facts)}


async def _made(runs: Iterable[Run], cloud: Cloud) -> set[str]:
    """Return the volumes that creates have made: a late request makes one more, whose id no run knows."""
    creates = [run for run in moves_of(runs) if run.saga == "create" and run.facts.requested_volumes]
    made = [await cloud.volumes.made(create.facts.owner.project, marks(create)) for create in creates]
    return {volume.id for each in made for volume in each}
