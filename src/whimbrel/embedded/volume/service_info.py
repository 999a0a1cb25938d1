"""Information about the service: zones, volume hosts, pools, extensions, versions."""

from collections.abc import Awaitable, Callable
from typing import Any

from whimbrel.domain.errors import Invalid, NotFound
from whimbrel.embedded.volume.fields import flag
from whimbrel.embedded.volume.microversions import MOST
from whimbrel.embedded.volume.request import Ask
from whimbrel.embedded.volume.views import BACK_END, host_of, moment
from whimbrel.http.problem import Problem
from whimbrel.http.reply import Reply
from whimbrel.http.request import Request

BINARY = "cinder-volume"
UPDATED = "2026-01-01T00:00:00Z"

NOT_SUPPORTED = (
    ("/os-volume-transfer", "transfers", 0),
    ("/volume-transfers", "transfers", 55),
    ("/groups", "groups", 13),
    ("/backups", "backups", 0),
)
"""Path, kind and microversion of what is not there: Horizon asks for it with each list of volumes, and openstacksdk for
backups when it cleans up a project. Cinder lists them, too, without the services that make them."""

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


async def list_zones(ask: Ask) -> Reply:
    zones = [{"zoneName": zone, "zoneState": {"available": True}} for zone in await ask.service.zones()]
    return Reply({"availabilityZoneInfo": zones})


async def list_services(ask: Ask) -> Reply:
    """List the volume hosts: one for each zone, all of them this process."""
    query, now = ask.request.query_params, ask.service.clock.now()
    found: list[dict[str, Any]] = []
    for zone in await ask.service.zones():
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
        if ask.minor >= 7:
            shown["cluster"] = None
        if ask.minor >= 49:
            shown["backend_state"] = "up"
        found.append(shown)
    if binary := query.get("binary"):
        found = [each for each in found if each["binary"] == binary]
    if host := query.get("host"):  # with or without its back end
        found = [each for each in found if host in (each["host"], each["host"].partition("@")[0])]
    return Reply({"services": found})


async def refuse_change(ask: Ask) -> Reply:
    """Refuse to disable, freeze or fail over a volume host: all of them are this process.

    Raises: NotFound: to enable or disable one that does not exist. Invalid.
    """
    action, sent = ask.path("action"), await ask.body(dict[str, Any])
    hosts = [host_of(zone) for zone in await ask.service.zones()]
    if action in ("enable", "disable") and (sent.get("host") not in hosts or sent.get("binary", BINARY) != BINARY):
        raise NotFound(
            f"Service {str(sent.get('binary'))[:50]} could not be found on host {str(sent.get('host'))[:50]}."
        )
    raise Invalid(f"{action[:50]} is not supported: volume hosts here are zones of one process.")


async def list_pools(ask: Ask) -> Reply:
    """List the pools: one for each zone, all of them on the same disk."""
    detail = flag(ask.request.query_params.get("detail", "false"), "detail")
    total, free = ask.service.files.free_gib()
    pools: list[dict[str, Any]] = []
    for zone in await ask.service.zones():
        pool: dict[str, Any] = {"name": f"{host_of(zone)}#{BACK_END}"}
        if detail:
            pool["capabilities"] = {
                "volume_backend_name": BACK_END,
                "storage_protocol": "nbd",
                "vendor_name": "Whimbrel",
                "driver_version": "1",
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


def list_none(kind: str) -> Callable[[Ask], Awaitable[Reply]]:
    """Return a handler that lists objects of a kind that this service cannot create: none."""

    async def listed(ask: Ask) -> Reply:
        return Reply({kind: []})

    return listed


async def list_extensions(ask: Ask) -> Reply:
    return Reply({"extensions": [_extension(alias) for alias in EXTENSIONS]})


async def show_extension(ask: Ask) -> Reply:
    alias = ask.path("alias")
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
