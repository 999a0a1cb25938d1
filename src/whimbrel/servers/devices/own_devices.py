"""The ports and attachments that belong to a server: those that its record names, or its project and one of its runs.

In Neutron and Cinder every project can name any server in its ports and attachments. Those of another project, and
those that its own project made there, are not shown, not changed and not cleaned up with the server.
"""

from whimbrel.domain.errors import NotFound
from whimbrel.domain.server import Server
from whimbrel.moves.named_devices import without_claims
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.services.network import Port, own_ports
from whimbrel.ports.services.volumes import Attachment


async def ports_of(server: Server, cloud: Cloud, *, with_requests: bool = True) -> list[Port]:
    ports = await cloud.network.ports_of([server.id], with_requests=with_requests)
    ports = own_ports(ports, [server.project_id], server.nics)
    return (await without_claims(server.id, ports, (), {nic.port_id for nic in server.nics}, cloud))[0]


async def attachments_of(server: Server, cloud: Cloud) -> list[Attachment]:
    """List its attachments, also of other projects' volumes that its record names: an administrator attached them."""
    named = {device.volume_id for device in server.volumes}
    held = await cloud.volumes.attachments(server.id)
    own = [one for one in held if one.volume_id in named or await _is_own(one, server, cloud)]
    return (await without_claims(server.id, (), own, named, cloud))[1]


async def _is_own(attachment: Attachment, server: Server, cloud: Cloud) -> bool:
    try:
        return (await cloud.volumes.volume_use(attachment.volume_id)).project in ("", server.project_id)
    except NotFound:
        return True
