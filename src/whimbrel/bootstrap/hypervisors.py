"""Creates the hypervisors of the hosts in the settings, simulated and libvirt, and their agents' stores."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from whimbrel.adapters.sql.engine.databases import Databases
from whimbrel.adapters.sql.engine.schema import prepare
from whimbrel.adapters.sql.key_value_store import SqlKeyValueStore
from whimbrel.agent.fence import move_ledger
from whimbrel.domain.guest import Capacity
from whimbrel.domain.guest_hardware import TRAITS
from whimbrel.domain.host_hardware import FoundNic, FoundPciDevice, Hardware
from whimbrel.domain.ids import CellName, HostName
from whimbrel.ports.clock import Clock
from whimbrel.ports.hosts.hypervisor import Hypervisor
from whimbrel.ports.hosts.key_value_store import KeyValueStore
from whimbrel.ports.services.images import Images
from whimbrel.settings import CloudConfig, LibvirtHost, SimulatedHost
from whimbrel.settings.cell_sections import SimulatedTimes
from whimbrel.settings.datadir import DataDir
from whimbrel.sim.world.hosts import SimulatedWorld
from whimbrel.sim.world.hypervisor import SimulatedHypervisor
from whimbrel.sim.world.phases import Times
from whimbrel.sim.world.requested_faults import with_faults
from whimbrel.sim.world.witness import WitnessedStore


def hypervisors_of(
    config: CloudConfig, data: DataDir, store: SqlKeyValueStore, clock: Clock, images: Images
) -> dict[HostName, Hypervisor]:
    """Return the hypervisors of all hosts of the settings. store: of the guests of simulated hosts."""
    world = SimulatedWorld()
    return {
        HostName(host.name): hypervisor_of(
            host, CellName(cell.name), config.simulated, data.path, store, clock, images, world
        )
        for cell, host in config.hosts()
    }


def hypervisor_of(
    host: SimulatedHost | LibvirtHost, cell: CellName, simulated: SimulatedTimes, directory: Path,
    store: KeyValueStore, clock: Clock, images: Images, world: SimulatedWorld,
) -> Hypervisor:  # fmt: skip
    """Return the hypervisor of one host. directory: of its process. world: the simulated hosts of this process."""
    if not isinstance(host, SimulatedHost):
        return _libvirt(host, directory, images)
    if host.witness:
        store = WitnessedStore(store, HostName(host.name), Path(host.witness))
    times = Times(**{name: getattr(simulated, name) for name in Times.__struct_fields__})
    made = SimulatedHypervisor(
        HostName(host.name), world, store, times, clock,
        cell=cell, capacity=_capacity(host), images=images, hardware=_hardware(host),
    )  # fmt: skip
    return with_faults(made.host, made, Path(simulated.faults)) if simulated.faults else made


def _capacity(host: SimulatedHost) -> Capacity:
    return Capacity(
        vcpus=host.vcpus,
        memory_mib=host.memory_mib,
        disk_gib=host.disk_gib,
        hypervisor_type="simulated",
        hypervisor_version=1000,
        numa=host.numa,
        traits=TRAITS,
    )


def _hardware(host: SimulatedHost) -> Hardware:
    """Return the NICs and PCI devices that a simulated host has: those of its settings."""
    return Hardware(
        nics=tuple(
            FoundNic(name=card.name, speed_mbps=max(card.egress_kbps, card.ingress_kbps) // 1000 or None, state="up")
            for card in sorted(host.cards, key=lambda card: card.name)
        ),
        pci=tuple(
            FoundPciDevice(address=device.address, vendor_id=device.vendor_id, product_id=device.product_id)
            for device in sorted(host.pci, key=lambda device: device.address)
        ),
    )


def _libvirt(host: LibvirtHost, directory: Path, images: Images) -> Hypervisor:
    # An optional dependency: imported only if used.
    from whimbrel.adapters.brick.brick_client import BrickClient
    from whimbrel.adapters.libvirt.hypervisor import LibvirtHypervisor
    from whimbrel.adapters.libvirt.migration_settings import MigrationSettings

    return LibvirtHypervisor(
        host.uri,
        host.guests_in(directory),
        images,
        vcpus=host.vcpus,
        memory_mib=host.memory_mib,
        disk_gib=host.disk_gib,
        virt_type=host.virt_type,
        nbd_address=host.nbd_address,
        host=host.name,
        nics=host.guest_nics,
        migration=MigrationSettings(
            peer_uri=host.peer_uri,
            address=host.migration_address,
            tls=host.migration_tls,
            emulated=host.tcg_live_migration,
        ),
        storage=BrickClient(
            host.name,
            host.storage_address or host.nbd_address,
            mounts=Path(host.storage_mounts),
            socket=Path(host.storage_socket) if host.storage_socket else None,
            multipath=host.multipath,
        ),
    )


async def ledger_stores(
    config: CloudConfig, data: DataDir, databases: Databases, store: KeyValueStore, opened: AsyncExitStack
) -> Callable[[HostName], KeyValueStore]:
    """Return the ledger store of each host's agent: beside the guests, so that a restore does not change it.

    The guests of simulated hosts are in `store`, among the cloud's databases; for libvirt they are not, and the ledgers
    are in a file of this machine. Ledgers that an older release wrote into `store` are migrated once.
    """
    real = [HostName(host.name) for _, host in config.hosts() if isinstance(host, LibvirtHost)]
    if not real:
        return lambda host: store
    url = f"sqlite:///{data.agents}"
    prepare(url, "keep")
    database = databases.open(url, "keep")
    opened.push_async_callback(database.close)
    local = SqlKeyValueStore(database)
    for host in real:
        await move_ledger(host, store, local)
    return lambda host: local if host in real else store
