"""Ports and attachments in which another project, or a user by the services themselves, names a server.

Neutron and Cinder take them. They are their maker's claims: the server does not have them, a proof does not count them.
"""

from typing import Any

from tests.api.devices import network, port, volume
from tests.api.front import OTHER_PROJECT, Front
from tests.api.test_volume_attachments import attach
from whimbrel.domain.ids import ServerId
from whimbrel.ports.cloud import Requester
from whimbrel.ports.services.network import Port
from whimbrel.reconcilers.late_effects_round import LATEST_S, release_late_effects
from whimbrel.servers import lookup
from whimbrel.servers.cleanup import orphans
from whimbrel.servers.cleanup.late_effects import clean_up
from whimbrel.servers.devices.recorded_volumes import RecordedVolumes

PROOF, REPAIRS = "/whimbrel/proof", "/whimbrel/repairs"


async def claim(front: Front, server: str) -> tuple[Port, str]:
    """Make another project say that its port and its volume are of this server."""
    net = network(front, name="theirs", project_id=OTHER_PROJECT)
    theirs = port(front, net, project_id=OTHER_PROJECT, device_id=server, device_owner="compute:nova")
    held = await front.world.cloud.volumes.reserve(ServerId(server), volume(front, project_id=OTHER_PROJECT), [])
    return theirs, held.id


async def check_proved(front: Front) -> None:
    proof = (await front.get(PROOF, who="admin"))["proof"]
    assert (proof["violations"], proof["holds"]) == ([], True)
    assert (await front.get(REPAIRS, who="admin"))["repairs"] == []


async def boot(front: Front) -> str:
    server = await front.boot(networks=[{"uuid": network(front)}])
    await attach(front, server, volume(front))
    return server


async def test_a_proof_does_not_count_what_another_project_claims(front: Front) -> None:
    server = await boot(front)
    await claim(front, server)
    await check_proved(front)


async def test_nor_while_a_move_waits_for_its_verdict(front: Front) -> None:
    server = await boot(front)
    await front.act(server, {"resize": {"flavorRef": "2"}})
    await front.settle()
    await claim(front, server)
    await check_proved(front)
    await front.act(server, {"confirmResize": None})
    await front.settle()
    await check_proved(front)


async def test_nor_of_a_server_that_is_no_more(front: Front) -> None:
    server = await boot(front)
    before, _ = await claim(front, server)
    await front.ask("DELETE", f"/servers/{server}")
    await front.settle()
    assert (await front.world.cloud.network.port(before.id)).device_id == server
    await claim(front, server)
    await check_proved(front)


async def test_the_server_does_not_have_it(front: Front) -> None:
    server = await boot(front)
    theirs, attachment = await claim(front, server)
    shown = (await front.get(f"/servers/{server}/os-interface"))["interfaceAttachments"]
    assert theirs.id not in [each["port_id"] for each in shown]
    assert (await front.ask("GET", f"/servers/{server}/os-interface/{theirs.id}")).status_code == 404
    group = front.world.remains.network.add_security_group((await record_of(front, server)).project_id, "open")
    await front.act(server, {"addSecurityGroup": {"name": "open"}})
    assert group not in (await front.world.cloud.network.port(theirs.id)).security_groups
    assert attachment in [each.id for each in await front.world.cloud.volumes.attachments(ServerId(server))]
    assert len((await front.get(f"/servers/{server}/os-volume_attachments"))["volumeAttachments"]) == 1


async def test_it_is_not_cleaned_up_and_locks_nothing(front: Front) -> None:
    server = await boot(front)
    await claim(front, server)
    record = await record_of(front, server)
    assert not await orphans.see(record, front.world.cloud)
    requester = Requester(user_id=record.user_id, project_id=record.project_id, request_id="req-1")
    assert not await clean_up(front.world.cloud, front.engine, requester, record)


async def own_claim(front: Front, server: str) -> tuple[Port, str]:
    """Make a member of the server's own project say that a port and a volume are of this server."""
    mine = port(front, network(front, name="more"), device_id=server, device_owner="compute:nova")
    held = await front.world.cloud.volumes.reserve(ServerId(server), volume(front), [])
    return mine, held.id


async def check_claims_stay(front: Front, server: str, mine: Port, attachment: str) -> None:
    assert (await front.world.cloud.network.port(mine.id)).device_id == server
    assert attachment in [one.id for one in await front.world.cloud.volumes.attachments(ServerId(server))]


async def test_what_a_member_of_the_servers_own_project_claims_is_no_violation_and_stays(front: Front) -> None:
    server = await boot(front)
    claims = await own_claim(front, server)
    await check_proved(front)
    refused = await front.ask("POST", REPAIRS, {"repair": {"subject": server}}, who="admin")
    assert refused.status_code == 400, refused.text
    await look_after(front)
    await check_claims_stay(front, server, *claims)
    assert (await front.ask("GET", f"/servers/{server}/os-interface/{claims[0].id}")).status_code == 404
    shown = (await front.get(f"/servers/{server}/os-interface"))["interfaceAttachments"]
    assert claims[0].id not in [each["port_id"] for each in shown]


async def test_nor_of_a_server_whose_volume_a_member_connects(front: Front) -> None:
    server = await boot(front)
    _, attachment = await own_claim(front, server)
    await front.world.cloud.volumes.connect(attachment, {"host": "a-laptop"})
    await check_proved(front)
    await front.world.cloud.volumes.complete(attachment)
    await check_proved(front)


async def test_nor_is_it_of_a_server_that_its_owner_has_deleted(front: Front) -> None:
    server = await boot(front)
    await front.ask("DELETE", f"/servers/{server}")
    await front.settle()
    claims = await own_claim(front, server)
    await check_proved(front)
    await look_after(front)
    await check_claims_stay(front, server, *claims)


async def look_after(front: Front) -> None:
    """Run the round that releases late effects while it still looks at the server."""
    await front.world.cloud.clock.sleep(LATEST_S)
    await release_late_effects(front.world.cloud, front.engine)
    await front.settle()


async def test_what_a_run_of_the_server_leaves_there_is_taken_away(front: Front) -> None:
    server = await boot(front)
    mine = port(front, network(front, name="more"))
    attached = await front.ask("POST", f"/servers/{server}/os-interface", {"interfaceAttachment": {"port_id": mine.id}})
    assert attached.status_code == 200, attached.text
    await front.settle()
    assert (await front.ask("DELETE", f"/servers/{server}/os-interface/{mine.id}")).status_code == 202
    await front.settle()
    await front.world.cloud.network.take_port(mine.id, ServerId(server), "compute:nova")
    proof = (await front.get(PROOF, who="admin"))["proof"]
    assert [each["kind"] for each in proof["violations"]] == ["stray_port"]
    await repaired(front, server)
    assert (await front.world.cloud.network.port(mine.id)).device_id == ""


async def test_no_backup_is_advised_for_a_second_attachment_by_a_user(front: Front) -> None:
    server, shared = await front.boot(), volume(front, is_multiattach=True)
    await attach(front, server, shared)
    volumes = front.world.cloud.volumes
    [named] = await volumes.attachments(ServerId(server))
    second = await volumes.reserve(ServerId(server), shared, [named.id])
    await volumes.connect(second.id, {"host": "a-laptop"})
    await volumes.complete(second.id)
    [found] = (await front.get(REPAIRS, who="admin"))["repairs"]
    assert ([each["kind"] for each in found["actions"]], found["left"]) == (["detach"], [])
    await repaired(front, server)
    assert [one.id for one in await volumes.attachments(ServerId(server))] == [named.id]


async def test_nor_where_both_say_the_same_host(front: Front) -> None:
    server, shared = await front.boot(), volume(front, is_multiattach=True)
    await attach(front, server, shared)
    volumes = front.world.cloud.volumes
    [named] = await volumes.attachments(ServerId(server))
    second = await volumes.reserve(ServerId(server), shared, [named.id])
    await volumes.connect(second.id, {"host": (await record_of(front, server)).host})
    await volumes.complete(second.id)
    [found] = (await front.get(REPAIRS, who="admin"))["repairs"]
    [left] = found["left"]
    assert "backup" not in left
    assert "detach the volume from the server and attach it again" in left


async def test_a_server_uses_what_its_record_names_and_may_use_anything_while_it_changes(front: Front) -> None:
    cloud, server = front.world.cloud, ServerId(await boot(front))
    users = RecordedVolumes(cloud.directory, cloud.cells)
    [own] = [one.id for one in await cloud.volumes.attachments(server)]
    _, theirs = await claim(front, server)
    assert await users.uses(server, own)
    assert not await users.uses(server, theirs)
    await front.act(server, {"resize": {"flavorRef": "2"}})
    await front.settle()
    assert await users.uses(server, theirs)
    await front.ask("DELETE", f"/servers/{server}")
    await front.settle()
    assert not await users.uses(server, own)


async def record_of(front: Front, server: str) -> Any:
    return await lookup.find(front.world.cloud, ServerId(server))


async def repaired(front: Front, server: str) -> None:
    answer = await front.ask("POST", REPAIRS, {"repair": {"subject": server}}, who="admin")
    assert answer.status_code == 202, answer.text
    await front.settle()
    await check_proved(front)
