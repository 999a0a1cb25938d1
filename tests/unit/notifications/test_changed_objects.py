"""Changes of services, flavors, aggregates, server groups and keypairs are announced once each, also after a crash."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as replace_struct

from tests.stories.test_payloads import CLASSES, SAMPLES
from tools.nova_notifications import DATA, NAME, VERSION
from whimbrel.adapters.memory_key_value_store import MemoryKeyValueStore
from whimbrel.api.catalog.key_generation import new_ssh, new_x509
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.host import Aggregate
from whimbrel.domain.ids import CellName, GroupId, HostName
from whimbrel.notifications.changed_objects import ChangedObjects
from whimbrel.ports.services.notifications import Notification
from whimbrel.ports.stores.catalog import GENERATED, Keypair, is_generated
from whimbrel.ports.stores.image_fetches import ImageFetch, ImageRequest
from whimbrel.ports.stores.server_groups import ServerGroup
from whimbrel.sim.cloud.cloud import CELL, PROJECT, USER, World
from whimbrel.sim.world.notification_sink import MemorySink

HUGE = Flavor(flavor_id="9", name="huge", vcpus=8, memory_mib=512, root_gib=1, is_public=False)
H1 = HostName("h1")


class Room:
    """A cloud whose present objects are noted."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.keep = MemoryKeyValueStore()
        self.sink = MemorySink()
        self.restart()

    def restart(self) -> None:
        self.objects = ChangedObjects(self.world.cloud, self.keep, self.sink, "c1")

    async def told(self) -> list[tuple[str, dict[str, Any]]]:
        """Announce what has changed. Return the events, each with its payload's fields."""
        await self.objects.announce()
        found, self.sink.sent = self.sink.sent, []
        for each in found:
            check(each)
        return [(each.event, each.payload[DATA]) for each in found]

    async def events(self) -> list[str]:
        return [event for event, _ in await self.told()]

    async def set_service(self, **fields: Any) -> None:
        hosts = self.world.cloud.cell(CELL).hosts
        await hosts.set_service(H1, **{"enabled": True, "disabled_reason": None, "forced_down": False, **fields})


def check(sent: Notification) -> None:
    """Check that a notification has the names, version and fields of Nova's."""
    version, fields = CLASSES[sent.payload[NAME]]
    assert (sent.payload[VERSION], set(sent.payload[DATA])) == (version, fields)
    said = [sent.event, sent.priority, sent.publisher.partition(":")[0], sent.payload[NAME], version]
    assert any(sample[:5] == said for sample in SAMPLES), said


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    found = Room(await World.build())
    assert await found.events() == []
    yield found
    await found.world.close()


async def test_what_is_there_is_not_announced(room: Room) -> None:
    assert await room.events() == []
    room.restart()
    assert await room.events() == []


async def test_services(room: Room) -> None:
    await room.set_service(enabled=False, disabled_reason="disk")
    [(event, data)] = await room.told()
    assert (event, data["host"], data["disabled"], data["disabled_reason"]) == ("service.update", "h1", True, "disk")
    await room.set_service(forced_down=True)
    [(event, data)] = await room.told()
    assert (event, data["disabled"], data["forced_down"]) == ("service.update", False, True)
    assert await room.events() == []
    await room.world.cloud.cell(CELL).hosts.delete(H1)
    [(event, data)] = await room.told()
    assert (event, data["host"]) == ("service.delete", "h1")


async def test_images_that_the_hosts_of_an_aggregate_fetch(room: Room) -> None:
    fetches, h2 = room.world.cloud.image_fetches, HostName("h2")
    aggregate = Aggregate(id=3, uuid=room.world.cloud.ids.uuid(), name="a", hosts=[H1, h2])
    asked = ImageRequest(id="r", aggregate=aggregate, hosts=[H1, h2], images=["x", "y"], requested_at=1.0)
    every = [
        ImageFetch(host=host, cell=CELL, image_id=i, requested_at=1.0, due_at=1.0) for host in (h2, H1) for i in "xy"
    ]
    await fetches.add(every, asked)
    [(event, data)] = await room.told()
    assert (event, data["id"], data["hosts"]) == ("aggregate.cache_images.start", 3, ["h1", "h2"])
    for each in every[:3]:
        await fetches.remove(each, is_cached=each.image_id == "x")
    room.restart()
    [(event, data)] = await room.told()
    assert event == "aggregate.cache_images.progress"
    assert (data["host"], data["images_cached"], data["images_failed"]) == ("h2", ["x"], ["y"])
    assert (data["index"], data["total"], data["name"]) == (1, 2, "a")
    assert await room.events() == []
    await fetches.remove(every[3], is_cached=True)
    (_, progress), (end, _) = await room.told()
    assert (progress["host"], progress["index"], end) == ("h1", 2, "aggregate.cache_images.end")
    assert await room.events() == []
    await fetches.add([], replace_struct(asked, id="next", hosts=[], requested_at=2.0))
    assert await room.events() == ["aggregate.cache_images.start", "aggregate.cache_images.end"]


async def test_a_cell_that_is_down_has_lost_no_services() -> None:
    room = Room(await World.build(cells={"c1": ("h1",), "c2": ("h2",)}))
    assert await room.events() == []
    fleets = room.world.cloud.fleets

    class OneCell:
        async def now(self) -> Any:
            fleet = await fleets.now()
            return replace(fleet, hosts=fleet.hosts[:1], unreachable=frozenset({CellName("c2")}))

    object.__setattr__(room.world.cloud, "fleets", OneCell())
    assert await room.events() == []
    await room.world.close()


async def test_flavors(room: Room) -> None:
    flavors = room.world.cloud.flavors
    await flavors.create(HUGE, 1.0)
    [(event, data)] = await room.told()
    assert (event, data["name"], data["vcpus"], data["projects"]) == ("flavor.create", "huge", 8, [])
    await flavors.grant("9", PROJECT)
    [(event, data)] = await room.told()
    assert (event, data["projects"]) == ("flavor.update", [PROJECT])
    await flavors.change_extra_specs("9", {"hw:numa_nodes": "2"})
    [(event, data)] = await room.told()
    assert (event, data["extra_specs"]) == ("flavor.update", {"hw:numa_nodes": "2"})
    await flavors.delete("9")
    assert await room.events() == ["flavor.delete"]
    assert await room.events() == []


async def test_a_flavor_with_the_id_of_a_deleted_one_is_another_one(room: Room) -> None:
    for _ in range(2):
        await room.world.cloud.flavors.create(HUGE, 1.0)
        await room.objects.announce()
        await room.world.cloud.flavors.delete("9")
        await room.objects.announce()
        room.restart()
    ids = [each.id for each in room.sink.sent]
    assert [each.event for each in room.sink.sent] == ["flavor.create", "flavor.delete"] * 2
    assert len(set(ids)) == 4


async def test_aggregates(room: Room) -> None:
    aggregates = room.world.cloud.aggregates
    made = await aggregates.create("a", room.world.cloud.ids.uuid(), {"ssd": "true"}, 1.0)
    await aggregates.add_host(made.id, H1, 1.0)
    told = await room.told()
    assert [event for event, _ in told] == [
        *("aggregate.create.start", "aggregate.create.end"),
        *("aggregate.add_host.start", "aggregate.add_host.end"),
    ]
    assert [data["hosts"] for _, data in told] == [None, [], [], ["h1"]]
    await aggregates.rename(made.id, "b", 2.0)
    assert await room.events() == ["aggregate.update_prop.start", "aggregate.update_prop.end"]
    await aggregates.set_metadata(made.id, {"ssd": None}, 3.0)
    assert await room.events() == ["aggregate.update_metadata.start", "aggregate.update_metadata.end"]
    await aggregates.remove_host(made.id, H1, 4.0)
    assert await room.events() == ["aggregate.remove_host.start", "aggregate.remove_host.end"]
    await aggregates.delete(made.id)
    assert await room.events() == ["aggregate.delete.start", "aggregate.delete.end"]


async def test_server_groups(room: Room) -> None:
    groups = room.world.cloud.server_groups
    group = ServerGroup(
        id=GroupId("g"), name="g", project_id=PROJECT, user_id=USER, policy="anti-affinity", created_at=1.0
    )
    await groups.create(group, -1)
    [(event, data)] = await room.told()
    assert (event, data["policies"], data["rules"], data["members"]) == (
        *("server_group.create", ["anti-affinity"]),
        *({}, []),
    )
    await groups.delete(GroupId("g"))
    assert await room.events() == ["server_group.delete"]


async def test_a_change_while_no_process_ran_is_announced(room: Room) -> None:
    await room.world.cloud.flavors.create(HUGE, 1.0)
    room.restart()
    assert await room.events() == ["flavor.create"]


async def test_what_was_not_noted_is_sent_again_with_the_same_id(room: Room) -> None:
    await room.world.cloud.flavors.create(HUGE, 1.0)
    put, ids = room.keep.put, []

    async def killed(space: str, key: str, value: bytes) -> None:
        raise Unavailable("killed")

    room.keep.put = killed  # type: ignore[method-assign]
    for _ in range(2):
        with pytest.raises(Unavailable):
            await room.objects.announce()
        ids += [each.id for each in room.sink.sent]
        room.sink.sent = []
        room.restart()
    room.keep.put = put  # type: ignore[method-assign]
    assert len(ids) == 2
    assert len(set(ids)) == 1
    assert await room.events() == ["flavor.create"]


async def test_the_same_change_twice_has_two_ids(room: Room) -> None:
    for reason in ("a", "b", "a"):
        await room.set_service(enabled=False, disabled_reason=reason)
        await room.objects.announce()
    assert len({each.id for each in room.sink.sent}) == 3


async def test_a_broker_that_is_away_delays_them(room: Room) -> None:
    await room.world.cloud.flavors.create(HUGE, 1.0)
    room.sink.is_away = True
    with pytest.raises(Unavailable):
        await room.objects.announce()
    room.sink.is_away = False
    assert await room.events() == ["flavor.create"]


def key(name: str, comment: str, created_at: float = 1.0) -> Keypair:
    public_key = f"ssh-rsa AAAA {comment}"
    return Keypair(user_id=USER, name=name, public_key=public_key, fingerprint="aa:bb", created_at=created_at)


async def test_keypairs(room: Room) -> None:
    keypairs = room.world.cloud.keypairs
    await keypairs.create(key("mine", "me@home"), -1)
    (start, before), (end, data) = await room.told()
    assert (start, end) == ("keypair.import.start", "keypair.import.end")
    assert (before["fingerprint"], before["public_key"]) == (None, "ssh-rsa AAAA me@home")
    assert data == {
        "user_id": USER, "name": "mine", "type": "ssh", "fingerprint": "aa:bb", "public_key": "ssh-rsa AAAA me@home",
    }  # fmt: skip
    await keypairs.create(key("made", GENERATED), -1)
    (start, before), (end, data) = await room.told()
    assert (start, end, data["name"]) == ("keypair.create.start", "keypair.create.end", "made")
    assert (before["fingerprint"], before["public_key"], data["fingerprint"]) == (None, None, "aa:bb")
    room.restart()
    assert await room.events() == []
    await keypairs.delete(USER, "mine")
    await keypairs.create(key("mine", "another"), -1)
    assert await room.events() == [
        "keypair.delete.start", "keypair.delete.end", "keypair.import.start", "keypair.import.end",
    ]  # fmt: skip
    assert await room.events() == []
    await keypairs.delete(USER, "mine")
    await keypairs.create(key("next", "another", 2.0), -1)  # on SQLite with the same number
    assert await room.events() == [
        "keypair.delete.start", "keypair.delete.end", "keypair.import.start", "keypair.import.end",
    ]  # fmt: skip


async def test_of_keypairs_only_the_new_ones_are_read(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    keypairs = room.world.cloud.keypairs
    reads, numbered = list[int](), keypairs.numbered

    async def counted(numbers: Sequence[int]) -> list[Keypair]:
        reads.append(len(numbers))
        return await numbered(numbers)

    monkeypatch.setattr(keypairs, "numbered", counted)
    for change in (
        keypairs.create(key("a", "b"), -1), keypairs.create(key("b", "b"), -1), keypairs.delete(USER, "a"),
    ):  # fmt: skip
        await change
        for _ in "ab":
            await room.events()
    assert reads == [1, 1, 0]


def test_a_generated_key_is_recognized() -> None:
    ssh, certificate = new_ssh().public, new_x509("ann", 1.0).public
    of_an_older_release = f"ssh-rsa AAAA {GENERATED}"
    assert [is_generated(each) for each in (ssh, certificate, of_an_older_release)] == [True, True, True]
    text = "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n"
    assert not any(is_generated(each) for each in ("ssh-rsa AAAA me", text.format("AAAA"), text.format("") + "more"))
