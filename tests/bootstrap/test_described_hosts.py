"""The NICs and PCI devices in the description of a host, and how those are named that differ from the settings."""

from pathlib import Path

from msgspec import UnsetType
from structlog.testing import capture_logs

from tests.bootstrap.test_process_factory import CELL, HOST, Home
from whimbrel.adapters.memory_key_value_store import MemoryKeyValueStore
from whimbrel.bootstrap.described_hosts import LISTED_S, DescribedHost
from whimbrel.domain.guest import Capacity
from whimbrel.domain.host_hardware import FoundNic, FoundPciDevice, Hardware
from whimbrel.domain.ids import CellName, HostName
from whimbrel.sim.world.clock import JumpingClock
from whimbrel.sim.world.hosts import SimulatedWorld
from whimbrel.sim.world.hypervisor import SimulatedHypervisor
from whimbrel.sim.world.phases import Times

NIC = '[[cell.host.nic]]\nname = "eth0"\nphysnet = "front"\negress_kbps = 1000000\n'
PCI = '[[cell.host.pci]]\naddress = "0000:01:00.0"\nvendor_id = "10de"\nproduct_id = "1eb8"\n'
SETTINGS = CELL.format("one") + HOST.format("n1") + NIC + PCI
FOUND = Hardware(
    nics=(FoundNic(name="eth0", speed_mbps=1000, state="up"),),
    pci=(FoundPciDevice(address="0000:01:00.0", vendor_id="10de", product_id="1eb8"),),
)
NOTHING = Hardware(nics=(), pci=())


class Host:
    """A host of the settings above, whose hypervisor has other hardware."""

    def __init__(self, path: Path, has: Hardware) -> None:
        [(_, settings)] = Home(path).config(SETTINGS).hosts()
        capacity = Capacity(vcpus=4, memory_mib=4096, disk_gib=40, hypervisor_type="simulated", hypervisor_version=1)
        self.clock, self._world, store = JumpingClock(), SimulatedWorld(), MemoryKeyValueStore()
        self.hypervisor = SimulatedHypervisor(
            HostName("n1"), self._world, store, Times(), self.clock, capacity=capacity, hardware=has
        )
        self._described = DescribedHost(settings, self.hypervisor, self.clock)

    def power_off(self) -> None:
        self._world.off.add(HostName("n1"))

    async def describe(self) -> tuple[Hardware | UnsetType, list[str]]:
        """Return the hardware of the description, and the problems that were logged."""
        with capture_logs() as logs:
            described = await self._described.describe()
        return described.hardware, [entry["problem"] for entry in logs if "problem" in entry]


async def test_a_simulated_host_has_what_its_settings_declare(tmp_path: Path) -> None:
    home = Home(tmp_path)
    process = await home.start(SETTINGS)
    assert await process.cloud.cells[CellName("one")].hosts.hardware(HostName("n1")) == FOUND
    await process.close()


async def test_what_is_not_as_in_the_settings_is_named_once(tmp_path: Path) -> None:
    host = Host(tmp_path, NOTHING)
    problems = ["NIC eth0 was not found", "PCI device 0000:01:00.0 (10de:1eb8) was not found"]
    assert await host.describe() == (NOTHING, problems)
    host.clock.advance(LISTED_S)
    assert await host.describe() == (NOTHING, [])
    host.hypervisor.hardware = FOUND
    assert await host.describe() == (NOTHING, []), "it was listed a moment ago"
    host.clock.advance(LISTED_S)
    assert await host.describe() == (FOUND, [])
    host.hypervisor.hardware = NOTHING
    host.clock.advance(LISTED_S)
    assert await host.describe() == (NOTHING, problems), "they have gone again"


async def test_a_host_that_cannot_list_its_devices_is_not_checked_and_says_so(tmp_path: Path) -> None:
    host = Host(tmp_path, Hardware())
    found, problems = await host.describe()
    assert found == Hardware()
    assert problems == [
        "its NICs cannot be listed, so those of its settings are not checked: host n1 cannot list its NICs",
        "its PCI devices cannot be listed, so those of its settings are not checked:"
        " host n1 cannot list its PCI devices",
    ]


async def test_a_host_that_does_not_answer_keeps_what_was_found(tmp_path: Path) -> None:
    host = Host(tmp_path, FOUND)
    assert await host.describe() == (FOUND, [])
    host.clock.advance(LISTED_S)
    host.power_off()
    assert await host.describe() == (FOUND, [])
