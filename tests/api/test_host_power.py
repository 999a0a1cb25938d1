"""The power of a host through the API: only what its fence device confirms is answered as off."""

from collections.abc import AsyncIterator

import pytest

from tests.api.front import Front, fault, opened
from whimbrel.domain.ids import HostName
from whimbrel.sim.world.power_switch import PowerSwitch

H1 = HostName("h1")
OFF = {"power": {"state": "off"}}
URL = "/whimbrel/hosts/h1/power"


@pytest.fixture
async def front() -> AsyncIterator[Front]:
    async with opened() as made:
        made.world.fences.by_host[H1] = PowerSwitch(H1, made.world.simulated, made.world.remains.clock)
        yield made


@pytest.fixture
def switch(front: Front) -> PowerSwitch:
    return front.world.fences.by_host[H1]


async def test_the_power_of_a_host_is_shown_and_cut(front: Front, switch: PowerSwitch) -> None:
    shown = {"host": "h1", "device": "simulated", "address": "simulated:h1"}
    assert await front.get(URL, who="admin") == {"power": {**shown, "power": "on"}}
    for _ in range(2):  # it may be repeated
        answer = await front.ask("PUT", URL, OFF, who="admin")
        assert answer.status_code == 200, answer.text
        assert answer.json() == {"power": {**shown, "power": "off"}}
    assert front.world.simulated.off == {H1}
    assert await front.get(URL, who="admin") == {"power": {**shown, "power": "off"}}


async def test_a_lost_answer_is_asked_for_again(front: Front, switch: PowerSwitch) -> None:
    """The order is repeated until the device says off, or the time is over."""
    switch.unheard.add("power_off")
    said = fault(await front.ask("PUT", URL, OFF, who="admin"), "serviceUnavailable", 503)
    assert "did not confirm within 20 s" in said
    assert H1 in front.world.simulated.off, "it was carried out: nobody may conclude the opposite"
    switch.unheard.clear()
    assert (await front.ask("PUT", URL, OFF, who="admin")).status_code == 200


async def test_a_device_that_takes_the_order_and_leaves_the_machine_on_confirms_nothing(
    front: Front, switch: PowerSwitch
) -> None:
    switch.is_stuck = True
    said = fault(await front.ask("PUT", URL, OFF, who="admin"), "serviceUnavailable", 503)
    assert "it says that the machine is on" in said


async def test_a_silent_device_and_one_that_says_no_are_told_apart(front: Front, switch: PowerSwitch) -> None:
    switch.unanswered.add("power")
    fault(await front.ask("GET", URL, who="admin"), "serviceUnavailable", 503)
    switch.refused.add("power_off")
    fault(await front.ask("PUT", URL, OFF, who="admin"), "badRequest", 400)


async def test_a_host_without_a_device_says_what_to_do(front: Front) -> None:
    said = fault(await front.ask("PUT", "/whimbrel/hosts/h2/power", OFF, who="admin"), "badRequest", 400)
    assert "declare one there with [[fence]]" in said
    fault(await front.ask("GET", "/whimbrel/hosts/h9/power", who="admin"), "itemNotFound", 404)


async def test_only_administrators_reach_the_power(front: Front) -> None:
    for who in ("member", "manager"):
        fault(await front.ask("GET", URL, who=who), "forbidden", 403)
        fault(await front.ask("PUT", URL, OFF, who=who), "forbidden", 403)
    fault(await front.ask("PUT", URL, {"power": {"state": "on"}}, who="admin"), "badRequest", 400)
    assert not front.world.simulated.off
