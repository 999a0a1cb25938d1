"""os-server-external-events: each piece of news has a code of its own, and what is answered with 200 is done."""

from typing import Any

from msgspec.structs import replace

from tests.api.devices import network, port
from tests.api.front import Front, fault
from whimbrel.domain.ids import ServerId
from whimbrel.domain.server_devices import FixedIp

NOWHERE = "99999999-9999-4999-8999-999999999999"


async def tell(front: Front, *events: dict[str, Any], minor: int = 104, who: str = "service") -> Any:
    answer = await front.ask("POST", "/os-server-external-events", {"events": list(events)}, who=who, minor=minor)
    heard = answer.json()["events"]
    assert answer.status_code == (200 if all(event["code"] == 200 for event in heard) else 207)
    return [event["code"] for event in heard]


async def test_changed_addresses_are_shown(front: Front) -> None:
    server_id = await front.boot(networks=[{"uuid": network(front)}])
    service = front.world.remains.network
    [mine] = await service.ports_of([ServerId(server_id)])
    service._ports[mine.id] = replace(mine, addresses=(FixedIp("10.0.0.200", mine.addresses[0].subnet_id),))
    assert (await front.show(server_id))["addresses"]["private"][0]["addr"] != "10.0.0.200"
    event = {"name": "network-changed", "server_uuid": server_id, "tag": mine.id}
    assert await tell(front, event, event) == [200, 200]
    assert (await front.show(server_id))["addresses"]["private"][0]["addr"] == "10.0.0.200"


async def test_a_port_that_was_deleted_leaves_the_guest(front: Front) -> None:
    a = network(front)
    mine = port(front, a)
    server_id = await front.boot(networks=[{"uuid": a}, {"port": mine.id}])
    await front.world.cloud.network.delete_port(mine.id)
    event = {"name": "network-vif-deleted", "server_uuid": server_id, "tag": mine.id}
    assert await tell(front, event) == [200]
    assert await tell(front, event) == [200]  # it is being done
    await front.settle()
    assert len((await front.show(server_id))["addresses"]["private"]) == 1
    assert await tell(front, event) == [200]  # it is done


async def test_several_ports_of_a_server_leave_it_by_one_request(front: Front) -> None:
    a = network(front)
    ports = [port(front, a) for _ in "ab"]
    server_id = await front.boot(networks=[{"port": each.id} for each in ports])
    for each in ports:
        await front.world.cloud.network.delete_port(each.id)
    events = [{"name": "network-vif-deleted", "server_uuid": server_id, "tag": each.id} for each in ports]
    assert await tell(front, *events) == [200, 200]
    await front.settle()
    assert (await front.guest(server_id)).ports == ()


async def test_every_event_has_its_own_code(front: Front) -> None:
    server_id = await front.boot()
    unplaced = await front.boot("waits", settle=False, flavorRef="1")
    plugged = {"name": "network-vif-plugged", "server_uuid": server_id, "tag": "p", "status": "completed"}
    answer = await front.ask(
        "POST",
        "/os-server-external-events",
        {
            "events": [
                plugged,
                plugged | {"server_uuid": NOWHERE},
                plugged | {"server_uuid": unplaced},
                {"name": "volume-extended", "server_uuid": server_id},
                {"name": "volume-extended", "server_uuid": server_id, "tag": NOWHERE},
                {"name": "power-update", "server_uuid": server_id, "tag": "POWER_OFF"},
                {"name": "volume-reimaged", "server_uuid": server_id, "tag": NOWHERE},
                plugged | {"status": "failed"},
            ]
        },
        who="service",
    )
    assert answer.status_code == 207
    heard = answer.json()["events"]
    assert [event["code"] for event in heard] == [200, 404, 422, 400, 200, 200, 200, 200]
    assert [event["status"] for event in heard] == ["completed", *["failed"] * 3, *["completed"] * 4]
    assert heard[0] == plugged | {"code": 200}


async def test_who_may_tell_what_by_version(front: Front) -> None:
    server_id = await front.boot()
    body = {"events": [{"name": "network-changed", "server_uuid": server_id}]}
    for who, code in (("service", 200), ("admin", 200), ("member", 403), ("manager", 403)):
        assert (await front.ask("POST", "/os-server-external-events", body, who=who)).status_code == code
    for name, since in (("volume-extended", 51), ("power-update", 76), ("volume-reimaged", 93)):
        event = {"name": name, "server_uuid": server_id}
        assert await tell(front, event, minor=since) == [400]  # by its tag, which is missing
        answer = await front.ask(
            "POST", "/os-server-external-events", {"events": [event]}, who="service", minor=since - 1
        )
        fault(answer, "badRequest", 400)
    for wrong in ({}, {"events": []}, {"events": [{"name": "network-changed"}]}):
        fault(await front.ask("POST", "/os-server-external-events", wrong, who="service"), "badRequest", 400)
