"""Information about the service: zones, volume hosts, pools, extensions, versions."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from whimbrel.domain.errors import Invalid, NotFound
from whimbrel.embedded.volume.fields import flag
from whimbrel.embedded.volume.microversions import MOST
from whimbrel.embedded.volume.queries import SNAPSHOT_COLUMNS, VOLUME_COLUMNS
from whimbrel.embedded.volume.request import Call
from whimbrel.embedded.volume.types import type_of_path
from whimbrel.embedded.volume.views import BACK_END, host_of, moment
from whimbrel.http.problem import Problem
from whimbrel.http.reply import Reply
from whimbrel.http.request import Request

BINARY = "cinder-volume"
UPDATED = "2026-01-01T00:00:00Z"

NOT_SUPPORTED = (
    ("/os-volume-transfer", "transfers", 0, "Transfers of volumes"),
    ("/volume-transfers", "transfers", 55, "Transfers of volumes"),
    ("/groups", "groups", 13, "Groups of volumes"),
    ("/group_types", "group_types", 11, "Groups of volumes"),
    ("/group_snapshots", "group_snapshots", 14, "Groups of volumes"),
    ("/backups", "backups", 0, "Backups of volumes"),
    ("/qos-specs", "qos_specs", 0, "QoS specifications of volume types"),
    ("/messages", "messages", 3, "Messages"),
)
"""Path, kind, microversion and name of what is not there: Horizon asks for it with each list of volumes, and
openstacksdk for backups when it cleans up a project. Cinder lists them, too, without the services that make them."""

DRIVER = {
    "volume_backend_name": BACK_END,
    "storage_protocol": "nbd",
    "vendor_name": "Whimbrel",
    "driver_version": "1",
}

FILTERS: Mapping[str, Iterable[str]] = {
    "volume": {*VOLUME_COLUMNS, "metadata"},
    "snapshot": SNAPSHOT_COLUMNS,
    "attachment": ("volume_id", "instance_id", "status", "attach_status"),
}

EXTENSIONS = {
    "OS-SCH-HNT": "SchedulerHints",
    "os-admin-actions": "AdminActions",
    "os-availability-zone": "AvailabilityZones",
    "os-extended-snapshot-attributes": "ExtendedSnapshotAttributes",
    "os-quota-class-sets": "QuotaClasses",
    "os-quota-sets": "Quotas",
    "os-services": "Services",
    "os-types-extra-specs": "TypesExtraSpecs",
    "os-types-manage": "TypesManage",
    "os-used-limits": "UsedLimits",
    "os-vol-host-attr": "VolumeHostAttribute",
    "os-vol-image-meta": "VolumeImageMetadata",
    "os-vol-tenant-attr": "VolumeTenantAttribute",
    "os-volume-actions": "VolumeActions",
    "os-volume-type-access": "VolumeTypeAccess",
    "scheduler-stats": "Scheduler_stats",
}


async def list_zones(call: Call) -> Reply:
    zones = [{"zoneName": zone, "zoneState": {"available": True}} for zone in await call.service.zones()]
    return Reply({"availabilityZoneInfo": zones})


async def list_services(call: Call) -> Reply:
    """List the volume hosts: one for each zone, all of them this process."""
    query, now = call.request.query_params, call.service.clock.now()
    found: list[dict[str, Any]] = []
    for zone in await call.service.zones():
        shown: dict[str, Any] = {
            "binary": BINARY,
            "host": host_of(zone),
            "zone": zone,
            "status": "enabled",
            "state": "up",
            "updated_at": moment(now),
            "disabled_reason": None,
            "replication_status": "disabled",
            "frozen": False,
            "active_backend_id": None,
        }
        if call.minor >= 7:
            shown["cluster"] = None
        if call.minor >= 49:
            shown["backend_state"] = "up"
        found.append(shown)
    if binary := query.get("binary"):
        found = [each for each in found if each["binary"] == binary]
    if host := query.get("host"):  # with or without its back end
        found = [each for each in found if host in (each["host"], each["host"].partition("@")[0])]
    return Reply({"services": found})


async def refuse_change(call: Call) -> Reply:
    """Refuse to disable, freeze or fail over a volume host: all of them are this process.

    Raises: NotFound: to enable or disable one that does not exist. Invalid.
    """
    action, sent = call.path("action"), await call.body(dict[str, Any])
    hosts = [host_of(zone) for zone in await call.service.zones()]
    if action in ("enable", "disable") and (sent.get("host") not in hosts or sent.get("binary", BINARY) != BINARY):
        raise NotFound(
            f"Service {str(sent.get('binary'))[:50]} could not be found on host {str(sent.get('host'))[:50]}."
        )
    raise Invalid(f"{action[:50]} is not supported: volume hosts here are zones of one process.")


async def list_pools(call: Call) -> Reply:
    """List the pools: one for each zone, all of them on the same disk."""
    detail = flag(call.request.query_params.get("detail", "false"), "detail")
    total, free = call.service.files.free_gib()
    pools: list[dict[str, Any]] = []
    for zone in await call.service.zones():
        pool: dict[str, Any] = {"name": f"{host_of(zone)}#{BACK_END}"}
        if detail:
            pool["capabilities"] = {
                **DRIVER,
                "total_capacity_gb": round(total, 2),
                "free_capacity_gb": round(free, 2),
                "allocated_capacity_gb": round(total - free, 2),
                "reserved_percentage": 0,
                "max_over_subscription_ratio": "20.0",
                "thin_provisioning_support": True,
                "multiattach": True,
            }
        pools.append(pool)
    return Reply({"pools": pools})


async def show_capabilities(call: Call) -> Reply:
    """Show a volume host: it has no properties that a volume type could ask for."""
    host = call.path("host")
    if host not in [host_of(zone) for zone in await call.service.zones()]:
        raise NotFound(f"Service {BINARY} could not be found on host {host[:50]}.")
    nothing = dict.fromkeys(("pool_name", "display_name", "description", "visibility"))
    shown = {"namespace": f"OS::Storage::Capabilities::{host}", **DRIVER, **nothing}
    return Reply({**shown, "replication_targets": [], "properties": {}})


async def list_filters(call: Call) -> Reply:
    """List the filters of lists."""
    wanted = call.request.query_params.get("resource")
    return Reply(
        {
            "resource_filters": [
                {"resource": resource, "filters": sorted(filters)}
                for resource, filters in FILTERS.items()
                if wanted in (None, resource)
            ]
        }
    )


def list_none(kind: str) -> Callable[[Call], Awaitable[Reply]]:
    """Return a handler that lists objects of a kind that this service cannot create: none."""

    async def listed(call: Call) -> Reply:
        return Reply({kind: []})

    return listed


def refuse(what: str) -> Callable[[Call], Awaitable[Reply]]:
    """Return a handler that refuses to create what this service does not have."""

    async def refused(call: Call) -> Reply:
        raise Invalid(f"{what} are not supported by this volume service.")

    return refused


async def show_encryption(call: Call) -> Reply:
    """Show the encryption of a type: none, as Cinder shows it."""
    await type_of_path(call)
    return Reply({})


async def list_extensions(call: Call) -> Reply:
    return Reply({"extensions": [_extension(alias) for alias in EXTENSIONS]})


async def show_extension(call: Call) -> Reply:
    alias = call.path("alias")
    if alias not in EXTENSIONS:
        raise Problem(404, f"There is no extension {alias[:50]}.")
    return Reply({"extension": _extension(alias)})


def _extension(alias: str) -> dict[str, Any]:
    return {
        "alias": alias,
        "name": EXTENSIONS[alias],
        "description": EXTENSIONS[alias],
        "links": [],
        "updated": UPDATED,
    }


async def show_versions(request: Request) -> Reply:
    """List the versions; needs no token."""
    return Reply({"versions": [_version(request)]}, 300)


async def show_version(request: Request) -> Reply:
    return Reply({"versions": [_version(request)]})


def _version(request: Request) -> dict[str, Any]:
    return {
        "id": "v3.0",
        "status": "CURRENT",
        "version": f"3.{MOST}",
        "min_version": "3.0",
        "updated": UPDATED,
        "links": [{"rel": "self", "href": f"{request.root_url}/v3/"}],
        "media-types": [
            {"base": "application/json", "type": "application/vnd.openstack.volume+json;version=3"},
        ],
    }
