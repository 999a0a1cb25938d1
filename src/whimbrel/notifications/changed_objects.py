"""Announces changes of what has no runs: services of hosts, flavors, aggregates, their images, server groups, keypairs.

A reconciler: it compares what is there with what was announced last, and keeps that durably. So a change is announced
after a crash too; changes that cancel each other out between two rounds are not. What is there when notifications are
enabled is not announced.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

import msgspec

from whimbrel.domain.host import Aggregate, Host
from whimbrel.notifications import versioned_objects
from whimbrel.notifications.versioned_objects import versioned
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.hosts.key_value_store import KeyValueStore
from whimbrel.ports.services.notifications import Notification, NotificationSink
from whimbrel.ports.stores.catalog import Keypair, is_generated
from whimbrel.ports.stores.image_fetches import ImageRequest
from whimbrel.ports.stores.server_groups import ServerGroup

CACHE_PROGRESS = "aggregate.cache_images.progress"

NAMESPACE = UUID("9b1f8a0e-6c35-4b0c-9d2e-3f6a1c7d5e42")
"""Of message ids."""

BEGUN = "begun"
"""The key that is there once what exists was noted; no object has this id."""

Data = dict[str, Any]
"""The fields of a payload, as they were announced."""


class _Noted(msgspec.Struct, frozen=True):
    """What was announced of an object. number: of its announcement, which makes message ids differ.

    data: None: its deletion, which is kept because an object may have the same id again.
    """

    number: int
    data: Data | None


@dataclass(frozen=True)
class Found:
    """The objects of a kind, by id. is_complete: False: some could not be read, so that none counts as deleted."""

    objects: Mapping[str, Data]
    is_complete: bool = True


@dataclass(frozen=True)
class Kind:
    name: str
    payload: str
    read: Callable[[Cloud, Mapping[str, Data]], Awaitable[Found]]  # the mapping: of what was announced, by id
    events: Callable[[Data | None, Data | None], Iterator[tuple[str, Data]]]  # of a change: names and payloads' fields
    source: str = "nova-api"  # which service of Nova publishes it
    reuses_ids: bool = False  # whether a new object may have the id of a deleted one
    mark: Callable[[Cloud], Awaitable[object]] | None = None  # of many objects: as long as it stays, so do they


class ChangedObjects:
    """Sends the notifications of changed objects. `forget` drops what it remembers of the store."""

    def __init__(self, cloud: Cloud, keep: KeyValueStore, sink: NotificationSink, here: str) -> None:
        """here: the host of this process, the publisher of what happens in the API."""
        self._cloud = cloud
        self._keep = keep
        self._sink = sink
        self._here = here
        self._noted: dict[str, dict[str, _Noted]] = {}  # kind -> id -> what was announced
        self._marks: dict[str, object] = {}  # kind -> that whose objects were announced

    def forget(self) -> None:
        """Read the store anew in the next round: another process may have announced meanwhile."""
        self._noted.clear()
        self._marks.clear()

    async def announce(self) -> int:
        """Announce what has changed. Return how many notifications were sent. Raises: Unavailable."""
        return sum([await self._announce_new(kind) for kind in KINDS])

    async def _announce_new(self, kind: Kind) -> int:
        if kind.mark is None:
            return await self._announce_kind(kind)
        mark = await kind.mark(self._cloud)
        if self._marks.get(kind.name) == mark:
            return 0
        sent = await self._announce_kind(kind)
        self._marks[kind.name] = mark
        return sent

    async def _announce_kind(self, kind: Kind) -> int:
        if kind.name not in self._noted:
            self._noted[kind.name] = await self._known(kind)
        noted, sent = self._noted[kind.name], 0
        found = await kind.read(self._cloud, {id: was.data for id, was in noted.items() if was.data is not None})
        gone = [id for id, was in noted.items() if was.data is not None and id not in found.objects]
        for id in gone if found.is_complete else ():  # first: a new one may have the name
            sent += await self._announce_one(kind, id, noted[id], None)
        for id, data in found.objects.items():
            was = noted.get(id)
            if was is None or was.data != data:
                sent += await self._announce_one(kind, id, was, data)
        return sent

    async def _known(self, kind: Kind) -> dict[str, _Noted]:
        """Return what was announced of a kind. The first time, that is all that is there."""
        stored = await self._keep.scan(_space(kind))
        if BEGUN not in stored:
            for id, data in (await kind.read(self._cloud, {})).objects.items():
                await self._keep.put(_space(kind), id, msgspec.json.encode(_Noted(0, data)))
            await self._keep.put(_space(kind), BEGUN, b"1")
            stored = await self._keep.scan(_space(kind))
        return {id: msgspec.json.decode(value, type=_Noted) for id, value in stored.items() if id != BEGUN}

    async def _announce_one(self, kind: Kind, id: str, was: _Noted | None, data: Data | None) -> int:
        """Send the notifications of a change, then note it: a crash between repeats them, with the same ids."""
        number = was.number + 1 if was else 1
        events = list(kind.events(was.data if was else None, data))
        for place, (event, fields) in enumerate(events):
            source, payload = _OTHERS.get(event, (kind.source, kind.payload))
            await self._sink.send(
                Notification(
                    id=str(uuid5(NAMESPACE, f"{kind.name} {id} {number} {place} {event}")),
                    event=event,
                    publisher=f"{source}:{fields['host'] if source == 'nova-compute' else self._here}",
                    priority="INFO",
                    payload=versioned(payload, fields),
                    at=self._cloud.clock.now(),
                )
            )
        if data is None and not kind.reuses_ids:
            await self._keep.delete(_space(kind), id)
            del self._noted[kind.name][id]
        else:
            now = _Noted(number, data)
            await self._keep.put(_space(kind), id, msgspec.json.encode(now))
            self._noted[kind.name][id] = now
        return len(events)


def _space(kind: Kind) -> str:
    return f"announced {kind.name}s"


# Services


async def _services(cloud: Cloud, known: Mapping[str, Data]) -> Found:
    fleet = await cloud.fleets.now()
    return Found({host.service_id: _service(host) for host in fleet.hosts}, is_complete=not fleet.unreachable)


def _service(host: Host) -> Data:
    """Heartbeats are no changes, so that they are not in it."""
    return {
        "uuid": host.service_id,
        "host": host.name,
        "binary": "nova-compute",
        "topic": "compute",
        "disabled": not host.enabled,
        "disabled_reason": host.disabled_reason,
        "forced_down": host.forced_down,
        "availability_zone": None,
        "last_seen_up": None,
        "report_count": 0,
        "version": 0,
    }


def _plain(name: str) -> Callable[[Data | None, Data | None], Iterator[tuple[str, Data]]]:
    """Return the events of a kind that is created, updated and deleted."""

    def events(was: Data | None, now: Data | None) -> Iterator[tuple[str, Data]]:
        if was is None and now is not None:
            yield f"{name}.create", now
        elif now is None and was is not None:
            yield f"{name}.delete", was
        elif now is not None:
            yield f"{name}.update", now

    return events


# Flavors


async def _flavors(cloud: Cloud, known: Mapping[str, Data]) -> Found:
    found = {}
    for flavor in await cloud.flavors.all():
        projects: Sequence[str] = [] if flavor.is_public else await cloud.flavors.projects(flavor.flavor_id)
        data: Data = versioned_objects.flavor(flavor)["nova_object.data"]
        found[flavor.flavor_id] = data | {"projects": list(projects)}
    return Found(found)


# Aggregates


async def _aggregates(cloud: Cloud, known: Mapping[str, Data]) -> Found:
    names = {zone.id: zone.name for zone in await cloud.zones.all()}
    return Found({each.uuid: _aggregate(each, names) for each in await cloud.aggregates.all()})


def _aggregate(aggregate: Aggregate, zones: Mapping[str, str]) -> Data:
    metadata = dict(aggregate.metadata)
    if aggregate.zone is not None:
        metadata["availability_zone"] = zones.get(aggregate.zone, aggregate.zone)
    return {
        "id": aggregate.id,
        "uuid": aggregate.uuid,
        "name": aggregate.name,
        "hosts": [str(host) for host in aggregate.hosts],
        "metadata": metadata,
    }


def _events_of_aggregate(was: Data | None, now: Data | None) -> Iterator[tuple[str, Data]]:
    """Yield pairs of start and end; an aggregate that was created with hosts is created without, then gets them."""
    if now is None:
        assert was, "it was there"
        yield from _pair("delete", was)
        return
    if was is None:
        was = now | {"hosts": []}
        yield "aggregate.create.start", was | {"id": None, "hosts": None}
        yield "aggregate.create.end", was
    if was["name"] != now["name"]:
        yield from _pair("update_prop", now | {"hosts": was["hosts"]})
    if was["metadata"] != now["metadata"]:
        yield from _pair("update_metadata", now | {"hosts": was["hosts"]})
    hosts = list(was["hosts"])
    for host in [host for host in hosts if host not in now["hosts"]]:
        yield "aggregate.remove_host.start", now | {"hosts": list(hosts)}
        hosts.remove(host)
        yield "aggregate.remove_host.end", now | {"hosts": list(hosts)}
    for host in [host for host in now["hosts"] if host not in hosts]:
        yield "aggregate.add_host.start", now | {"hosts": list(hosts)}
        hosts.append(host)
        yield "aggregate.add_host.end", now | {"hosts": list(hosts)}


def _pair(action: str, data: Data) -> Iterator[tuple[str, Data]]:
    yield f"aggregate.{action}.start", data
    yield f"aggregate.{action}.end", data


# Images that the hosts of an aggregate are requested to fetch


async def _image_requests(cloud: Cloud, known: Mapping[str, Data]) -> Found:
    names = {zone.id: zone.name for zone in await cloud.zones.all()}
    return Found({each.id: _image_request(each, names) for each in await cloud.image_fetches.requests()})


def _image_request(request: ImageRequest, zones: Mapping[str, str]) -> Data:
    done = [
        {
            "host": host,
            "images_cached": [image for image, is_cached in of_host.items() if is_cached],
            "images_failed": [image for image, is_cached in of_host.items() if not is_cached],
        }
        for host, of_host in request.done()
    ]
    return {"aggregate": _aggregate(request.aggregate, zones), "done": done, "total": len(request.hosts)}


def _events_of_image_request(was: Data | None, now: Data | None) -> Iterator[tuple[str, Data]]:
    """Yield the start, the progress of each host, and the end when all are done."""
    if now is None:
        return
    aggregate, total = now["aggregate"], now["total"]
    if was is None:
        yield "aggregate.cache_images.start", aggregate
    before = len(was["done"]) if was else 0
    for index, done in enumerate(now["done"][before:], before + 1):
        yield (
            CACHE_PROGRESS,
            {key: aggregate[key] for key in ("id", "uuid", "name")} | done | {"index": index, "total": total},
        )
    if len(now["done"]) == total and (was is None or before < total):
        yield "aggregate.cache_images.end", aggregate


# Server groups


async def _groups(cloud: Cloud, known: Mapping[str, Data]) -> Found:
    return Found({group.id: _group(group) for group in await cloud.server_groups.find(None)})


def _group(group: ServerGroup) -> Data:
    most = group.max_server_per_host
    return {
        "uuid": group.id,
        "name": group.name,
        "project_id": group.project_id,
        "user_id": group.user_id,
        "policies": [group.policy],
        "policy": group.policy,
        "rules": {} if most is None else {"max_server_per_host": str(most)},
        "members": [str(member) for member in group.members],
        "hosts": None,
    }


def _events_of_group(was: Data | None, now: Data | None) -> Iterator[tuple[str, Data]]:
    """As in Nova, nothing is announced when a member is deleted."""
    if now is None:
        assert was, "it was there"
        yield "server_group.delete", was
        return
    if was is None:
        was = now | {"members": []}
        yield "server_group.create", was
    members = list(was["members"])
    for member in [member for member in now["members"] if member not in members]:
        members.append(member)
        yield "server_group.add_member", now | {"members": [each for each in members if each in now["members"]]}


# Keypairs


async def _keypairs(cloud: Cloud, known: Mapping[str, Data]) -> Found:
    """Keypairs never change: only new ones are read."""
    ids = {f"{number} {created_at}": number for number, created_at in await cloud.keypairs.ids()}
    new = await cloud.keypairs.numbered([number for id, number in ids.items() if id not in known])
    read = {f"{each.number} {each.created_at}": _keypair(each) for each in new}
    return Found({id: known[id] for id in ids if id in known} | read)


def _keypair(keypair: Keypair) -> Data:
    return {
        "user_id": keypair.user_id,
        "name": keypair.name,
        "type": keypair.type,
        "fingerprint": keypair.fingerprint,
        "public_key": keypair.public_key,
    }


def _events_of_keypair(was: Data | None, now: Data | None) -> Iterator[tuple[str, Data]]:
    """Nova has other names for a key that the user brings than for one that is generated."""
    if now is None:
        assert was, "it was there"
        yield "keypair.delete.start", was
        yield "keypair.delete.end", was
    elif was is None and is_generated(now["public_key"]):
        yield "keypair.create.start", now | {"fingerprint": None, "public_key": None}
        yield "keypair.create.end", now
    elif was is None:
        yield "keypair.import.start", now | {"fingerprint": None}
        yield "keypair.import.end", now


KINDS = (
    Kind("service", "ServiceStatusPayload", _services, _plain("service"), source="nova-compute"),
    Kind("flavor", "FlavorPayload", _flavors, _plain("flavor"), reuses_ids=True),
    Kind("aggregate", "AggregatePayload", _aggregates, _events_of_aggregate),
    Kind("image_request", "AggregatePayload", _image_requests, _events_of_image_request),
    Kind("server_group", "ServerGroupPayload", _groups, _events_of_group),
    Kind("keypair", "KeypairPayload", _keypairs, _events_of_keypair, mark=lambda cloud: cloud.keypairs.mark()),
)

_OTHERS = {CACHE_PROGRESS: ("nova-conductor", "AggregateCachePayload")}
"""Events with another source and payload than their kind."""
