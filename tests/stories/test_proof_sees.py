"""A proof finds violations that an adversary hides in parked moves and beside all moves."""

import json

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from tests.broken_ports import provider
from tests.stories import breaking
from tests.stories.breaking import FREE_VOLUME, Act, Scene, run
from whimbrel.adapters.sql.tables.cell import pci_devices
from whimbrel.adapters.sql.tables.cell import servers as records
from whimbrel.adapters.sql.tables.global_ import directory, runs
from whimbrel.adapters.sql.tables.placement import consumers, host_zones, inventories
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.host import Zone
from whimbrel.domain.ids import GroupId, HostName, ProviderId, ServerId
from whimbrel.domain.server import Server
from whimbrel.moves import requests
from whimbrel.ports.placement.placement import GroupLocations
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.ports.stores.server_groups import ServerGroup
from whimbrel.proof.group_members import grouped
from whimbrel.proof.invariants.server_groups import Grouped, rule_holds
from whimbrel.proof.proof import prove
from whimbrel.repair.service import survey
from whimbrel.servers import lookup


async def park(scene: Scene, server: Server, host: str = "h3") -> Server:
    """Make a server wait for a verdict there."""
    world, engine = scene.world, scene.world.engine("e")
    await requests.migrate(world.cloud, engine, world.requester(), server, HostName(host))
    await world.settle(engine)
    now = await lookup.find(world.cloud, server.id)
    assert (now.host, now.vm_state) == (host, "resized")
    return now


def key(server: Server) -> GuestKey:
    assert server.slot
    return GuestKey(server.id, server.slot)


async def change(scene: Scene, server_id: ServerId, **columns: object) -> None:
    await run(scene, "cell_c1", sa.update(records).where(records.c.id == server_id).values(**columns))


# While a move waits


async def its_guest_is_gone(scene: Scene) -> None:
    now = await park(scene, scene.plain)
    await scene.world.hypervisors[HostName("h3")].destroy(key(now))


async def its_guest_is_off(scene: Scene) -> None:
    now = await park(scene, scene.plain)
    await scene.world.hypervisors[HostName("h3")].stop(key(now), 0)


async def the_source_has_nothing_to_go_back_to(scene: Scene) -> None:
    await park(scene, scene.plain)
    await scene.world.hypervisors[HostName("h2")].destroy(key(scene.plain))


async def a_third_guest(scene: Scene) -> None:
    await park(scene, scene.plain)
    await breaking.make_guest(scene, scene.plain, "h1", "by-hand", runs=False)


async def its_lock_is_lost(scene: Scene) -> None:
    await park(scene, scene.plain)
    await change(scene, scene.plain.id, locked_by_run=None)


async def its_row_is_lost(scene: Scene) -> None:
    await park(scene, scene.plain)
    await run(scene, "global", sa.delete(runs).where(runs.c.state == "parked"))


async def its_port_is_active_at_the_source(scene: Scene) -> None:
    await park(scene, scene.rich, "h2")
    port = await scene.world.remains.network.port(scene.rich.nics[1].port_id)
    await scene.world.remains.network.activate_binding(port.id, HostName("h1"))


async def it_has_another_volume(scene: Scene) -> None:
    await park(scene, scene.plain)
    await scene.world.remains.volumes.reserve(scene.plain.id, FREE_VOLUME, ())


async def it_holds_a_device_of_a_third_host(scene: Scene) -> None:
    now = await park(scene, scene.plain, "h2" if scene.plain.host != "h2" else "h1")
    free = sa.update(pci_devices).where(pci_devices.c.server_id.is_(None), pci_devices.c.host == "h3")
    await run(scene, "cell_c1", free.values(server_id=now.id, slot=now.slot, request="x"))


async def it_holds_nothing_at_the_source(scene: Scene) -> None:
    await park(scene, scene.plain)
    [move] = await scene.world.cloud.journal.find(RunFilter(subject=scene.plain.id, only_open=True))
    await breaking.hold(scene.world, ServerId(move.id), {})


# While a move is under way


async def begin(scene: Scene) -> None:
    """Make a move begin that nobody drives."""
    world = scene.world
    engine = world.engine("e", adopt=lambda run: True)
    await requests.migrate(world.cloud, engine, world.requester(), scene.plain, HostName("h3"))


async def a_guest_that_its_move_does_not_know(scene: Scene) -> None:
    await begin(scene)
    await breaking.make_guest(scene, scene.plain, "h2", "by-hand", runs=False)


async def a_device_that_its_move_does_not_know(scene: Scene) -> None:
    await begin(scene)
    await breaking.device_held(scene)


# At any time


async def it_waits_for_nobody(scene: Scene) -> None:
    """Make its record say that it waits for a verdict; there is no move that would take one."""
    of_it = records.c.id == scene.plain.id
    async with scene.world.remains.databases["cell_c1"].write() as tx:
        record = json.loads((await tx.run(sa.select(records.c.record).where(of_it))).scalar())
        raw = json.dumps(record | {"vm_state": "resized"}).encode()
        await tx.run(sa.update(records).where(of_it).values(record=raw, vm_state="resized"))


async def its_columns_lie(scene: Scene) -> None:
    """Make lists find it where it is not."""
    await change(scene, scene.plain.id, host="h3", vm_state="stopped")


async def the_directory_has_it_of_another_project(scene: Scene) -> None:
    of_it = directory.c.server_id == scene.plain.id
    await run(scene, "global", sa.update(directory).where(of_it).values(project_id="another"))


async def a_move_is_leased_for_ever(scene: Scene) -> None:
    """Make a conductor that is no more hold a run until the year 5138."""
    await begin(scene)
    await run(scene, "global", sa.update(runs).where(runs.c.state == "open").values(owner="ghost", due_at=1e11))


async def its_devices_were_released(scene: Scene) -> None:
    await run(scene, "cell_c1", sa.update(pci_devices).values(server_id=None, slot=None, request=None))


async def it_holds_every_device(scene: Scene) -> None:
    free = sa.update(pci_devices).where(pci_devices.c.server_id.is_(None))
    await run(scene, "cell_c1", free.values(server_id=scene.rich.id, slot=scene.rich.slot, request="x"))


async def a_volume_of_two_servers(scene: Scene) -> None:
    """Make a volume kept for a second server, as if it might be for several."""
    storage, volume_id = scene.world.remains.volumes, scene.rich.volumes[0].volume_id
    volume = storage._volumes[volume_id]
    storage._volumes[volume_id] = replace(volume, is_multiattach=True)
    await storage.reserve(scene.plain.id, volume_id, ())
    storage._volumes[volume_id] = volume


async def an_attachment_is_loose(scene: Scene) -> None:
    """Make the attachment of a running server connected to nothing."""
    storage, attachment_id = scene.world.remains.volumes, scene.rich.volumes[0].attachment_id
    storage._attachments[attachment_id] = replace(storage._attachments[attachment_id], status="reserved")


async def a_volume_is_attached_on_another_host(scene: Scene) -> None:
    scene.world.remains.volumes._connectors[scene.rich.volumes[0].attachment_id]["host"] = "h3"


async def a_volume_is_gone(scene: Scene) -> None:
    del scene.world.remains.volumes._volumes[scene.rich.volumes[0].volume_id]


async def all_is_said_to_be_used(scene: Scene) -> None:
    await run(scene, "placement", sa.update(inventories).where(inventories.c.resource_class == "VCPU").values(used=9))


async def placement_has_it_of_another_project(scene: Scene) -> None:
    of_it = consumers.c.uuid == scene.plain.id
    await run(scene, "placement", sa.update(consumers).where(of_it).values(project="another"))


SEEN: dict[Act, set[str]] = {
    its_guest_is_gone: {"missing_guest"},
    its_guest_is_off: {"guest_differs"},
    the_source_has_nothing_to_go_back_to: {"no_way_back"},
    a_third_guest: {"stray_guest", "unclaimed_guest"},
    its_lock_is_lost: {"lost_lock"},
    its_port_is_active_at_the_source: {"port_elsewhere"},
    it_has_another_volume: {"stray_attachment"},
    it_holds_a_device_of_a_third_host: {"leaked_device"},
    it_holds_nothing_at_the_source: {"wrong_claim_of_move", "unclaimed_guest"},
    a_guest_that_its_move_does_not_know: {"stray_guest"},
    a_device_that_its_move_does_not_know: {"leaked_device"},
    it_waits_for_nobody: {"no_move"},
    its_columns_lie: {"columns_differ"},
    the_directory_has_it_of_another_project: {"columns_differ"},
    a_move_is_leased_for_ever: {"never_due"},
    its_devices_were_released: {"devices_differ"},
    it_holds_every_device: {"devices_differ", "leaked_device"},
    a_volume_of_two_servers: {"attached_twice"},
    a_volume_is_attached_on_another_host: {"attached_elsewhere"},
    a_volume_is_gone: {"no_volume"},
    all_is_said_to_be_used: {"miscounted", "over_capacity"},
    placement_has_it_of_another_project: {"wrong_owner"},
    an_attachment_is_loose: {"loose_attachment"},
}


@pytest.mark.parametrize("act", SEEN, ids=lambda act: act.__name__)
async def test_it_is_seen_and_no_more_is_said(scene: Scene, act: Act) -> None:
    """And there is a plan for it, or a sentence of what a person can do."""
    await act(scene)
    proof, findings = await survey(scene.world.cloud)
    assert {one.kind for one in proof.violations} == SEEN[act], proof.violations
    words = [words for one in findings for words in one.plan.left]
    assert not any("there is no known repair" in each for each in words), words


async def test_a_server_whose_move_is_not_in_the_journal_is_seen(scene: Scene) -> None:
    await its_row_is_lost(scene)
    kinds = {one.kind for one in (await prove(scene.world.cloud)).violations}
    assert {"no_move", "leaked_lock"} <= kinds


@pytest.mark.parametrize("is_rich", [False, True])
async def test_nothing_is_said_of_a_move_that_waits(scene: Scene, is_rich: bool) -> None:
    await (park(scene, scene.rich, "h2") if is_rich else park(scene, scene.plain))
    proof = await prove(scene.world.cloud)
    assert proof.holds, proof.violations


async def test_a_run_that_was_leased_for_ever_goes_on_when_it_is_retried(scene: Scene) -> None:
    world, engine = scene.world, scene.world.engine("other")
    await a_move_is_leased_for_ever(scene)
    [move] = await world.cloud.journal.find(RunFilter(subject=scene.plain.id, only_open=True))
    await requests.retry(world.cloud, engine, move.id)
    await world.settle(engine)
    assert (await lookup.find(world.cloud, scene.plain.id)).vm_state == "resized"
    assert (await prove(world.cloud)).holds


async def test_places_of_a_group_are_shown_by_the_names_of_hosts(scene: Scene) -> None:
    hosts = {HostName("h3"): ProviderId("a-root")}
    places = GroupLocations(held=frozenset({(scene.plain.id, ProviderId("a-root"))}))
    one = Grouped(group=group_of(scene), places=places, claimed=frozenset(), recorded=frozenset(), hosts=hosts)
    [said] = [violation.sentence for violation in rule_holds(one)]
    assert f"{scene.plain.id} on h3, and its members hold nothing" in said


def group_of(scene: Scene) -> ServerGroup:
    return ServerGroup(
        id=GroupId(scene.world.cloud.ids.uuid()), project_id=scene.plain.project_id, user_id=scene.plain.user_id,
        name="g", policy="anti-affinity", members=(scene.plain.id,), created_at=0.0,
    )  # fmt: skip


async def test_a_group_that_holds_something_of_a_provider_not_seen_before_breaks_nothing_off(scene: Scene) -> None:
    one = await grouped(scene.world.cloud, group_of(scene), [], [scene.plain], {}, {})
    assert [server for server, _ in one.claimed] == [scene.plain.id]


async def test_zones_are_shown_by_their_names(scene: Scene) -> None:
    await scene.world.cloud.zones.ensure(Zone(id="an-id", name="Zürich"))
    await run(scene, "placement", sa.insert(host_zones).values(
        root=await provider(scene.world, "h3"), zone="an-id", version=1
    ))  # fmt: skip
    aggregates = scene.world.cloud.aggregates
    one = await aggregates.create("a", "uuid-a", {"availability_zone": "an-id"}, 1.0)
    await aggregates.add_host(one.id, HostName("h2"), 1.0)
    said = {violation.kind: violation.sentence for violation in (await prove(scene.world.cloud)).violations}
    assert said.keys() == {"zone_mistold", "zone_differs"}
    for sentence in said.values():
        assert "zone Zürich" in sentence
        assert "an-id" not in sentence
