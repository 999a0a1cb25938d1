"""What an evacuation may count on from every fence device."""

import pytest

from tests.contracts.fence_devices import SECRET, FencedMachine, SimulatedMachine
from whimbrel.domain.errors import Refused, Unavailable


@pytest.fixture(params=["simulated", "redfish_machine", "ipmi"])
def machine(request: pytest.FixtureRequest) -> FencedMachine:
    """Return a machine that works."""
    if request.param == "simulated":
        return SimulatedMachine()
    return request.getfixturevalue(request.param)


async def test_power_off_turns_the_machine_off(machine: FencedMachine) -> None:
    assert await machine.device.power() == "on"
    await machine.device.power_off()
    assert await machine.device.power() == "off"
    assert not await machine.works()


async def test_power_off_can_be_repeated(machine: FencedMachine) -> None:
    await machine.device.power_off()
    await machine.device.power_off()
    assert await machine.device.power() == "off"


async def test_a_machine_that_was_turned_on_again_is_on(machine: FencedMachine) -> None:
    await machine.device.power_off()
    await machine.turn_on()
    assert await machine.device.power() == "on"
    assert await machine.works()


async def test_a_device_that_does_not_answer_is_unavailable(machine: FencedMachine) -> None:
    device = machine.silent()
    with pytest.raises(Unavailable):
        await device.power_off()
    with pytest.raises(Unavailable):
        await device.power()
    assert await machine.works()


async def test_a_device_that_says_no_refuses(machine: FencedMachine) -> None:
    device = machine.refusing()
    with pytest.raises(Refused):
        await device.power_off()
    with pytest.raises(Refused):
        await device.power()
    assert await machine.works()


async def test_what_is_shown_of_a_device_has_no_secret(machine: FencedMachine) -> None:
    device = machine.device
    assert device.kind
    assert device.address
    assert (
        SECRET
        not in f"{device.kind} {device.address} {device!r} {device.__dict__ if hasattr(device, '__dict__') else ''}"
    )
