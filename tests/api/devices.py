"""Networks, ports and volumes that a user has before he asks the compute API for something."""

from typing import Any

from tests.api.front import Front
from whimbrel.ports.services.network import NetworkInfo, Port
from whimbrel.ports.services.volumes import Volume
from whimbrel.sim.cloud.cloud import PROJECT


def network(front: Front, name: str = "private", cidr: str = "10.0.0.0/24", **fields: Any) -> str:
    """Create a network with one subnet, of the caller's project unless said otherwise; return its id."""
    ids = front.world.cloud.ids
    made = NetworkInfo(
        **{
            "id": ids.uuid(),
            "name": name,
            "project_id": PROJECT,
            "is_shared": False,
            "subnets": (ids.uuid(),),
            **fields,
        }
    )
    front.world.remains.network.add_network(made, cidr)
    return made.id


def port(front: Front, network_id: str, requests: Any = (), **fields: Any) -> Port:
    ids = front.world.cloud.ids
    mac = "fa:16:3e:" + ":".join(ids.uuid()[at : at + 2] for at in (0, 2, 4))
    made = Port(**{"id": ids.uuid(), "network_id": network_id, "project_id": PROJECT, "mac": mac, **fields})
    return front.world.remains.network.add_port(made, requests)


def volume(front: Front, **fields: Any) -> str:
    """Create a volume of 2 GiB, of the caller's project unless said otherwise; return its id."""
    made = Volume(
        **{
            "id": front.world.cloud.ids.uuid(),
            "project_id": PROJECT,
            "name": "data",
            "status": "available",
            "size_gib": 2,
            "zone": "nova",
            **fields,
        }
    )
    front.world.remains.volumes.add_volume(made)
    return made.id
