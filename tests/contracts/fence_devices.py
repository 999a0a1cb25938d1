"""Machines with a fence device, for the contract of fence devices: simulated ones and real services."""

from abc import ABC, abstractmethod

from tests.contracts.hypervisors import CAPACITY, new_spec, quiet
from whimbrel.adapters.memory_key_value_store import MemoryKeyValueStore
from whimbrel.domain.guest import Capacity
from whimbrel.domain.ids import HostName
from whimbrel.ports.hosts.fencing import FenceDevice
from whimbrel.sim.world.clock import JumpingClock
from whimbrel.sim.world.hosts import SimulatedWorld
from whimbrel.sim.world.hypervisor import SimulatedHypervisor
from whimbrel.sim.world.phases import Times
from whimbrel.sim.world.power_switch import PowerSwitch

SECRET = "correct-horse"
"""The password of each device."""


class FencedMachine(ABC):
    """A machine that works, and its fence device."""

    device: FenceDevice

    @abstractmethod
    async def works(self) -> bool:
        """Check, without the device, whether the machine works."""

    @abstractmethod
    async def turn_on(self) -> None:
        """Turn the machine on again, without the device."""

    @abstractmethod
    def silent(self) -> FenceDevice:
        """Return a device of the same kind that does not answer."""

    @abstractmethod
    def refusing(self) -> FenceDevice:
        """Return a device of the same kind that says no."""


class SimulatedMachine(FencedMachine):
    """A simulated host with one running guest."""

    def __init__(self) -> None:
        self.world, self.clock, self.host = SimulatedWorld(), JumpingClock(), HostName("h1")
        capacity = Capacity(hypervisor_type="simulated", hypervisor_version=1, **CAPACITY)
        store = MemoryKeyValueStore()
        self.hypervisor = SimulatedHypervisor(self.host, self.world, store, Times(), self.clock, capacity=capacity)
        self.device = self.switch = PowerSwitch(self.host, self.world, self.clock)
        self.spec = new_spec()

    async def boot(self) -> None:
        await self.hypervisor.reserve(self.spec)
        await self.hypervisor.create_disk(self.spec, quiet)
        await self.hypervisor.define(self.spec)
        await self.hypervisor.start(self.spec.key)

    async def works(self) -> bool:
        return self.host not in self.world.off

    async def turn_on(self) -> None:
        self.world.power_on(self.host)

    def silent(self) -> FenceDevice:
        self.switch.unanswered |= {"power_off", "power"}
        return self.switch

    def refusing(self) -> FenceDevice:
        self.switch.refused |= {"power_off", "power"}
        return self.switch
