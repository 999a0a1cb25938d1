"""Usage of hosts, from placement's accounting."""

from collections.abc import Sequence

import msgspec

from whimbrel.api.http.call import Call
from whimbrel.domain.host import Host
from whimbrel.domain.ids import HostName
from whimbrel.domain.resources import DISK_GB, MEMORY_MB, VCPU


class HostUse(msgspec.Struct, frozen=True):
    """Usage of a host. servers: their number."""

    vcpus: int
    memory_mib: int
    disk_gib: int
    servers: int


async def of_hosts(call: Call, hosts: Sequence[Host]) -> dict[HostName, HostUse]:
    used = {
        state.id: {name: amount - state.free[name] for name, amount in state.capacity.items()}
        for state in await call.cloud.placement.providers()
    }
    uses = {}
    for host in hosts:
        amounts = used.get(host.id, {})
        count = await call.cloud.cell(host.cell).servers.count(host.name)
        uses[host.name] = HostUse(amounts.get(VCPU, 0), amounts.get(MEMORY_MB, 0), amounts.get(DISK_GB, 0), count)
    return uses
