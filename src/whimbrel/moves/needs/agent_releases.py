"""Which moves the agent of a host is too old for: those of servers with ports that request resources.

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


async def too_old(host: Host, ports: Iterable[Port | MovedPort], cloud: Cloud) -> str | None:
    """Return the release of the host's agent if it is too old to move a server with these ports."""
    if not host.session or not any(port.requests for port in ports):  # an agent without a session is of this release
        return None
    release = (await cloud.cell(host.cell).hosts.agent(host)).release
    return release if release and number_of(release) < number_of(FIRST_WITH_REQUESTS) else None
