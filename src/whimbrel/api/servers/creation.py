"""POST /servers: parses the request, checks all that can be checked before anything is written, and creates the
servers.

Invariant: a request that cannot be fulfilled exactly is refused with the reason, never fulfilled in part.
"""

import re
from typing import Any

import msgspec

from whimbrel.api.catalog import server_groups
from whimbrel.api.http.call import Call
from whimbrel.api.schemas.parameters import truth
from whimbrel.api.servers import flavor_and_image, requested_nics, requested_volumes
from whimbrel.api.views import locations
from whimbrel.domain.errors import Invalid, NotFound, OverQuota
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import HostName, ServerId
from whimbrel.domain.server import RequestSpec, Server
from whimbrel.http.reply import Reply
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import create as births
from whimbrel.servers.lifecycle import delete

UNAVAILABLE = "The requested availability zone is not available"
ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server may be: the id of its zone pin, and the host it must start on."""

    zone_pin: str | None = None
    host: HostName | None = None


async def create(call: Call) -> Reply:
    requested: dict[str, Any] = call.body["server"]
    check_rest(requested)
    note = guest_data_note(call, requested)
    several = int(requested.get("max_count", requested.get("min_count", 1))) > 1
    flavor = await flavor_and_image.flavor(call, requested["flavorRef"])
    disks = await requested_volumes.read(call, requested, flavor, several=several)
    nics = await requested_nics.read(call, requested, several=several)
    groups = await requested_nics.security_groups(
        call, [group["name"] for group in requested.get("security_groups", [])]
    )
    await check_metadata(call, requested)
    await server_groups.check_requested(call, _hints(call))
    key_data = await public_key(call, requested)
    destination = await beside_volumes(call, await find_destination(call, requested), disks)
    count = await how_many(call, requested, flavor)
    reservation_id = "r-" + _short(call.cloud.ids.uuid())
    first = Server(
        id=ServerId(call.cloud.ids.uuid()),
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
        hostname=requested.get("hostname") or hostname_from(requested["name"]),
        key_name=requested.get("key_name"),
        key_data=key_data,
        user_data=requested.get("user_data"),
        config_drive=truth(requested.get("config_drive", False)),
        access_ipv4=requested.get("accessIPv4", ""),
        access_ipv6=requested.get("accessIPv6", ""),
        disk_config=requested.get("OS-DCF:diskConfig", "MANUAL"),
        metadata=requested.get("metadata", {}),
        tags=list(dict.fromkeys(requested.get("tags", []))),
        image_properties=disks.root_properties,
        requested_nics=nics,
        requested_volumes=disks.volumes,
        security_groups=tuple(groups),
        security_group_names=tuple(groups.values()),
        reservation_id=reservation_id,
        admin_pass=requested.get("adminPass") or _password(call.cloud.ids.uuid()),
    )
    await _accept(call, _numbered(call, first, count), destination.host, note)
    return _reply(call, requested, first)


async def _accept(call: Call, servers: list[Server], host: HostName | None, note: str | None) -> None:
    """Create all servers or none: if the quota is exhausted meanwhile, those already begun are rolled back."""
    try:
        await births.accept(call.cloud, call.engine, call.requester, servers, host, note)
    except OverQuota:
        for server in servers[:-1]:
            await _take_back(call, server)
        raise


async def _take_back(call: Call, server: Server) -> None:
    try:
        begun = await lookup.find(call.cloud, server.id)
    except NotFound:
        return
    await delete.accept(call.cloud, call.engine, call.requester, begun)


def _reply(call: Call, requested: dict[str, Any], first: Server) -> Reply:
    links = call.links("servers", first.id)
    headers = {"Location": links[0]["href"]}
    if truth(requested.get("return_reservation_id", False)):
        return Reply(body={"reservation_id": first.reservation_id}, headers=headers)
    shown = {
        "id": first.id,
        "links": links,
        "OS-DCF:diskConfig": first.disk_config,
        "security_groups": requested.get("security_groups") or [{"name": "default"}],
        "adminPass": first.admin_pass,
    }
    return Reply(body={"server": shown}, headers=headers)


# Unsupported fields


def check_rest(requested: dict[str, Any]) -> None:
    """Raises: Invalid: a field that this cloud does not support."""
    if requested.get("personality"):
        raise Invalid("Files cannot be injected: use user_data instead of personality.")
    if requested.get("trusted_image_certificates"):
        raise Invalid("Image signatures are not checked here: trusted_image_certificates cannot be used.")


def guest_data_note(call: Call, requested: dict[str, Any]) -> str | None:
    """Return a note for the server's history if the request has data that does not reach its guest.

    There is no config drive, no metadata service and no password injection yet.
    Raises: Invalid: a rule refuses such requests.
    """
    sent = [key for key in ("user_data", "key_name", "adminPass") if requested.get(key)]
    sent += ["config_drive"] if truth(requested.get("config_drive") or False) else []
    if not sent:
        return None
    if call.cloud.rules.refuse_undelivered_guest_data:
        raise Invalid(
            f"{' and '.join(sent)} cannot be used: guests get no config drive, metadata or password in this cloud yet."
        )
    return f"{' and '.join(sent)}: recorded, but not delivered to the guest (no config drive or metadata service yet)."


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

    Raises: Invalid: min_count above max_count; OverQuota.
    """
    least = int(requested.get("min_count", 1))
    most = int(requested.get("max_count", least))
    if least > most:
        raise Invalid("min_count must be <= max_count")
    if most == 1:
        return 1  # the quota is checked when it is claimed
    room = await _room(call, flavor)
    if room < least:
        raise OverQuota(f"Quota exceeded: {least} servers of this flavor are wanted, there is room for {room}.")
    return min(most, room)


async def _room(call: Call, flavor: Flavor) -> int:
    """Return how many servers of a flavor the project's quota permits."""
    limits = await call.cloud.quotas.limits(call.principal.project_id)
    usage = await call.cloud.directory.usage(call.principal.project_id)
    rooms = [
        (limits[name] - used) // need
        for name, used, need in (
            ("instances", usage.instances, 1),
            ("cores", usage.cores, flavor.vcpus),
            ("ram", usage.ram_mib, flavor.memory_mib),
        )
        if limits[name] >= 0
    ]
    return max(min(rooms, default=1000), 0)


# Generated values


def _numbered(call: Call, first: Server, count: int) -> list[Server]:
    """Return `count` servers like the first; if there are several, their names are numbered."""
    if count == 1:
        return [first]
    named = first.hostname != hostname_from(first.name)  # the user chose it
    servers = []
    for number in range(count):
        server = msgspec.structs.replace(first, launch_index=number, name=f"{first.name}-{number + 1}")
        server.id = first.id if number == 0 else ServerId(call.cloud.ids.uuid())
        server.hostname = f"{first.hostname}-{number + 1}" if named else hostname_from(server.name)
        servers.append(server)
    return servers


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


def _password(uuid: str) -> str:
    """Return a password from the first 48 bits of a random id."""
    return uuid.replace("-", "")[:12]
