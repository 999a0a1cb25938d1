"""The network's own ports: of routers and floating IPs. No security groups; a project only for routers' interfaces."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from whimbrel.embedded.network import vifs
from whimbrel.embedded.network.port_addresses import new_mac
from whimbrel.embedded.network.request import TRIES, Call
from whimbrel.ports.embedded.network_store import Changed, FixedIp, Port, R, Write
from whimbrel.ports.services.network_errors import MacAddressInUse


def new(
    call: Call,
    network_id: str,
    device_id: str,
    device_owner: str,
    *,
    project_id: str = "",
    fixed_ips: tuple[FixedIp, ...] | None = None,
) -> Port:
    now = call.context.clock.now()
    port = Port(
        id=call.context.ids.uuid(),
        created_at=now,
        updated_at=now,
        project_id=project_id,
        network_id=network_id,
        mac_address=new_mac(call.context.ids),
        fixed_ips=fixed_ips,
        device_id=device_id,
        device_owner=device_owner,
        port_security_enabled=False,
    )
    return vifs.settled(port)


async def write(call: Call, writes: Callable[[], Sequence[Write]]) -> list[Any]:
    """Carry out writes with new ports, with others if a generated MAC is in use. Raises: errors of the store."""
    for _ in range(TRIES - 1):
        try:
            return await call.store.write(writes())
        except MacAddressInUse:
            continue
    return await call.store.write(writes())


async def changed(
    call: Call,
    kind: type[R],
    record_id: str,
    edit: Callable[[R], Awaitable[R]],
    further: Callable[[R], Awaitable[Callable[[], list[Write]]]],
) -> tuple[R, R]:
    """Change a record as Call.changed does, and write further records with it."""

    async def save(change: Changed, before: R) -> R:
        more = await further(before)
        now: R = (await write(call, lambda: [change, *more()]))[0]
        return now

    return await call.changed(kind, record_id, edit, save)
