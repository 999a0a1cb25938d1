"""What fails if one more host dies: the servers for which the scheduler finds no other host. Nothing is changed.

Invariant: the targets are chosen by the code that chooses those of evacuations, the most important server first, on the
present state of the cloud, less what the servers before claim.
"""

from collections.abc import Sequence

import msgspec

from whimbrel.domain.host import Host
from whimbrel.domain.maintenance_plan import MaintenanceOptions
from whimbrel.domain.server import Server
from whimbrel.maintenance.target_planning import Planner, planner_of
from whimbrel.moves import requests
from whimbrel.moves.evacuation_requests import EVACUABLE
from whimbrel.ports.cloud import Cloud
from whimbrel.servers import lookup
from whimbrel.servers.host_evacuation import Left, in_order

IS_LOST = "it is the host that is lost"


class HostLoss(msgspec.Struct, frozen=True, kw_only=True):
    """The loss of a host with so many servers. without_place: those that no other host can take, and why."""

    host: str
    servers: int
    without_place: tuple[Left, ...]


async def loss_of(cloud: Cloud, host: Host, options: MaintenanceOptions) -> HostLoss:
    """Return what the loss of a host would do now. options: whether servers leave their cell.

    Raises: Unavailable: its cell does not answer.
    """
    servers = await lookup.on_host(cloud, host.cell, host.name)
    planner = await planner_of(cloud, [host.name], options, IS_LOST)
    found = [(server, await _no_place(planner, host, server)) for server in in_order(servers)]
    left = tuple(Left(server=server.id, name=server.name, reason=why) for server, why in found if why)
    return HostLoss(host=host.name, servers=len(servers), without_place=left)


async def _no_place(planner: Planner, host: Host, server: Server) -> str | None:
    """Return why a server has no place; None: it has one, which is reserved."""
    if server.vm_state not in EVACUABLE:
        return f"it is {server.vm_state}: such servers are not evacuated"
    facts = msgspec.structs.replace(
        requests.facts_at(planner.cloud, server, host), leaves_cell=planner.options.leaves_cell
    )
    choices = await planner.choices(facts, server.id)
    if isinstance(choices, str):
        return choices
    group = server.spec.requested_group and await planner.cloud.server_groups.of_server(server.id)
    planner.reserve(choices[0], group.id if group else None)
    return None


def worst_first(losses: Sequence[HostLoss]) -> list[HostLoss]:
    return sorted(losses, key=lambda loss: (-len(loss.without_place), loss.host))
