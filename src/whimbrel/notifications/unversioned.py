"""Nova's unversioned notifications: names and payloads, as Ceilometer and designate-sink read them.

Each is made of what a versioned one is made of, and sent beside it or instead of it.
Source: Nova 34, nova/notifications/base.py, nova/compute/utils.py and nova/compute/manager.py;
tools/nova_unversioned.txt has the names and fields; a test compares.
"""

import ipaddress
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from whimbrel.domain.server import Server
from whimbrel.notifications.versioned_objects import month_of

RENAMED: Mapping[str, str] = {
    "resize_prep": "resize.prep",
    "resize_finish": "finish_resize",
    "resize_confirm": "resize.confirm",
    "resize_revert": "resize.revert",
    "rebuild_scheduled": "rebuild.scheduled",
    "live_migration_pre": "live_migration.pre",
    "live_migration_post": "live_migration._post",
    "live_migration_post_dest": "live_migration.post.dest",
    "live_migration_rollback": "live_migration._rollback",
    "live_migration_rollback_dest": "live_migration.rollback.dest",
    "live_migration_abort": "live.migration.abort",
    "live_migration_force_complete": "live.migration.force.complete",
}
"""Actions that have another name, underscores included."""

OF_VOLUMES: Mapping[str, str | None] = {
    "instance.volume_attach.start": None,
    "instance.volume_attach.end": "compute.instance.volume.attach",
    "instance.volume_attach.error": None,
    "instance.volume_detach.start": None,
    "instance.volume_detach.end": "compute.instance.volume.detach",
}

VERSIONED_ONLY = ("interface_attach", "interface_detach", "lock", "unlock", "volume_swap")
"""Actions of servers that are newer than this format."""

WITH_ADDRESSES = (
    *("create.end", "rebuild.end", "rescue.start", "rescue.end", "unrescue.start", "unrescue.end"),
    *("resize.start", "resize.end", "resize.confirm.end", "finish_resize.start", "finish_resize.end"),
    *("live_migration.pre.start", "live_migration.pre.end", "live_migration._post.start", "live_migration._post.end"),
    *("live_migration.post.dest.start", "live_migration.post.dest.end"),
    *("live_migration.rollback.dest.start", "live_migration.rollback.dest.end"),
)
"""Events with the addresses of the server; the others have no field for them."""

PREFIX = "compute.instance."


def name_of(event: str) -> str | None:
    """Return the name that an event has in this format; None: it has none. event: its versioned name."""
    subject, _, rest = event.partition(".")
    if subject == "compute_task":
        return event.removesuffix(".error")
    if event in OF_VOLUMES:
        return OF_VOLUMES[event]
    action, *phase = rest.split(".")
    if subject != "instance" or action in VERSIONED_ONLY:
        return None
    return PREFIX + ".".join([RENAMED.get(action, action), *phase])


def publisher(name: str, host: str) -> str:
    """Return the publisher: the service that a notification is about, and the host that sends it."""
    return f"compute_task.{host}" if name.startswith("compute_task.") else f"compute.{host}"


def task(server: Server, name: str, reason: str) -> dict[str, Any]:
    """Return the payload of a server for which there is no host."""
    return {
        "request_spec": {},
        "instance_properties": {},
        "instance_id": server.id,
        "state": server.vm_state,
        "method": name.partition(".")[2],
        "reason": reason,
    }


def instance(server: Server, name: str, zone: str | None) -> dict[str, Any]:
    """Return the fields that all notifications of servers have. zone: its name."""
    flavor, properties = server.flavor, server.image_properties
    data: dict[str, Any] = {
        "tenant_id": server.project_id,
        "user_id": server.user_id,
        "instance_id": server.id,
        "display_name": server.name,
        "reservation_id": server.reservation_id or None,
        "hostname": server.hostname,
        "instance_type": flavor.name,
        "instance_type_id": flavor.flavor_id,
        "instance_flavor_id": flavor.flavor_id,
        "architecture": properties.get("hw_architecture", properties.get("architecture")),
        "memory_mb": flavor.memory_mib,
        "disk_gb": flavor.root_gib + flavor.ephemeral_gib,
        "vcpus": flavor.vcpus,
        "root_gb": flavor.root_gib,
        "ephemeral_gb": flavor.ephemeral_gib,
        "host": server.host,
        "node": server.host,
        "availability_zone": zone,
        "cell_name": "",
        "created_at": str(datetime.fromtimestamp(int(server.created_at), UTC)),
        "terminated_at": time(server.terminated_at),
        "deleted_at": time(server.deleted_at),
        "launched_at": time(server.launched_at),
        "image_ref_url": server.image_id or "",
        "os_type": properties.get("os_type"),
        "kernel_id": "",
        "ramdisk_id": "",
        "state": server.vm_state,
        "state_description": server.task_state or "",
        "progress": "",
        "access_ip_v4": server.access_ipv4 or None,
        "access_ip_v6": server.access_ipv6 or None,
        "image_meta": {"base_image_ref": server.image_id or "", **properties},
        "metadata": server.metadata,
    }
    if name.removeprefix(PREFIX) in WITH_ADDRESSES:
        data["fixed_ips"] = addresses(server)
    return data


def addresses(server: Server) -> list[dict[str, Any]]:
    return [
        {
            "address": fixed.address,
            "type": "fixed",
            "version": ipaddress.ip_address(fixed.address).version,
            "meta": {},
            "floating_ips": [],
            "label": nic.label,
            "vif_mac": nic.mac,
        }
        for nic in server.nics
        for fixed in nic.addresses
    ]


def fault(step: str, message: str) -> dict[str, Any]:
    """Return the fields of a notification of an error: its class, why, and the code that Nova gives all."""
    exception = "NoValidHost" if step == "choose_target" else "Refused"
    return {"exception": exception, "message": message, "code": 500}


def update(server: Server, before: tuple[str | None, str | None], at: float, updates_tasks: bool) -> dict[str, Any]:
    """Return what only an update has. before, updates_tasks: see versioned_objects.of_update."""
    vm_state, task_state = before
    return {
        "old_state": vm_state,
        "state": server.vm_state,
        "old_task_state": task_state if updates_tasks else server.task_state,
        "new_task_state": server.task_state,
        "audit_period_beginning": time(month_of(at)),
        "audit_period_ending": time(at),
        "bandwidth": {},
    }


def exists(begin: float, end: float) -> dict[str, Any]:
    """Return what only the account of a server has: its period."""
    first, last = (str(datetime.fromtimestamp(each, UTC).replace(tzinfo=None)) for each in (begin, end))
    return {"audit_period_beginning": first, "audit_period_ending": last}


def time(at: float | None) -> str:
    """at: seconds since 1970."""
    return "" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
