"""Simulated fence devices stop the guests of their hosts, unless they lie or fail."""

import asyncio

import pytest

from tests.contracts.fence_devices import SimulatedMachine
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.guest import GuestKey
from whimbrel.sim.world.phases import Times


@pytest.fixture
async def machine() -> SimulatedMachine:
    made = SimulatedMachine()
    await made.boot()
    return made


def powers(machine: SimulatedMachine) -> list[str]:
    return [guest.power for guest in machine.hypervisor.observed()]


async def test_power_off_stops_the_guests(machine: SimulatedMachine) -> None:
    assert powers(machine) == ["running"]
    await machine.switch.power_off()
    assert powers(machine) == ["stopped"]


async def test_a_host_without_power_does_not_answer(machine: SimulatedMachine) -> None:
    await machine.switch.power_off()
    for asked in (
        machine.hypervisor.guests(),
        machine.hypervisor.look(machine.spec.key),
        machine.hypervisor.start(machine.spec.key),
        machine.hypervisor.stop(machine.spec.key, 0),
        machine.hypervisor.capacity(),
    ):
        with pytest.raises(Unavailable):
            await asked


async def test_a_guest_that_was_starting_does_not_start_without_power(machine: SimulatedMachine) -> None:
    """The order was under way when the power went: it must not end with a running guest."""
    key: GuestKey = machine.spec.key
    await machine.hypervisor.stop(key, 0)
    slow = machine.hypervisor.reborn()
    slow._times = Times(start_s=5.0)
    starting = asyncio.ensure_future(slow.start(key))
    await asyncio.sleep(0)
    await machine.world.power_off(machine.host)
    with pytest.raises(Unavailable):
        await starting
    assert "running" not in [guest.power for guest in slow.observed()]


async def test_guests_stay_stopped_when_the_power_returns(machine: SimulatedMachine) -> None:
    await machine.switch.power_off()
    await machine.turn_on()
    assert [guest.power for guest in await machine.hypervisor.guests()] == ["stopped"]


async def test_a_device_that_lies_leaves_the_guests_running(machine: SimulatedMachine) -> None:
    machine.switch.lies = True
    await machine.switch.power_off()
    assert await machine.switch.power() == "off"
    assert powers(machine) == ["running"]


async def test_an_order_whose_answer_is_lost_was_carried_out(machine: SimulatedMachine) -> None:
    machine.switch.unheard.add("power_off")
    with pytest.raises(Unavailable):
        await machine.switch.power_off()
    assert await machine.switch.power() == "off"
    assert powers(machine) == ["stopped"]


async def test_a_slow_device_takes_its_time(machine: SimulatedMachine) -> None:
    machine.switch.takes_s, before = 30.0, machine.clock.now()
    await machine.switch.power_off()
    assert machine.clock.now() - before == 30.0
