"""Checks whether the agent of a host is too old for a server: with ports that request resources, a config drive, or
hardware of its own.

As in Nova, a source whose compute service is too old refuses the request, and a target is passed over.
"""

from collections.abc import Iterable

from whimbrel.domain.host import Host
from whimbrel.domain.release import number_of
from whimbrel.moves.facts import MovedPort
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.services.network import Port

FIRST_WITH_REQUESTS = "0.1.0"
"""The first release whose agents move servers with ports that request resources."""

FIRST_WITH_DRIVES = "0.2.0"
"""The first release whose agents write config drives; older ones start guests without them."""

FIRST_WITH_HARDWARE = "0.2.0"
"""The first release whose agents give guests the hardware that they ask for; older ones give all of them the same."""


async def too_old(host: Host, ports: Iterable[Port | MovedPort], cloud: Cloud) -> str | None:
    """Return the release of the host's agent if it is too old to move a server with these ports."""
    return await _older(host, FIRST_WITH_REQUESTS, cloud) if any(port.requests for port in ports) else None


async def too_old_for_drives(host: Host, cloud: Cloud) -> str | None:
    """Return the release of the host's agent if it is too old for servers with config drives."""
    return await _older(host, FIRST_WITH_DRIVES, cloud)


async def too_old_for_hardware(host: Host, cloud: Cloud) -> str | None:
    """Return the release of the host's agent if it is too old for servers with hardware of their own."""
    return await _older(host, FIRST_WITH_HARDWARE, cloud)


async def _older(host: Host, first: str, cloud: Cloud) -> str | None:
    if not host.session:  # an agent without a session is of this release
        return None
    release = (await cloud.cell(host.cell).hosts.agent(host)).release
    return release if release and number_of(release) < number_of(first) else None
