"""Every microversion: the table of them says what differs from the one before, and a test sees it.

Routes, bodies and queries are compared with Nova's in test_nova_routes.py and test_nova_schemas.py, the keys of answers
in test_nova_answers.py. Here is what else requests do: each with what is seen before and after.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import pytest

from tests.api import nova_facts
from tests.api.devices import network, port, volume
from tests.api.front import Front, opened
from tests.api.live_moves import AUTO, SLOW, standing_at
from tests.api.test_create_devices import REQUEST
from tests.api.test_down_cells import CELLS, boot_on, take_away
from tests.api.test_evacuations import born, die
from tests.api.test_rebuild import NEW_IMAGE, add_image, volume_backed
from tests.api.test_remote_consoles import VNC, remote, token_of
from tests.api.test_rescue import RESCUE_IMAGE, rescue_image
from tools.microversion_table import ANSWERS, WITHOUT_EFFECT, in_routes
from whimbrel.api.http.microversions import FIRST, LAST
from whimbrel.sim.cloud.cloud import IMAGE, USER


class Probe(NamedTuple):
    """What is seen of a new cloud at the version before and at the version. cloud: arguments of `opened`."""

    look: Callable[[Front, int], Awaitable[Any]]
    before: Any
    now: Any
    cloud: Mapping[str, Any] = {}


async def status(front: Front, minor: int, method: str, path: str, body: Any = None, who: str = "admin") -> int:
    return (await front.ask(method, path, body, who=who, minor=minor)).status_code


async def act(front: Front, minor: int, server: str, action: Mapping[str, Any]) -> int:
    return await status(front, minor, "POST", f"/servers/{server}/action", action)


async def statuses_of_keypairs(front: Front, minor: int) -> tuple[int, int]:
    made = await status(front, minor, "POST", "/os-keypairs", {"keypair": {"name": "k"}})
    return made, await status(front, minor, "DELETE", "/os-keypairs/k")


def count_of(query: str) -> Callable[[Front, int], Awaitable[int]]:
    """Return a probe that counts a member's servers, of which there is one."""

    async def count(front: Front, minor: int) -> int:
        await front.boot()
        return len((await front.get(f"/servers?{query}", minor=minor))["servers"])

    return count


async def access_to_a_public_flavor(front: Front, minor: int) -> int:
    return await status(front, minor, "POST", "/flavors/1/action", {"addTenantAccess": {"tenant": "p"}})


async def keypairs_of_another_user(front: Front, minor: int) -> int:
    await front.ask("POST", "/os-keypairs", {"keypair": {"name": "k"}}, minor=1)
    found = await front.get(f"/os-keypairs?user_id={USER}", who="admin", minor=minor)
    return len(found["keypairs"])


async def answer_to_an_evacuation(front: Front, minor: int) -> set[str]:
    server = await born(front)
    await die(front, "h1")
    arguments = {"onSharedStorage": False} if minor < 14 else {}
    answer = await front.act(server, {"evacuate": arguments}, who="admin", minor=minor)
    assert answer.status_code == 200, answer.text
    return set(answer.json()) if answer.content else set()


async def attach_to_a_shelved_server(front: Front, minor: int) -> int:
    server = await front.boot()
    await front.act(server, {"shelve": None})
    await front.settle()
    body = {"volumeAttachment": {"volumeId": volume(front)}}
    return await status(front, minor, "POST", f"/servers/{server}/os-volume_attachments", body)


async def actions_of_a_deleted_server(front: Front, minor: int) -> int:
    server = await front.boot()
    await front.ask("DELETE", f"/servers/{server}")
    await front.settle()
    return await status(front, minor, "GET", f"/servers/{server}/os-instance-actions")


async def token_of_a_console(front: Front, minor: int) -> int:
    shown = (await remote(front, await front.boot(), **VNC)).json()["remote_console"]
    return await status(front, minor, "GET", f"/os-console-auth-tokens/{token_of(shown['url'])}")


async def live_migration_without_a_host(front: Front, minor: int) -> int:
    server = await front.boot(who="admin", host="h1")
    for host in ("h2", "h3"):
        [service] = (await front.get(f"/os-services?host={host}", who="admin"))["services"]
        await front.ask("PUT", f"/os-services/{service['id']}", {"status": "disabled"}, who="admin")
    return await act(front, minor, server, {"os-migrateLive": AUTO})


async def list_of_an_unknown_status(front: Front, minor: int) -> int:
    return await status(front, minor, "GET", "/servers?status=none", who="member")


async def members_see_events(front: Front, minor: int) -> bool:
    server = await front.boot()
    path = f"/servers/{server}/os-instance-actions"
    [made] = (await front.get(path))["instanceActions"]
    return "events" in (await front.get(f"{path}/{made['request_id']}", minor=minor))["instanceAction"]


async def attach_of_a_shared_volume(front: Front, minor: int) -> int:
    body = {"volumeAttachment": {"volumeId": volume(front, is_multiattach=True)}}
    return await status(front, minor, "POST", f"/servers/{await front.boot()}/os-volume_attachments", body)


async def abort_of_a_queued_migration(front: Front, minor: int) -> int:
    server = await front.boot(who="admin", host="h1")
    async with standing_at(front, server, "queued") as migration:
        return await status(front, minor, "DELETE", f"/servers/{server}/migrations/{migration['id']}")


async def servers_of_a_down_cell(front: Front, minor: int) -> list[str]:
    await boot_on(front, "s", "h2")
    take_away(front)
    return [server["status"] for server in (await front.get("/servers", minor=minor))["servers"]]


async def port_with_bandwidth(front: Front, minor: int) -> int:
    networks = [{"port": port(front, network(front), REQUEST).id}]
    server = {"name": "s", "flavorRef": "1", "imageRef": IMAGE, "networks": networks}
    return await status(front, minor, "POST", "/servers", {"server": server}, who="member")


async def malformed_extra_spec(front: Front, minor: int) -> int:
    specs = {"extra_specs": {"hw:numa_nodes": "none"}}
    return await status(front, minor, "POST", "/flavors/1/os-extra_specs", specs)


async def rescue_of_a_volume(front: Front, minor: int) -> int:
    server = await volume_backed(front)
    await rescue_image(front, hw_rescue_device="disk", hw_rescue_bus="virtio")
    return await act(front, minor, server, {"rescue": {"rescue_image_ref": RESCUE_IMAGE}})


async def members_see_hostnames(front: Front, minor: int) -> bool:
    return "OS-EXT-SRV-ATTR:hostname" in await front.show(await front.boot(), minor=minor)


async def unshelve_to_a_host(front: Front, minor: int) -> int:
    server = await front.boot()
    await front.act(server, {"shelve": None})
    await front.settle()
    return await act(front, minor, server, {"unshelve": {"host": "h2"}})


async def rebuild_of_a_volume(front: Front, minor: int) -> int:
    await add_image(front)
    server = await volume_backed(front)
    return await act(front, minor, server, {"rebuild": {"imageRef": NEW_IMAGE}})


async def status_after_an_evacuation(front: Front, minor: int) -> str:
    server = await born(front)
    await die(front, "h1")
    await front.act(server, {"evacuate": {}}, who="admin", minor=minor)
    await front.settle()
    shown: str = (await front.show(server))["status"]
    return shown


async def status_of_an_attach(front: Front, minor: int) -> int:
    body = {"volumeAttachment": {"volumeId": volume(front)}}
    return await status(front, minor, "POST", f"/servers/{await front.boot()}/os-volume_attachments", body)


PROBES: Mapping[int, Probe] = {
    2: Probe(statuses_of_keypairs, (200, 202), (201, 204)),
    5: Probe(count_of("ip6=none"), 1, 0),
    7: Probe(access_to_a_public_flavor, 200, 409),
    10: Probe(keypairs_of_another_user, 0, 1),
    14: Probe(answer_to_an_evacuation, {"adminPass"}, set()),
    20: Probe(attach_to_a_shelved_server, 409, 200),
    21: Probe(actions_of_a_deleted_server, 404, 200),
    26: Probe(count_of("tags=none"), 1, 0),
    31: Probe(token_of_a_console, 401, 200),
    34: Probe(live_migration_without_a_host, 400, 202),
    38: Probe(list_of_an_unknown_status, 200, 400),
    51: Probe(members_see_events, False, True),
    60: Probe(attach_of_a_shared_volume, 400, 200),
    65: Probe(abort_of_a_queued_migration, 400, 202, {"times": SLOW}),
    69: Probe(servers_of_a_down_cell, [], ["UNKNOWN"], {"cells": CELLS}),
    72: Probe(port_with_bandwidth, 400, 202),
    73: Probe(count_of("locked=true"), 1, 0),
    83: Probe(count_of("power_state=4"), 1, 0),
    86: Probe(malformed_extra_spec, 200, 400),
    87: Probe(rescue_of_a_volume, 400, 200),
    90: Probe(members_see_hostnames, False, True),
    91: Probe(unshelve_to_a_host, 400, 202),
    93: Probe(rebuild_of_a_volume, 400, 202),
    95: Probe(status_after_an_evacuation, "ACTIVE", "SHUTOFF"),
    101: Probe(status_of_an_attach, 200, 202),
}


def test_every_version_differs_or_says_why_not() -> None:
    for minor in range(FIRST + 1, LAST + 1):
        said = (bool(in_routes(minor)) or minor in ANSWERS, minor in WITHOUT_EFFECT)
        assert said in ((True, False), (False, True)), f"2.{minor}: {said}"


def test_other_answers_are_those_that_are_seen() -> None:
    of_keys = {minor for changes in nova_facts.answers().values() for minor in changes}
    assert of_keys | PROBES.keys() == ANSWERS


@pytest.mark.parametrize("version", PROBES)
async def test_what_requests_do_differs_as_in_nova(version: int) -> None:
    probe = PROBES[version]
    for minor, expected in ((version - 1, probe.before), (version, probe.now)):
        async with opened(**probe.cloud) as front:
            assert await probe.look(front, minor) == expected, f"2.{minor}"
