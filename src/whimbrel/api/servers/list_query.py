"""GET /servers and its query string: which filters are permitted to the requester, and their meaning.

Invariant: the stores evaluate all filters that are columns; only the others are evaluated record by record.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from whimbrel.api.http import paging, times
from whimbrel.api.http.call import Call
from whimbrel.api.http.formats import matcher
from whimbrel.api.schemas.parameters import truth_of_word
from whimbrel.api.servers import list_order
from whimbrel.api.views import locations, nic_addresses
from whimbrel.api.views import server as server_view
from whimbrel.api.views.unreachable_server import ABSENT_SINCE
from whimbrel.domain import server_states
from whimbrel.domain.errors import Forbidden, Invalid
from whimbrel.domain.ids import ProjectId, ServerId
from whimbrel.domain.server import Server
from whimbrel.ports.stores.directory import Entry
from whimbrel.ports.stores.servers import ServerQuery
from whimbrel.servers.listing import cell_fanout
from whimbrel.servers.listing.all_cells import AllCells

Predicate = Callable[[Server], bool]

# Filters that users may set, by first version; administrators may set all.
_FOR_EVERYBODY: Mapping[str, int] = {
    **dict.fromkeys(("reservation_id", "name", "status", "image", "flavor", "ip", "changes-since", "all_tenants"), 1),
    **dict.fromkeys(("limit", "marker", "sort_key", "sort_dir"), 1),
    "ip6": 5,
    **dict.fromkeys(("tags", "tags-any", "not-tags", "not-tags-any"), 26),
    "changes-before": 66,
    "locked": 73,
    **dict.fromkeys(("availability_zone", "config_drive", "key_name", "created_at", "launched_at"), 83),
    **dict.fromkeys(("terminated_at", "power_state", "task_state", "vm_state", "progress", "user_id"), 83),
    "hostname": 90,
}

# Filters that are a field of ServerQuery, and its name.
_COLUMNS: Mapping[str, str] = {
    "user_id": "user_id",
    "host": "host",
    "node": "host",
    "image": "image_id",
    "image_ref": "image_id",
    "flavor": "flavor_id",
    "availability_zone": "zone",
    "key_name": "key_name",
    "reservation_id": "reservation_id",
}

# Filters that are not a column: the regular expression is searched in this text.
_TEXTS: Mapping[str, Callable[[Server], str]] = {
    "name": lambda server: server.name,
    "display_name": lambda server: server.name,
    "hostname": lambda server: server.hostname,
    "description": lambda server: server.description or "",
    "display_description": lambda server: server.description or "",
    "access_ip_v4": lambda server: server.access_ipv4,
    "access_ip_v6": lambda server: server.access_ipv6,
    "locked_by": lambda server: server.locked_by or "",
    "kernel_id": lambda server: "",
    "ramdisk_id": lambda server: "",
}

# Filters that are not a column, compared as a whole.
_VALUES: Mapping[str, Callable[[Server], str]] = {
    "power_state": lambda server: str(server.power_state),
    "progress": lambda server: "0",
    "launch_index": lambda server: str(server.launch_index),
    "root_device_name": lambda server: server_view.root_device(server) or "",
}

# Filters by addresses: one of them must match.
_ADDRESSES: Mapping[str, int] = {"ip": 4, "ip6": 6}

_TIMES: Mapping[str, Callable[[Server], float | None]] = {
    "created_at": lambda server: server.created_at,
    "launched_at": lambda server: server.launched_at,
    "terminated_at": lambda server: server.terminated_at,
}

_NOT_FILTERS = frozenset(
    {
        *("block_device_mapping", "services", "metadata", "system_metadata", "info_cache", "security_groups"),
        "pci_devices",
    }
)


@dataclass
class _Wanted:
    """The query, filled while the query string is parsed."""

    query: dict[str, Any] = field(default_factory=dict)
    also: list[Predicate] = field(default_factory=list)
    nothing: bool = False  # no server can match


async def servers(call: Call, *, detail: bool) -> list[Server | Entry]:
    """Return the servers of a GET /servers; for one in a cell that does not answer, its entry in the directory.

    Raises: Invalid; Forbidden; Unavailable: a cell is unreachable, and the rules do not permit leaving it out.
    """
    sent = _permitted(call)
    wanted = _Wanted()
    _project(call, sent, wanted, detail=detail)
    _states(call, sent, wanted)
    _existence(call, sent, wanted)
    _fields(sent, wanted)
    _tags(sent, wanted)
    await _zone(call, wanted)
    limit = paging.limit(call)
    if wanted.nothing or limit == 0:
        return []
    sort = list_order.sort_of(call, sent)
    query = ServerQuery(
        **wanted.query,
        sort=sort,
        zone_order=[zone.id for zone in await call.cloud.zones.all()] if "zone" in dict(sort) else (),
        after=await list_order.marker_of(call, sort),
        limit=None if wanted.also else limit,
    )
    shows_absent = _shows_absent(call, sent)
    listed = await AllCells(call.cloud, query).take(with_absent=shows_absent)
    if not (shows_absent or call.cloud.rules.list_records_by_skipping_down_cells):
        cell_fanout.check(listed.unreachable)
    found = [server for server in listed.servers if all(fits(server) for fits in wanted.also)]
    return _with_absent(found, listed.absent)[:limit]


_PAGING = frozenset({"limit", "marker", "sort_key", "sort_dir"})
_KNOWN_OF_ABSENT = frozenset({"all_tenants", "tenant_id", "project_id", "deleted"})


def _shows_absent(call: Call, sent: Mapping[str, list[str]]) -> bool:
    """Check whether servers of unreachable cells are shown: as in Nova, not with filters on fields that are unknown
    then.

    Source: the API guide's page on down cells.
    """
    if call.minor < ABSENT_SINCE or not _PAGING.isdisjoint(call.query):
        return False
    return _KNOWN_OF_ABSENT.issuperset(sent) and not truth_of_word(_last(sent, "deleted") or "")


def _with_absent(found: Sequence[Server], absent: Sequence[Entry]) -> list[Server | Entry]:
    """Merge the entries into a list in the default order."""
    if not absent:
        return [*found]
    every: list[tuple[float, str, Server | Entry]] = [(entry.created_at, entry.server_id, entry) for entry in absent]
    every += [(server.created_at, server.id, server) for server in found]
    return [one for _, _, one in sorted(every, key=lambda each: each[:2], reverse=True)]


def _permitted(call: Call) -> dict[str, list[str]]:
    """Return the query without the filters that the requester may not use: as in Nova they are ignored."""
    refused = sorted(key for key in call.query if key in _NOT_FILTERS or key.startswith("_"))
    if refused:
        raise Invalid(f"Servers cannot be filtered by {refused[0]}.")
    if call.may("os_compute_api:servers:allow_all_filters"):
        return dict(call.query)
    return {key: values for key, values in call.query.items() if _FOR_EVERYBODY.get(key, 1000) <= call.minor}


def _project(call: Call, sent: dict[str, list[str]], wanted: _Wanted, *, detail: bool) -> None:
    """Restrict the list to the requester's project; others need the rule for it."""
    one = _last(sent, "tenant_id") or _last(sent, "project_id")
    everywhere = _last(sent, "all_tenants")
    if everywhere is None or not (everywhere == "" or _strict_truth("all_tenants", everywhere)):
        wanted.query["project_id"] = call.principal.project_id
        return
    call.check(f"os_compute_api:servers:{'detail' if detail else 'index'}:get_all_tenants")
    wanted.query["project_id"] = ProjectId(one) if one else None


def _states(call: Call, sent: dict[str, list[str]], wanted: _Wanted) -> None:
    statuses = sent.get("status")
    if statuses:
        if call.minor >= 38 and not any(status.upper() in server_states.KNOWN_STATUSES for status in statuses):
            raise Invalid(f"Invalid status value: {statuses[0][:100]}")
        states = server_states.states_with_status(statuses)
        wanted.query["states"] = states
        wanted.nothing = wanted.nothing or not states
        if any(vm_state == "deleted" for vm_state, _, _ in states):
            if not call.is_admin:
                raise Forbidden("Only administrators may list deleted instances.")
            sent["deleted"] = ["true"]
    if "vm_state" in sent:
        wanted.query["vm_states"] = sent["vm_state"]
    if "task_state" in sent:
        wanted.query["task_states"] = [None if state in ("", "None") else state for state in sent["task_state"]]


def _existence(call: Call, sent: dict[str, list[str]], wanted: _Wanted) -> None:
    """Read the filters for deleted servers: with changes-since they are shown, and to administrators on request."""
    since, before = times.span(_last(sent, "changes-since"), _last(sent, "changes-before"))
    wanted.query |= {"changed_since": since, "changed_before": before}
    deleted = _last(sent, "deleted")
    if deleted is not None:
        wanted.query["deleted"] = truth_of_word(deleted)
    elif since is not None or before is not None:
        wanted.query["deleted"] = None
    wanted.query["soft_deleted"] = _soft_deleted(sent, wanted)


def _soft_deleted(sent: dict[str, list[str]], wanted: _Wanted) -> bool | None:
    """Return whether soft-deleted servers are listed: with deleted ones, or if they are asked for."""
    if (asked := _last(sent, "soft_deleted")) is not None:
        return truth_of_word(asked)
    states = {vm_state for vm_state, _, _ in wanted.query.get("states", ())} | set(wanted.query.get("vm_states", ()))
    if wanted.query.get("deleted", False) or server_states.SOFT_DELETED in states:
        return True
    return False if "deleted" not in wanted.query else None


def _fields(sent: dict[str, list[str]], wanted: _Wanted) -> None:
    for key, column in _COLUMNS.items():
        if key in sent:
            wanted.query[column] = _last(sent, key)
    if "uuid" in sent:
        wanted.query["ids"] = [ServerId(id) for id in sent["uuid"]]
    if "locked" in sent:
        wanted.query["locked"] = _strict_truth("locked", sent["locked"][-1])
    if "config_drive" in sent:
        config_drive = truth_of_word(sent["config_drive"][-1])
        wanted.also.append(lambda server: server.config_drive == config_drive)
    if "auto_disk_config" in sent:
        disk_config = "AUTO" if truth_of_word(sent["auto_disk_config"][-1]) else "MANUAL"
        wanted.also.append(lambda server: server.disk_config == disk_config)
    wanted.also += [_text(read, sent[key][-1]) for key, read in _TEXTS.items() if key in sent]
    wanted.also += [_value(read, sent[key][-1]) for key, read in _VALUES.items() if key in sent]
    wanted.also += [_time(read, key, sent[key][-1]) for key, read in _TIMES.items() if key in sent]
    wanted.also += [_address(version, sent[key][-1]) for key, version in _ADDRESSES.items() if key in sent]


async def _zone(call: Call, wanted: _Wanted) -> None:
    """Replace the name of the zone by its id, which records contain."""
    name = wanted.query.get("zone")
    if name is not None:
        wanted.query["zone"] = await locations.zone_named(call, name)
        wanted.nothing = wanted.nothing or wanted.query["zone"] is None


def _text(read: Callable[[Server], str], pattern: str) -> Predicate:
    matches = matcher(pattern)
    return lambda server: matches(read(server))


def _address(version: int, pattern: str) -> Predicate:
    matches = matcher(pattern)
    return lambda server: any(matches(address) for address in nic_addresses.of_version(server, version))


def _value(read: Callable[[Server], str], value: str) -> Predicate:
    return lambda server: read(server) == value


def _time(read: Callable[[Server], float | None], key: str, text: str) -> Predicate:
    """Return a predicate that compares times by the second, the precision that is shown."""
    try:
        wanted = times.read(text)
    except ValueError:
        raise Invalid(f"Invalid input for {key}: {text[:100]!r} is not a time.") from None
    assert wanted is not None
    return lambda server: (at := read(server)) is not None and int(at) == int(wanted)


def _tags(sent: dict[str, list[str]], wanted: _Wanted) -> None:
    for key in ("tags", "tags-any", "not-tags", "not-tags-any"):
        if key in sent:
            wanted.query[key.replace("-", "_")] = [tag for text in sent[key] for tag in text.split(",") if tag]


def _last(sent: Mapping[str, list[str]], key: str) -> str | None:
    values = sent.get(key)
    return values[-1] if values else None


def _strict_truth(key: str, text: str) -> bool:
    if truth_of_word(text):
        return True
    if text.lower() in ("0", "false", "off", "no", "n", "f"):
        return False
    raise Invalid(f"Invalid input for {key}: {text[:100]!r} is neither true nor false.")
