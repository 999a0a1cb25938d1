"""Representations of servers, by microversion.

Invariant: they depend on the record, the version and the policy alone.

Source: reference of Nova 34, sections 1.0.1 and 2.1.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha224
from types import MappingProxyType
from typing import Any

import msgspec

from whimbrel.api.http import times
from whimbrel.api.http.call import Call
from whimbrel.api.views import locations, nic_addresses
from whimbrel.domain import server_states
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.guest import instance_name
from whimbrel.domain.host import Host
from whimbrel.domain.ids import HostName, ServerId
from whimbrel.domain.server import Server
from whimbrel.guest_data import disk_names

WITH_PROGRESS = frozenset({"ACTIVE", "BUILD", "REBUILD", "RESIZE", "VERIFY_RESIZE", "MIGRATING"})
NO_PROGRESS: Mapping[ServerId, int] = MappingProxyType({})
WITH_FAULT = frozenset({"ERROR", "DELETED"})


class Sight(msgspec.Struct, frozen=True):
    """What the requester may see of a server beyond the public fields."""

    attributes: bool  # OS-EXT-SRV-ATTR:*
    host_status: bool
    unknown_host: bool  # host_status where it is UNKNOWN
    extra_specs: bool
    details: bool  # of faults that are internal errors
    hosts: Mapping[HostName, Host]
    zones: Mapping[str, str]  # their names
    groups: Sequence[str] = ()  # of the server, if it is shown alone
    progress: Mapping[ServerId, int] = {}  # percent of servers that are being migrated live; missing: not begun


def sight(
    call: Call,
    hosts: Mapping[HostName, Host],
    zones: Mapping[str, str],
    target: Mapping[str, str] | None = None,
    progress: Mapping[ServerId, int] = NO_PROGRESS,
) -> Sight:
    """Check the policy once for all servers of an answer. target: of one server; None: the requester's project."""
    return Sight(
        attributes=call.may("os_compute_api:os-extended-server-attributes", target),
        host_status=call.minor >= 16 and call.may("os_compute_api:servers:show:host_status", target),
        unknown_host=call.minor >= 16 and call.may("os_compute_api:servers:show:host_status:unknown-only", target),
        extra_specs=call.minor >= 47 and call.may("os_compute_api:servers:show:flavor-extra-specs", target),
        details=call.is_admin,
        hosts=hosts,
        zones=zones,
        progress=progress,
    )


def brief(call: Call, server: Server) -> dict[str, Any]:
    """Return a server as GET /servers shows it."""
    return {"id": server.id, "name": server.name, "links": call.links("servers", server.id)}


def full(call: Call, server: Server, may: Sight, *, alone: bool) -> dict[str, Any]:
    """Return a server with all fields. alone: not in a list."""
    shown = _core(call, server, may, alone=alone)
    shown |= _extended(call, server, may)
    return shown


def changed(call: Call, server: Server, may: Sight) -> dict[str, Any]:
    """Return a server as PUT shows it: below 2.75 with fewer fields than GET."""
    if call.minor >= 75:
        return full(call, server, may, alone=True)
    addresses = {label: nic_addresses.short(found) for label, found in nic_addresses.by_label(server).items()}
    return _core(call, server, may, alone=True) | {"addresses": addresses}


def _core(call: Call, server: Server, may: Sight, *, alone: bool) -> dict[str, Any]:
    minor = call.minor
    status = server_states.status(server.vm_state, server.task_state)
    shown: dict[str, Any] = {
        "id": server.id,
        "name": server.name,
        "status": status,
        "tenant_id": server.project_id,
        "user_id": server.user_id,
        "metadata": server.metadata,
        "hostId": host_id(server.project_id, server.host),
        "image": image(call, server.image_id, server.image_properties),
        "flavor": flavor(call, server.flavor, may),
        "created": times.with_zone(server.created_at),
        "updated": times.with_zone(server.updated_at),
        "addresses": {label: nic_addresses.full(found) for label, found in nic_addresses.by_label(server).items()},
        "accessIPv4": server.access_ipv4,
        "accessIPv6": server.access_ipv6,
        "links": call.links("servers", server.id),
        "OS-DCF:diskConfig": server.disk_config,
    }
    if status in WITH_PROGRESS:
        shown["progress"] = may.progress.get(server.id, 0)
    if status in WITH_FAULT and server.fault:
        shown["fault"] = _fault(server.fault, may)
    if minor >= 9:
        shown["locked"] = server.locked_by is not None
    if minor >= 19:
        shown["description"] = server.description
    if minor >= 26:
        shown["tags"] = server.tags
    if minor >= 63:
        shown["trusted_image_certificates"] = None
    if minor >= 71 and alone:
        shown["server_groups"] = list(may.groups)
    if minor >= 73:
        shown["locked_reason"] = server.locked_reason
    if minor >= 96:
        shown["pinned_availability_zone"] = _zone(server.spec.zone_pin, may)
    if minor >= 100:
        shown["scheduler_hints"] = server.spec.listed_hints
    return shown


def _extended(call: Call, server: Server, may: Sight) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "OS-EXT-AZ:availability_zone": _zone(server.zone, may) or "",
        "config_drive": "True" if server.config_drive else "",
        "key_name": server.key_name,
        "OS-SRV-USG:launched_at": times.with_fraction(server.launched_at),
        "OS-SRV-USG:terminated_at": times.with_fraction(server.terminated_at),
        "OS-EXT-STS:task_state": server.task_state,
        "OS-EXT-STS:vm_state": server.vm_state,
        "OS-EXT-STS:power_state": server.power_state,
        "os-extended-volumes:volumes_attached": _volumes(call, server),
    }
    if server.nics and not server.has_no_security_groups:  # those of its ports: it has none before these are there
        shown["security_groups"] = [{"name": name} for name in server.security_group_names or ("default",)]
    if may.attributes:
        shown |= _attributes(call, server)
    elif call.minor >= 90:
        shown["OS-EXT-SRV-ATTR:hostname"] = server.hostname
    if call.minor >= 16:
        status = host_status(server, may.hosts, call.cloud.clock.now())
        if may.host_status or (may.unknown_host and status == "UNKNOWN"):
            shown["host_status"] = status
    return shown


def _zone(zone: str | None, may: Sight) -> str | None:
    return None if zone is None else locations.zone_name(may.zones, zone)


def _attributes(call: Call, server: Server) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "OS-EXT-SRV-ATTR:host": server.host,
        "OS-EXT-SRV-ATTR:instance_name": instance_name(server.id),
        "OS-EXT-SRV-ATTR:hypervisor_hostname": server.host,
    }
    if call.minor >= 3:
        shown |= {
            "OS-EXT-SRV-ATTR:reservation_id": server.reservation_id,
            "OS-EXT-SRV-ATTR:launch_index": server.launch_index,
            "OS-EXT-SRV-ATTR:hostname": server.hostname,
            "OS-EXT-SRV-ATTR:kernel_id": "",
            "OS-EXT-SRV-ATTR:ramdisk_id": "",
            "OS-EXT-SRV-ATTR:root_device_name": root_device(server),
            "OS-EXT-SRV-ATTR:user_data": server.user_data,
        }
    return shown


def root_device(server: Server) -> str | None:
    """Return the name of the boot disk, as soon as it has one."""
    if server.launched_at is None:
        return None
    return disk_names.of_root(server)


def _volumes(call: Call, server: Server) -> list[dict[str, Any]]:
    if call.minor < 3:
        return [{"id": device.volume_id} for device in server.volumes]
    return [
        {"id": device.volume_id, "delete_on_termination": device.delete_on_termination} for device in server.volumes
    ]


@lru_cache(maxsize=4096)
def host_id(project_id: str, host: str | None) -> str:
    """Return a hash of a host's name, by which servers of one project on the same host can be recognised."""
    return sha224((project_id + host).encode()).hexdigest() if host else ""


def host_status(server: Server, hosts: Mapping[HostName, Host], now: float) -> str:
    """Return the state of its host: UP, UNKNOWN, DOWN (declared), MAINTENANCE, or "" without a host."""
    host = hosts.get(server.host) if server.host else None
    if host is None:
        return ""
    if host.forced_down:
        return "DOWN"
    if not host.enabled:
        return "MAINTENANCE"
    return "UP" if host.is_up(now) else "UNKNOWN"


def image(call: Call, image_id: str | None, properties: Mapping[str, str]) -> Any:
    if not image_id:
        return ""
    link = {"rel": "bookmark", "href": f"{call.bookmark_url}/images/{image_id}"}
    shown: dict[str, Any] = {"id": image_id, "links": [link]}
    if call.minor >= 98:
        shown["properties"] = properties
    return shown


def flavor(call: Call, flavor: Flavor, may: Sight) -> dict[str, Any]:
    if call.minor < 47:
        link = {"rel": "bookmark", "href": f"{call.bookmark_url}/flavors/{flavor.flavor_id}"}
        return {"id": flavor.flavor_id, "links": [link]}
    shown: dict[str, Any] = {
        "vcpus": flavor.vcpus,
        "ram": flavor.memory_mib,
        "disk": flavor.root_gib,
        "ephemeral": flavor.ephemeral_gib,
        "swap": flavor.swap_mib,
        "original_name": flavor.name,
    }
    if may.extra_specs:
        shown["extra_specs"] = flavor.extra_specs
    return shown


def _fault(fault: Mapping[str, Any], may: Sight) -> dict[str, Any]:
    shown = {
        "code": fault["code"],
        "created": times.with_zone(fault["created"]),
        "message": fault["message"],
    }
    if fault.get("details") and (may.details or fault["code"] != 500):
        shown["details"] = fault["details"]
    return shown
