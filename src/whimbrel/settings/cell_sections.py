"""The tables of cloud.toml that describe cells, their hosts, and the fence devices of these."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, field

from whimbrel.domain.host_nics import HostNet, HostNic, Kbps
from whimbrel.domain.numa import NumaNode
from whimbrel.domain.pci import PciDevice
from whimbrel.settings.value_types import (
    CellNamed,
    ClassNamed,
    Count,
    DatabaseUrl,
    DiskGib,
    FileNamed,
    HostNamed,
    HttpUrl,
    Ipv4Address,
    MemoryMib,
    OneAddress,
    PhysnetNamed,
    Port,
    Seconds,
    StorageNamed,
    Table,
    Timeout,
    TraitNamed,
    ZoneNamed,
)


class HostTable(Table, frozen=True, kw_only=True, tag_field="driver"):
    name: HostNamed
    zone: ZoneNamed
    vcpus: Count
    memory_mib: MemoryMib
    disk_gib: DiskGib
    dedicated_vcpus: Annotated[int, Meta(ge=0, le=2**20)] = 0  # besides `vcpus`: dedicated to one guest each
    traits: tuple[TraitNamed, ...] = ()  # besides those that every host has
    resources: dict[ClassNamed, Count] = field(default_factory=dict)  # resource class -> amount
    kpps: Kbps = 0  # thousands of packets per second, both directions together; 0: not counted
    egress_kpps: Kbps = 0
    ingress_kpps: Kbps = 0
    cards: tuple[HostNic, ...] = field(default=(), name="nic")
    pci: tuple[PciDevice, ...] = ()  # devices for passthrough to servers
    console_address: OneAddress = "127.0.0.1"  # the proxies of consoles connect here
    console_port: Port = 0  # 0: a free one
    self_fence_s: Timeout | None = None  # it stops its guests when it was cut off for so long; None: it does not

    @property
    def net(self) -> HostNet:
        """Return the network service's data of the host."""
        return HostNet(
            host=self.name,
            cards=self.cards,
            kpps=self.kpps,
            egress_kpps=self.egress_kpps,
            ingress_kpps=self.ingress_kpps,
        )


class SimulatedHost(HostTable, frozen=True, kw_only=True, tag="simulated"):
    """A simulated host, with guests that use no resources."""

    numa: tuple[NumaNode, ...] = ()  # its NUMA nodes; empty: not reported
    address: Annotated[str, Meta(min_length=1)] = "127.0.0.1"  # hosts of other processes read moving disks here
    witness: FileNamed | None = None  # directory that hosts share to report servers that run on two of them


class LibvirtHost(HostTable, frozen=True, kw_only=True, tag="libvirt"):
    """A host with a libvirt daemon."""

    uri: Annotated[str, Meta(pattern=r"^[a-z+]+://")]
    guests_dir: Annotated[str, Meta(min_length=1)] | None = None  # None: in the data directory
    nbd_address: Annotated[str, Meta(min_length=1)] = "127.0.0.1"  # the cell's hosts read moving disks here
    virt_type: Literal["auto", "kvm", "qemu"] = "auto"  # auto: KVM if the processor has it, else emulation
    guest_nics: Literal["tap", "ovs", "bridge", "user"] = "tap"  # see docs/networks.md
    tunnel_address: Ipv4Address | None = None  # of tunnels to the other hosts of a network; None: it has none
    peer_uri: Annotated[str, Meta(pattern=r"^[a-z]+\+[a-z]+://")] | None = (
        None  # by which other hosts reach this libvirt
    )
    migration_address: Annotated[str, Meta(min_length=1)] | None = (
        None  # of live guests' memory and disks; None: libvirt's
    )
    migration_tls: bool = False
    storage_address: Annotated[str, Meta(min_length=1)] | None = None  # in the storage network; None: nbd_address
    storage_socket: Annotated[str, Meta(pattern=r"^/")] | None = None  # of `whimbrel storage`; None: run by the agent
    storage_mounts: Annotated[str, Meta(pattern=r"^/")] = "/run/whimbrel-volumes"  # where the agent mounts shares
    multipath: bool = False  # of iSCSI and Fibre Channel volumes, by multipathd
    tcg_live_migration: Literal["suspend", "allow"] = "suspend"  # of emulated guests, if QEMU could lose their memory

    @property
    def net(self) -> HostNet:
        if self.guest_nics == "tap":
            return super().net
        address = self.tunnel_address or UNSET
        return msgspec.structs.replace(super().net, guest_nics=self.guest_nics, tunnel_address=address)

    def guests_in(self, data_dir: Path) -> Path:
        """Return the directory of its guests."""
        return Path(self.guests_dir) if self.guests_dir else data_dir / "guests" / self.name


class FenceTable(Table, frozen=True, kw_only=True, tag_field="driver"):
    """The fence device of a host."""

    host: HostNamed
    user: Annotated[str, Meta(min_length=1)]
    password_file: FileNamed  # of the user there
    timeout_s: Timeout = 10.0  # for one answer


class RedfishFence(FenceTable, frozen=True, kw_only=True, tag="redfish"):
    address: HttpUrl
    system: Annotated[str, Meta(pattern=r"^/")] | None = None  # such as "/redfish/v1/Systems/1"; None: the only one
    ca_file: FileNamed | None = None  # of its certificate; None: those of the system
    insecure: bool = False  # whatever its certificate is, and plain HTTP


class IpmiFence(FenceTable, frozen=True, kw_only=True, tag="ipmi"):
    address: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?$")]
    cipher_suite: Annotated[int, Meta(ge=0, le=17)] | None = None  # None: the best of both sides


class CellTable(Table, frozen=True, kw_only=True):
    name: CellNamed
    database: DatabaseUrl | None = None  # None: the cloud's own
    enabled: bool = True
    physnets: tuple[PhysnetNamed, ...] | None = None  # the physical networks that its hosts reach; None: all
    storage: tuple[StorageNamed, ...] | None = None  # the storage back ends that its hosts reach; None: all
    migration_network: PhysnetNamed | None = None  # shared with the cells to which servers can be migrated live
    hosts: tuple[SimulatedHost | LibvirtHost, ...] = field(default=(), name="host")  # besides those that join


class SimulatedTimes(Table, frozen=True, kw_only=True):
    """Durations of operations on simulated hosts, so that users can observe them."""

    reserve_s: Seconds = 0.0
    build_disk_s: Seconds = 0.0
    copy_disk_s: Seconds = 0.0
    snapshot_s: Seconds = 0.0
    start_s: Seconds = 0.0
    stop_s: Seconds = 0.0
    live_mib_s: Annotated[float, Meta(ge=0)] = 0.0  # speed of live transfers; 0: they take no time
    faults: FileNamed | None = None  # a directory in which tests ask for faults, see whimbrel.testing
