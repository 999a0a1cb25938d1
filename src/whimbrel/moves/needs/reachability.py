"""Networks and storage that a host must reach; queried only if cells or aggregates declare what they reach."""

from collections.abc import Sequence

from whimbrel.moves.facts import MoveFacts
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.fleet import Fleet
from whimbrel.scheduling.filters.by_cell import BACKENDS, PHYSNETS


async def networks_needed(facts: MoveFacts, fleet: Fleet, cloud: Cloud) -> dict[str, str]:
    """Return physical network -> description of the network on it.

    A network of several segments requires none of them.
    """
    said = any(cell.physnets is not None for cell in fleet.cells.values()) or fleet.marked(PHYSNETS)
    wanted = _networks(facts) if said else []
    if not wanted:
        return {}
    found = await cloud.network.networks(None, wanted)
    return {one.physnets[0]: f"network {one.name or one.id}" for one in found if len(one.physnets) == 1}


async def storage_needed(facts: MoveFacts, fleet: Fleet, cloud: Cloud) -> frozenset[str]:
    said = any(cell.storage is not None for cell in fleet.cells.values()) or fleet.marked(BACKENDS)
    found = [await cloud.volumes.volume(one) for one in (_volumes(facts) if said else [])]
    return frozenset(one.backend for one in found if one.backend)


def _networks(facts: MoveFacts) -> Sequence[str]:
    requested_ids = [requested.network_id for requested in facts.requested_nics if requested.network_id]
    return sorted({*requested_ids, *(port.nic.network_id for port in facts.ports)})


def _volumes(facts: MoveFacts) -> Sequence[str]:
    requested_ids = [requested.volume_id for requested in facts.requested_volumes if requested.volume_id]
    return sorted({*requested_ids, *(device.volume_id for device in facts.volumes)})
