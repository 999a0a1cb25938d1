"""Schemas of servers: create, list, change.

Source: reference of Nova 34, section 2.1, and its list of the versions at which these schemas change.
"""

from collections.abc import Mapping
from typing import Any

from whimbrel.api.http.schema import Body, Query
from whimbrel.api.schemas.parameters import (
    ANY,
    BOOLEAN,
    DESCRIPTION,
    METADATA,
    NAME,
    NUMBER,
    PATTERN,
    TIME,
    UUID,
    Schema,
    many,
    obj,
    single,
    whole,
    wrapped,
)

MAX_TAGS = 50

TAG: Schema = {"type": "string", "minLength": 1, "maxLength": 60, "pattern": "^[^,/]*$"}
DISK_CONFIG: Schema = {"enum": ["AUTO", "MANUAL"]}
ADDRESS: Schema = {"type": "string", "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]}
ADDRESS_V4: Schema = {"type": "string", "format": "ipv4"}
ADDRESS_V6: Schema = {"type": "string", "format": "ipv6"}
FLAVOR: Schema = {"type": ["string", "integer"], "minLength": 1, "maxLength": 2048}
HOST: Schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[a-zA-Z0-9._-]*$"}
HOSTNAME: Schema = {
    "type": "string",
    "minLength": 2,
    "maxLength": 63,
    "pattern": "^[a-zA-Z0-9]+[a-zA-Z0-9-]*[a-zA-Z0-9]+$",
}
DOMAIN_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[a-zA-Z0-9._-]*$"}
USER_DATA: Schema = {"type": "string", "format": "base-64", "maxLength": 65535}
MANY = whole(1, 2**63 - 1)
PASSWORD: Schema = {"type": "string"}  # of any length, as in Nova
PORT: Schema = {"anyOf": [UUID, {"type": "null"}]}

# Create: the fields of a request, in the order of the versions that added them.

_OLD_DEVICE: Mapping[str, Schema] = {
    "virtual_name": {"type": "string", "maxLength": 255},
    "volume_id": UUID,
    "snapshot_id": UUID,
    "volume_size": whole(1),
    "device_name": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[a-zA-Z0-9._/-]*$"},
    "delete_on_termination": BOOLEAN,
    "no_device": {},
    "connection_info": {"type": "string"},
}

_DEVICE: Mapping[str, Schema] = {
    **_OLD_DEVICE,
    "source_type": {"enum": ["volume", "image", "snapshot", "blank"]},
    "uuid": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[a-zA-Z0-9._-]*$"},
    "image_id": UUID,
    "destination_type": {"enum": ["local", "volume"]},
    "guest_format": {"type": "string", "maxLength": 255},
    "device_type": {"type": "string", "maxLength": 255},
    "disk_bus": {"type": "string", "maxLength": 255},
    "boot_index": {"type": ["integer", "string", "null"], "pattern": "^-?[0-9]{1,18}$"},
}

_HINTS: Schema = {
    "type": "object",
    "properties": {
        "group": UUID,
        "different_host": {"anyOf": [UUID, {"type": "array", "items": UUID}]},
        "same_host": {"anyOf": [{"type": "string"}, {"type": "array", "items": UUID}]},
        "query": {"type": ["string", "object"]},
        "target_cell": NAME,
        "different_cell": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        "build_near_host_ip": ADDRESS,
        "cidr": {"type": "string", "pattern": "^/[0-9a-f.:]+$"},
    },
    "additionalProperties": True,
}

_BASE: Mapping[str, Schema] = {
    "name": NAME,
    "imageRef": {"anyOf": [UUID, {"type": "string", "maxLength": 0}]},
    "flavorRef": FLAVOR,
    "adminPass": PASSWORD,
    "metadata": METADATA,
    "OS-DCF:diskConfig": DISK_CONFIG,
    "accessIPv4": ADDRESS_V4,
    "accessIPv6": ADDRESS_V6,
    "availability_zone": NAME,
    "block_device_mapping": {"type": "array", "items": obj(_OLD_DEVICE)},
    "config_drive": BOOLEAN,
    "key_name": NAME,
    "min_count": MANY,
    "max_count": MANY,
    "return_reservation_id": BOOLEAN,
    "security_groups": {"type": "array", "items": obj({"name": NAME})},
    "user_data": USER_DATA,
}

FILES: Schema = {
    "type": "array",
    "items": obj({"path": {"type": "string"}, "contents": {"type": "string", "format": "base-64"}}),
}

CERTIFICATES: Schema = {
    "type": ["array", "null"],
    "minItems": 1,
    "maxItems": 50,
    "uniqueItems": True,
    "items": {"type": "string", "minLength": 1},
}


def _networks(minor: int) -> Schema:
    """From 2.37 on networks are required; a network's tag exists at 2.32 to 2.36 and again from 2.42."""
    one: dict[str, Schema] = {
        "fixed_ip": ADDRESS,
        "port": PORT,
        "uuid": UUID if minor >= 37 else {"type": "string"},
    }
    if 32 <= minor <= 36 or minor >= 42:
        one["tag"] = TAG
    some: Schema = {"type": "array", "items": obj(one)}
    return {"anyOf": [some, {"enum": ["none", "auto"]}]} if minor >= 37 else some


def _devices(minor: int) -> Schema:
    """A device's tag exists at 2.32 only and again from 2.42; the volume type from 2.67."""
    one = dict(_DEVICE)
    if minor == 32 or minor >= 42:
        one["tag"] = TAG
    if minor >= 67:
        one["volume_type"] = {"type": ["string", "null"], "maxLength": 255}
    return {"type": "array", "items": obj(one)}


# (first minor, key, its schema) of keys that later versions added
_CREATE_SINCE: tuple[tuple[int, str, Schema], ...] = (
    (19, "description", DESCRIPTION),
    (52, "tags", {"type": "array", "items": TAG, "maxItems": MAX_TAGS}),
    (63, "trusted_image_certificates", CERTIFICATES),
    (74, "host", HOST),
    (74, "hypervisor_hostname", HOST),
    (90, "hostname", HOSTNAME),
    (94, "hostname", DOMAIN_NAME),
)


def _create(minor: int) -> Schema:
    keys = {**_BASE, "networks": _networks(minor), "block_device_mapping_v2": _devices(minor)}
    if minor < 57:
        keys["personality"] = FILES
    keys |= {key: schema for since, key, schema in _CREATE_SINCE if minor >= since}
    required = ["name", "flavorRef", *(["networks"] if minor >= 37 else [])]
    return obj(
        {"server": obj(keys, required), "os:scheduler_hints": _HINTS, "OS-SCH-HNT:scheduler_hints": _HINTS},
        ["server"],
    )


CREATE = Body({minor: _create(minor) for minor in (1, 19, 32, 33, 37, 42, 52, 57, 63, 67, 74, 90, 94)})

# Change

_UPDATE: Mapping[str, Schema] = {
    "name": NAME,
    "OS-DCF:diskConfig": DISK_CONFIG,
    "accessIPv4": ADDRESS_V4,
    "accessIPv6": ADDRESS_V6,
}

_UPDATE_SINCE: tuple[tuple[int, str, Schema], ...] = (
    (19, "description", DESCRIPTION),
    (90, "hostname", HOSTNAME),
    (94, "hostname", DOMAIN_NAME),
    (104, "pinned_availability_zone", {"type": ["string", "null"], "minLength": 1, "maxLength": 255}),
)


def _update(minor: int) -> Schema:
    later = {key: schema for since, key, schema in _UPDATE_SINCE if minor >= since}
    return wrapped("server", obj({**_UPDATE, **later}))


UPDATE = Body({minor: _update(minor) for minor in (1, 19, 90, 94, 104)})

# List

SORT_KEYS = (
    *("access_ip_v4", "access_ip_v6", "auto_disk_config", "availability_zone", "config_drive", "created_at"),
    *("display_description", "display_name", "host", "hostname", "image_ref", "instance_type_id", "kernel_id"),
    *("key_name", "launch_index", "launched_at", "locked_by", "node", "power_state", "progress", "project_id"),
    *("ramdisk_id", "root_device_name", "task_state", "terminated_at", "updated_at", "user_id", "uuid", "vm_state"),
)
IGNORED_SORT_KEYS = (
    *("architecture", "cell_name", "cleaned", "default_ephemeral_device", "default_swap_device", "deleted"),
    *("deleted_at", "disable_terminate", "ephemeral_gb", "ephemeral_key_uuid", "id", "key_data", "launched_on"),
    *("locked", "memory_mb", "os_type", "reservation_id", "root_gb", "shutdown_terminate", "user_data", "vcpus"),
    "vm_mode",
)

_LIST: Mapping[str, Schema] = {
    **{
        key: many(ANY)
        for key in (
            *("user_id", "project_id", "tenant_id", "launch_index", "image_ref", "image", "vm_state", "task_state"),
            *("host", "uuid", "all_tenants", "soft_deleted", "deleted", "status", "sort_dir"),
            # Not filters, but fields of Nova's records: rejected explicitly.
            *("block_device_mapping", "services", "metadata", "system_metadata", "info_cache", "security_groups"),
            "pci_devices",
        )
    },
    **{
        key: many(PATTERN)
        for key in (
            *("kernel_id", "ramdisk_id", "hostname", "key_name", "power_state", "node", "flavor", "reservation_id"),
            *("launched_at", "terminated_at", "availability_zone", "name", "display_name", "description"),
            *("display_description", "locked_by", "root_device_name", "config_drive", "access_ip_v4"),
            *("access_ip_v6", "auto_disk_config", "progress", "ip", "ip6", "created_at"),
        )
    },
    "sort_key": many({"enum": [*SORT_KEYS, *IGNORED_SORT_KEYS]}),
    "changes-since": many(TIME),
    "limit": many(NUMBER),
    "marker": many(ANY),
}

_LIST_SINCE: tuple[tuple[int, Mapping[str, Schema]], ...] = (
    (26, {key: many(PATTERN) for key in ("tags", "tags-any", "not-tags", "not-tags-any")}),
    (66, {"changes-before": many(TIME)}),
    (73, {"locked": many(ANY)}),
    (75, {"sort_key": many({"enum": [*SORT_KEYS, "locked"]})}),
)


def _list(minor: int) -> Mapping[str, Schema]:
    keys: dict[str, Any] = dict(_LIST)
    for since, more in _LIST_SINCE:
        if minor >= since:
            keys |= more
    return keys


LIST = Query(
    {minor: _list(minor) for minor in (1, 26, 66, 73, 75)},
    strict_from=75,
    patterns={"^_": single(ANY)},
)
