"""POST /servers: parses the request, checks all that can be checked before anything is written, and creates the
servers.

Invariant: a request that cannot be fulfilled exactly is refused with the reason, never fulfilled in part.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from whimbrel.api.catalog import server_groups
from whimbrel.api.http.call import Call
from whimbrel.api.schemas.parameters import truth
from whimbrel.api.servers import flavor_and_image, requested_nics, requested_volumes
from whimbrel.api.views import locations
from whimbrel.domain import quota_excess
from whimbrel.domain.errors import Invalid, NotFound, OverQuota
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import HostName, ServerId
from whimbrel.domain.ip_addresses import canonical_or_empty
from whimbrel.domain.quota_excess import Increase
from whimbrel.domain.server import RequestSpec, Server
from whimbrel.http.reply import Reply
from whimbrel.moves import quota_checks
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import create as creates
from whimbrel.servers.lifecycle import delete

UNAVAILABLE = "The requested availability zone is not available"
ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
MOST_AT_ONCE = 9999
"""The limit of servers of one request, where no quota sets one."""


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server may be: the id of its zone pin, and the host it must start on."""

    zone_pin: str | None = None
    host: HostName | None = None


async def create(call: Call) -> Reply:
    requested: dict[str, Any] = call.body["server"]
    check_rest(requested)
    several = int(requested.get("max_count", requested.get("min_count", 1))) > 1
    if several and "hostname" in requested:
        raise Invalid("Unable to allocate a single hostname to multiple instances")
    flavor = await flavor_and_image.flavor(call, requested["flavorRef"])
    disks = await requested_volumes.read(call, requested, flavor, several=several)
    nics = await requested_nics.read(call, requested, several=several)
    groups = await requested_nics.security_groups(
        call, [group["name"] for group in requested.get("security_groups", []) if group.get("name")]
    )
    await check_metadata(call, requested)
    await server_groups.check_requested(call, _hints(call))
    key_data = await public_key(call, requested)
    destination = await beside_volumes(call, await find_destination(call, requested), disks)
    count = await how_many(call, requested, flavor)
    config_drive = has_config_drive(call, requested, disks.root_properties)
    root_image_id = disks.image.id if disks.image else ""
    disk_config = flavor_and_image.disk_config(requested.get("OS-DCF:diskConfig"), root_image_id, disks.root_properties)
    note = guest_data_note(call, requested, config_drive=config_drive)
    reservation_id = "r-" + _short(call.cloud.ids.uuid())
    server_id = ServerId(call.cloud.ids.uuid())
    first = Server(
        id=server_id,
        project_id=call.principal.project_id,
        user_id=call.principal.user_id,
        name=requested["name"],
        flavor=flavor,
        image_id=disks.image.id if disks.image else None,
        spec=RequestSpec(zone_pin=destination.zone_pin, hints=_hints(call)),
        created_at=call.cloud.clock.now(),
        updated_at=call.cloud.clock.now(),
        zone=destination.zone_pin,
        description=requested.get("description") if call.minor >= 19 else requested["name"],
        hostname=requested.get("hostname") or _hostname(requested["name"], server_id),
        key_name=requested.get("key_name"),
        key_data=key_data,
        user_data=requested.get("user_data"),
        config_drive=config_drive,
        access_ipv4=canonical_or_empty(requested.get("accessIPv4", "")),
        access_ipv6=canonical_or_empty(requested.get("accessIPv6", "")),
        disk_config=disk_config,
        metadata=requested.get("metadata", {}),
        tags=list(dict.fromkeys(requested.get("tags", []))),
        image_properties=disks.root_properties,
        heeds_hardware=True,
        root_bus=disks.root_bus,
        requested_nics=nics,
        requested_volumes=disks.volumes,
        security_groups=tuple(groups),
        security_group_names=tuple(groups.values()),
        reservation_id=reservation_id,
        admin_pass=requested.get("adminPass") or password(call.cloud.ids.uuid()),
        random_seed=call.cloud.ids.uuid(),
        boot_roles=",".join(sorted(call.principal.roles)),
    )
    await _accept(call, _numbered(call, first, count), destination.host, note)
    return _reply(call, requested, first)


async def _accept(call: Call, servers: list[Server], host: HostName | None, note: str | None) -> None:
    """Create all servers or none: if the quota is exhausted meanwhile, those already begun are rolled back."""
    makes_volumes = any(volume.volume_id is None for volume in servers[0].requested_volumes)
    requester = call.granting_requester if makes_volumes else call.requester
    try:
        await creates.accept(call.cloud, call.engine, requester, servers, host, note)
    except OverQuota:
        for server in servers[:-1]:
            await _delete_accepted(call, server)
        raise


async def _delete_accepted(call: Call, server: Server) -> None:
    try:
        begun = await lookup.find(call.cloud, server.id)
    except NotFound:
        return
    await delete.accept(call.cloud, call.engine, call.requester, begun)


def _reply(call: Call, requested: dict[str, Any], first: Server) -> Reply:
    if truth(requested.get("return_reservation_id", False)):
        return Reply(body={"reservation_id": first.reservation_id})
    links = call.links("servers", first.id)
    shown = {
        "id": first.id,
        "links": links,
        "OS-DCF:diskConfig": first.disk_config,
        "security_groups": requested.get("security_groups") or [{"name": "default"}],
        "adminPass": first.admin_pass,
    }
    return Reply(body={"server": shown}, headers={"Location": links[0]["href"]})


# Unsupported fields


def check_rest(requested: dict[str, Any]) -> None:
    """Raises: Invalid: a field that this cloud does not support."""
    if requested.get("personality"):
        raise Invalid("Files cannot be injected: use user_data instead of personality.")
    if requested.get("trusted_image_certificates"):
        raise Invalid("Image signatures are not checked here: trusted_image_certificates cannot be used.")


def has_config_drive(call: Call, requested: dict[str, Any], properties: Mapping[str, str]) -> bool:
    """Check whether a new server gets a config drive. properties: of its image."""
    is_mandatory = properties.get("img_config_drive") == "mandatory"
    return truth(requested.get("config_drive") or False) or is_mandatory or call.cloud.rules.guests.force_config_drive


def guest_data_note(call: Call, requested: dict[str, Any], *, config_drive: bool) -> str | None:
    """Return a note for the server's history if the request has a password that does not reach its guest.

    Raises: Invalid: a rule refuses such requests.
    """
    if config_drive or not requested.get("adminPass"):
        return None
    if call.cloud.rules.refuse_undelivered_guest_data:
        raise Invalid("adminPass cannot be used without a config drive: only that has it. Request one.")
    return "adminPass: recorded, but not delivered to the guest (only a config drive has it)."


# Required resources


async def check_metadata(call: Call, requested: dict[str, Any]) -> None:
    """Raises: OverQuota: more items than the project may give one server."""
    items = len(requested.get("metadata", {}))
    if not items:
        return
    limit = (await call.cloud.quotas.limits(call.principal.project_id)).get("metadata_items", -1)
    if 0 <= limit < items:
        raise OverQuota(f"Maximum number of metadata items exceeds {limit}")


async def public_key(call: Call, requested: dict[str, Any]) -> str | None:
    """Raises: Invalid: the user has no such key."""
    name = requested.get("key_name")
    if name is None:
        return None
    try:
        return (await call.cloud.keypairs.get(call.principal.user_id, name)).public_key
    except NotFound:
        raise Invalid("Invalid key_name provided.") from None


async def find_destination(call: Call, requested: dict[str, Any]) -> Destination:
    """Read availability_zone (also zone:host and zone:host:node), host and hypervisor_hostname.

    Raises: Invalid: unreadable, or no such zone or host; Forbidden: the caller may not choose hosts.
    """
    name, forced = zone_and_host(requested.get("availability_zone"))
    wanted = {requested[key] for key in ("host", "hypervisor_hostname") if requested.get(key) is not None}
    zone = await _zone(call, name)
    if forced is not None:
        call.check("os_compute_api:servers:create:forced_host")
        if wanted:
            raise Invalid("The host is given twice: in availability_zone, and as host or hypervisor_hostname.")
        # As in Nova the host takes precedence over a zone that does not contain it.
        return Destination(zone_pin=zone if await _host_zone(call, forced) == zone else None, host=HostName(forced))
    if wanted:
        call.check("compute:servers:create:requested_destination")
    if zone is not None and not await locations.has_hosts(call, zone):
        raise Invalid(UNAVAILABLE)
    if len(wanted) > 1:
        raise Invalid("host and hypervisor_hostname name two hosts; a host has one hypervisor, of the same name.")
    for host in wanted:
        is_in = await _host_zone(call, host)
        if zone not in (None, is_in):
            names = await locations.zone_names(call)
            raise Invalid(
                f"Compute host {host} is in the availability zone {locations.zone_name(names, is_in)}, the server is"
                f" wanted in {locations.zone_name(names, zone or '')}."
            )
        return Destination(zone_pin=zone, host=HostName(host))
    return Destination(zone_pin=zone)


async def _zone(call: Call, name: str | None) -> str | None:
    """Return the requested zone, or the default zone of the rules; "": no such zone."""
    rule = call.cloud.rules.default_schedule_zone
    if name or rule is None:
        return await locations.zone_named(call, name) or "" if name else None
    zone = await locations.zone_named(call, rule)
    return zone or (rule if rule in await locations.zone_names(call) else "")  # an id if it was renamed


async def beside_volumes(call: Call, wanted: Destination, disks: requested_volumes.Disks) -> Destination:
    """Restrict the server to the zone of its volumes, if required. Raises: Invalid: another zone or host was
    requested.
    """
    name = disks.zone or (disks.zone_of_snapshots if wanted.zone_pin is None else None)
    if name is None:
        return wanted
    zone = await locations.zone_named(call, name)
    if zone is None or not await locations.has_hosts(call, zone):
        raise Invalid(
            f"The volumes are in zone {name}, in which no server can be: servers use volumes of their own zone only."
        )
    if wanted.zone_pin not in (None, zone):
        is_in = locations.zone_name(await locations.zone_names(call), wanted.zone_pin or "")
        raise Invalid(f"The volumes are in the availability zone {name}, the server is wanted in {is_in}.")
    if wanted.host is not None and await _host_zone(call, wanted.host) != zone:
        raise Invalid(f"The volumes are in the availability zone {name}, compute host {wanted.host} is not.")
    return msgspec.structs.replace(wanted, zone_pin=zone)


def zone_and_host(text: str | None) -> tuple[str | None, str | None]:
    """Parse ZONE, ZONE:HOST and ZONE:HOST:NODE. Raises: Invalid."""
    parts = (text or "").split(":")
    if len(parts) > 3:
        raise Invalid("Unable to parse availability_zone: it is ZONE, ZONE:HOST or ZONE:HOST:NODE.")
    named = {part for part in parts[1:] if part}
    if len(named) > 1:
        raise Invalid("Unable to parse availability_zone: a host has one node, of the same name.")
    return parts[0] or None, next(iter(named), None)


async def _host_zone(call: Call, name: str) -> str:
    try:
        return await locations.zone_of_host(call, HostName(name))
    except NotFound as error:
        raise Invalid(error.reason) from None


async def how_many(call: Call, requested: dict[str, Any], flavor: Flavor) -> int:
    """Return the number of servers to create: max_count, or what the quota permits if that is at least min_count.

    Raises: Invalid: min_count above max_count, or too many for one request; OverQuota.
    """
    least = int(requested.get("min_count", 1))
    most = int(requested.get("max_count", least))
    if least > most:
        raise Invalid("min_count must be <= max_count")
    if most == 1:
        return 1  # the quota is checked when it is claimed
    limits = await call.cloud.quotas.limits(call.principal.project_id)
    usage = await quota_checks.usage(call.cloud, call.principal.project_id)
    number = str(most) if least == most else f"{least}-{most}"
    wanted = (
        Increase("instances", most, usage.instances, limits["instances"], shown=number),
        Increase("cores", most * flavor.vcpus, usage.cores, limits["cores"]),
        Increase("ram", most * flavor.memory_mib, usage.ram_mib, limits["ram"]),
    )
    rooms = [(one.limit - one.used) * most // one.amount for one in wanted if one.limit >= 0 and one.amount]
    room = min(rooms, default=most)
    if room < least:
        quota_excess.check(wanted)
    if min(most, room) > MOST_AT_ONCE:
        raise Invalid(f"One request creates at most {MOST_AT_ONCE} servers.")
    return min(most, room)


# Generated values


def _numbered(call: Call, first: Server, count: int) -> list[Server]:
    """Return `count` servers like the first; if there are several, their names are numbered."""
    if count == 1:
        return [first]
    servers = []
    for number in range(count):
        server = msgspec.structs.replace(first, launch_index=number, name=f"{first.name}-{number + 1}")
        if number:
            server.id, server.random_seed = ServerId(call.cloud.ids.uuid()), call.cloud.ids.uuid()
        server.hostname = _hostname(first.name, server.id, f"-{number + 1}")
        servers.append(server)
    return servers


def _hostname(name: str, server_id: ServerId, suffix: str = "") -> str:
    """Return the hostname of a server whose user named none. suffix: of one of several."""
    return hostname + suffix if (hostname := hostname_from(name)) else f"Server-{server_id}"


def hostname_from(name: str) -> str:
    """Return a hostname for a server's name: invalid characters are removed or become a dash."""
    text = re.sub(r"[ _.]", "-", name).lower()
    return re.sub(r"[^a-z0-9-]+", "", text).strip("-")[:63].rstrip("-")


def _hints(call: Call) -> dict[str, Any]:
    body = call.body
    hints: dict[str, Any] = body.get("os:scheduler_hints") or body.get("OS-SCH-HNT:scheduler_hints") or {}
    return hints


def _short(uuid: str) -> str:
    """Return eight letters and digits of a random id."""
    number = int(uuid.replace("-", ""), 16)
    return "".join(ALPHABET[number // 36**place % 36] for place in range(8))


def password(uuid: str) -> str:
    """Return a password from the first 48 bits of a random id."""
    return uuid.replace("-", "")[:12]
