"""os-hosts, until 2.42: the hosts of services, before there were hypervisors and services.

As with Nova's libvirt driver, a host has no maintenance mode, and its power is not switched by this URL.
"""

from collections.abc import Iterable
from typing import Any

from whimbrel.api.hosts import host_use, internal_services, services
from whimbrel.api.http.call import Call
from whimbrel.api.views import locations
from whimbrel.domain.errors import Invalid
from whimbrel.domain.host import Host
from whimbrel.domain.ids import HostName
from whimbrel.domain.server import Server
from whimbrel.http.problem import Problem
from whimbrel.servers import lookup

NOT_SUPPORTED = "The requested functionality is not supported."


async def index(call: Call) -> Any:
    """List the hosts with an enabled service, and the machines of conductors."""
    zone, names = call.value("zone"), await locations.zone_names(call)
    shown = [
        {"host_name": host, "service": "compute", "zone": locations.zone_name(names, id)}
        for host, id in (await locations.zones(call)).items()
    ]
    shown += [
        {"host_name": each.machine, "service": each.topic, "zone": internal_services.ZONE}
        for each in await internal_services.of_cloud(call)
    ]
    return {"hosts": [each for each in shown if not zone or each["zone"] == zone]}


async def show(call: Call) -> Any:
    """Show what the host has, what is in use, and what its servers have: in sum, and for each project."""
    host = await _host(call)
    use = (await host_use.of_hosts(call, [host]))[host.name]
    servers = await lookup.on_host(call.cloud, host.cell, host.name)
    projects = sorted({server.project_id for server in servers})
    resources = [
        _resource(host, "(total)", host.vcpus, host.memory_mib, host.disk_gib),
        _resource(host, "(used_now)", use.vcpus, use.memory_mib, use.disk_gib),
        _resource(host, "(used_max)", *_sum(servers)),
        *(
            _resource(host, project, *_sum(server for server in servers if server.project_id == project))
            for project in projects
        ),
    ]
    return {"host": resources}


async def update(call: Call) -> Any:
    host, status = await _live_host(call), call.body.get("status")
    if "maintenance_mode" in call.body:
        raise Problem(501, NOT_SUPPORTED)
    enabled = status.lower() == "enable"
    await services.set_status(call, host, enabled=enabled, reason=None, forced_down=None)
    return {"host": host.name, "status": "enabled" if enabled else "disabled"}


async def switch_power(call: Call) -> Any:
    await _live_host(call)
    raise Problem(501, NOT_SUPPORTED)


async def _host(call: Call) -> Host:
    """Raises: NotFound."""
    known, name = await locations.known_hosts(call), call.params["host"]
    if name not in known.by_name:
        raise known.not_found(f"Compute host {name} could not be found.")
    return known.by_name[HostName(name)]


async def _live_host(call: Call) -> Host:
    """Raises: NotFound; Invalid: its service is down."""
    host = await _host(call)
    if not host.is_up(call.cloud.clock.now()):
        raise Invalid(f"Compute service of {host.name} is unavailable at this time.")
    return host


def _sum(servers: Iterable[Server]) -> tuple[int, int, int]:
    flavors = [server.flavor for server in servers]
    return (
        sum(flavor.vcpus for flavor in flavors),
        sum(flavor.memory_mib for flavor in flavors),
        sum(flavor.root_gib + flavor.ephemeral_gib for flavor in flavors),
    )


def _resource(host: Host, project: str, cpu: int, memory_mib: int, disk_gib: int) -> dict[str, Any]:
    return {
        "resource": {"host": host.name, "project": project, "cpu": cpu, "memory_mb": memory_mib, "disk_gb": disk_gib}
    }
