"""The payloads of Nova's versioned notifications: names, versions and fields of its objects.

Source: Nova 34, nova/notifications/objects. tools/nova_notifications.txt has the fields; a test compares.
"""

import ipaddress
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from whimbrel.domain.flavor import Flavor
from whimbrel.domain.guest import instance_name
from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import BlockDevice, Nic, tap_name

VERSIONS: Mapping[str, str] = {
    "InstanceActionPayload": "1.9",
    "InstanceActionRebuildPayload": "1.10",
    "InstanceActionRescuePayload": "1.4",
    "InstanceActionResizePrepPayload": "1.4",
    "InstanceActionSnapshotPayload": "1.10",
    "InstanceActionVolumePayload": "1.7",
    "InstanceActionVolumeSwapPayload": "1.9",
    "InstanceCreatePayload": "1.13",
    "InstanceExistsPayload": "2.1",
    "InstanceUpdatePayload": "2.1",
    "AggregateCachePayload": "1.0",
    "AggregatePayload": "1.1",
    "InstanceStateUpdatePayload": "1.0",
    "ServerGroupPayload": "1.1",
    "ServiceStatusPayload": "1.1",
    "AuditPeriodPayload": "1.0",
    "BlockDevicePayload": "1.0",
    "ComputeTaskPayload": "1.0",
    "ExceptionPayload": "1.1",
    "FlavorPayload": "1.4",
    "IpPayload": "1.0",
    "KeypairPayload": "1.0",
    "MetricPayload": "1.0",
    "MetricsPayload": "1.0",
    "RequestSpecPayload": "1.1",
}

POWER = {0: "pending", 1: "running", 3: "paused", 4: "shutdown"}
"""Nova's number of a power state -> its name in notifications."""


def versioned(name: str, data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "nova_object.name": name,
        "nova_object.namespace": "nova",
        "nova_object.version": VERSIONS[name],
        "nova_object.data": dict(data),
    }


def time(at: float | None) -> str | None:
    """at: seconds since 1970."""
    return None if at is None else datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def flavor(of: Flavor) -> dict[str, Any]:
    return versioned(
        "FlavorPayload",
        {
            "flavorid": of.flavor_id,
            "name": of.name,
            "vcpus": of.vcpus,
            "memory_mb": of.memory_mib,
            "root_gb": of.root_gib,
            "ephemeral_gb": of.ephemeral_gib,
            "swap": of.swap_mib,
            "rxtx_factor": of.rxtx_factor,
            "is_public": of.is_public,
            "disabled": of.disabled,
            "description": of.description,
            "extra_specs": of.extra_specs,
            "projects": None,
            "vcpu_weight": 0,
        },
    )


def addresses(nic: Nic) -> list[dict[str, Any]]:
    """Return an object for each fixed address of a nic."""
    return [
        versioned(
            "IpPayload",
            {
                "label": nic.label,
                "mac": nic.mac,
                "meta": {},
                "port_uuid": nic.port_id,
                "version": ipaddress.ip_address(fixed.address).version,
                "address": fixed.address,
                "device_name": tap_name(nic.port_id),
            },
        )
        for fixed in nic.addresses
    ]


def block_device(device: BlockDevice) -> dict[str, Any]:
    return versioned(
        "BlockDevicePayload",
        {
            "volume_id": device.volume_id,
            "device_name": device.device,
            "boot_index": device.boot_index,
            "delete_on_termination": device.delete_on_termination,
            "tag": device.tag,
        },
    )


def exception(step: str, message: str) -> dict[str, Any]:
    """Return why something failed. Nova names its exceptions here; runs know the step and a sentence."""
    return versioned(
        "ExceptionPayload",
        {
            "module_name": "whimbrel",
            "function_name": step,
            "exception": "NoValidHost" if step == "choose_target" else "Refused",
            "exception_message": message,
            "traceback": "",
        },
    )


def keypair(server: Server, fingerprint: str) -> dict[str, Any]:
    """fingerprint: "" if the user has deleted the keypair since."""
    data = {
        "user_id": server.user_id,
        "name": server.key_name,
        "type": "ssh",
        "fingerprint": fingerprint,
        "public_key": server.key_data,
    }
    return versioned("KeypairPayload", data)


def instance(server: Server, zone: str | None, block_devices: bool) -> dict[str, Any]:
    """Return the fields that all payloads of servers have, but those of the request. zone: its name."""
    properties = server.image_properties
    return {
        "uuid": server.id,
        "user_id": server.user_id,
        "tenant_id": server.project_id,
        "reservation_id": server.reservation_id or None,
        "display_name": server.name,
        "display_description": server.description or server.name,
        "host_name": server.hostname,
        "host": server.host,
        "node": server.host,
        "os_type": properties.get("os_type"),
        "architecture": properties.get("hw_architecture", properties.get("architecture")),
        "availability_zone": zone,
        "flavor": flavor(server.flavor),
        "image_uuid": server.image_id or "",
        "key_name": server.key_name,
        "kernel_id": "",
        "ramdisk_id": "",
        "created_at": time(server.created_at),
        "launched_at": time(server.launched_at),
        "terminated_at": time(server.terminated_at),
        "deleted_at": time(server.deleted_at),
        "updated_at": time(server.updated_at),
        "state": server.vm_state,
        "power_state": POWER[server.power_state],
        "task_state": server.task_state,
        "progress": 0,
        "ip_addresses": [each for nic in server.nics for each in addresses(nic)],
        "block_devices": [block_device(each) for each in server.volumes] if block_devices else None,
        "metadata": server.metadata,
        "locked": server.locked_by is not None,
        "locked_reason": server.locked_reason,
        "auto_disk_config": server.disk_config,
        "shares": [],
    }


def of_create(server: Server, fingerprint: str) -> dict[str, Any]:
    return {
        "keypairs": [keypair(server, fingerprint)] if server.key_name and server.key_data else [],
        "tags": server.tags,
        "trusted_image_certificates": None,
        "instance_name": instance_name(server.id),
    }


def of_update(
    server: Server, before: tuple[str | None, str | None], at: float, updates_tasks: bool = True
) -> dict[str, Any]:
    """before: vm_state and task_state. updates_tasks: False: task states are shown as they are, in both fields."""
    vm_state, task_state = before
    states = {
        "old_state": vm_state,
        "state": server.vm_state,
        "old_task_state": task_state if updates_tasks else server.task_state,
        "new_task_state": server.task_state,
    }
    return {
        "state_update": versioned("InstanceStateUpdatePayload", states),
        **audit_period(month_of(at), at),
        "old_display_name": None,
        "tags": server.tags,
    }


def request_spec(server: Server, new_flavor: Flavor, zone: str | None) -> dict[str, Any]:
    """Return what a host was searched for. zone: the requested one. What is None may be in Nova's object."""
    names = server.security_group_names or (() if server.has_no_security_groups else ("default",))
    data = {
        "instance_uuid": server.id,
        "project_id": server.project_id,
        "user_id": server.user_id,
        "availability_zone": zone,
        "flavor": flavor(new_flavor),
        "num_instances": 1,
        "scheduler_hints": server.spec.listed_hints,
        "security_groups": list(names),
        **dict.fromkeys(("force_hosts", "force_nodes", "ignore_hosts", "image", "instance_group")),
        **dict.fromkeys(("numa_topology", "pci_requests", "requested_destination", "retry")),
    }
    return versioned("RequestSpecPayload", data)


def month_of(at: float) -> float:
    """Return when the month began: Nova's default for the period of an account."""
    return datetime.fromtimestamp(at, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0).timestamp()


def audit_period(begin: float, end: float) -> dict[str, Any]:
    period = {"audit_period_beginning": time(begin), "audit_period_ending": time(end)}
    return {"audit_period": versioned("AuditPeriodPayload", period)}
