"""The laws of a cloud at rest: nothing is under way or has gone wrong for a while, so nothing may be left over."""

from whimbrel.ports.servers import ServerQuery
from whimbrel.servers.lookup import listing
from whimbrel.sim.world import World


async def problems(world: World) -> list[str]:
    """Say what is left over of what was, or missing of what is."""
    servers = await listing(world.cloud, ServerQuery())
    live = {str(server.id): server for server in servers}
    return [
        *(f"{s.id} is still {s.vm_state} and {s.task_state}" for s in servers if s.task_state is not None),
        *_guests(world, {s.id: (s.host, s.slot) for s in servers if s.host and s.slot}),
        *(
            f"volume {one.volume_id} is attached to {one.server} on {host}, whose record knows nothing of it"
            for one, host in world.remains.volumes.everything()
            if one.server not in live or one.id not in {device.attachment_id for device in live[one.server].volumes}
        ),
        *(
            f"port {port.id} says it is of {port.device_id}, whose record knows nothing of it"
            for port in world.remains.network.everything()
            if port.device_id
            and (port.device_id not in live or port.id not in {nic.port_id for nic in live[port.device_id].nics})
        ),
        *[
            f"port {port.id} is bound to {binding.host} besides"
            for port in world.remains.network.everything()
            for binding in await world.cloud.network.bindings(port.id)
            if not binding.is_active or not port.device_id or binding.host != live[port.device_id].host
        ],
    ]


def _guests(world: World, homes: dict[str, tuple[str, str]]) -> list[str]:
    there = {(guest.key.server, (host, guest.key.slot)) for host, guest in world.simulated.guests()}
    meant = set(homes.items())
    strays = [f"a guest of {server} is left on {where[0]} as {where[1]}" for server, where in sorted(there - meant)]
    return strays + [f"server {server} has no guest on {where[0]}" for server, where in sorted(meant - there)]
