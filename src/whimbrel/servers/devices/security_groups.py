"""Security groups of an existing server: added to or removed from all its ports, immediately and without a run.

Each port is updated by its revision, so requests can be repeated; then the record copies the groups of the ports.
"""

from collections.abc import Mapping

from whimbrel.domain.errors import Conflict, Invalid, NotFound
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud
from whimbrel.servers import edit, lookup
from whimbrel.servers.devices import own_devices

TRIES = 3
"""Attempts to write the record against concurrent changes."""


async def add(cloud: Cloud, server: Server, group: str, names: Mapping[str, str]) -> None:
    """names: id -> name, of all groups of its project. Raises: Invalid: it has no port; Conflict; Unavailable."""
    ports = await own_devices.ports_of(server, cloud)
    if not ports:
        raise Invalid(f"Cannot add security group {names[group]} to {server.id}, which has no port.")
    for port in ports:
        if group not in port.security_groups:
            await cloud.network.set_security_groups(port, (*port.security_groups, group))
    await _record(cloud, server, names)


async def remove(cloud: Cloud, server: Server, group: str, names: Mapping[str, str]) -> None:
    """names: id -> name, of all groups of its project.
    Raises: NotFound: neither a port nor the record has it (the record may, if a first attempt could not write it);
    Conflict; Unavailable.
    """
    ports = [port for port in await own_devices.ports_of(server, cloud) if group in port.security_groups]
    if not ports and group not in server.security_groups:
        raise NotFound(f"Security group {names[group]} not associated with the instance {server.id}")
    for port in ports:
        kept = tuple(other for other in port.security_groups if other != group)
        await cloud.network.set_security_groups(port, kept)
    await _record(cloud, server, names)


async def _record(cloud: Cloud, server: Server, names: Mapping[str, str]) -> None:
    ports = await own_devices.ports_of(server, cloud)
    groups = tuple(dict.fromkeys(group for port in ports for group in port.security_groups))
    fields = {
        "security_groups": groups,
        "security_group_names": tuple(names.get(group, group) for group in groups),
        "has_no_security_groups": bool(ports) and not groups,
    }
    for _ in range(TRIES):
        try:
            await edit.change(cloud, server, fields)
            return
        except Conflict:
            server = await lookup.find(cloud, server.id)
    raise Conflict(f"server {server.id} is changed all the time")
