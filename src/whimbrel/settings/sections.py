"""The tables of cloud.toml: one Struct for each."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from whimbrel.adapters.sql.engine.urls import CONNECTIONS
from whimbrel.domain.host_nics import HostNet, HostNic, Kbps
from whimbrel.domain.numa import NumaNode
from whimbrel.domain.pci import PciDevice
from whimbrel.ports.cloud import Rules
from whimbrel.ports.services.images import ImageLimits

CellNamed = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,30}$")]  # it names a schema in a database
HostNamed = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
ZoneNamed = Annotated[str, Meta(pattern=r"^(?!internal$)[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
TraitNamed = Annotated[str, Meta(pattern=r"^[A-Z][A-Z0-9_]{0,254}$")]
ClassNamed = Annotated[str, Meta(pattern=r"^[A-Z][A-Z0-9_]{0,254}$")]
DatabaseUrl = Annotated[str, Meta(pattern=r"^(sqlite:///.|postgresql(\+psycopg)?://)")]  # not in memory
PhysnetNamed = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
StorageNamed = Annotated[str, Meta(pattern=r"^[^@#\s]{1,255}$")]
HttpUrl = Annotated[str, Meta(pattern=r"^https?://[^/\s]+")]
BusUrl = Annotated[str, Meta(pattern=r"^(nats|tls)://[^/\s]+$")]
FileNamed = Annotated[str, Meta(min_length=1)]
CloudIdentifier = Annotated[str, Meta(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
Count = Annotated[int, Meta(ge=1, le=2**20)]
MemoryMib = Annotated[int, Meta(ge=1, le=2**30)]
DiskGib = Annotated[int, Meta(ge=1, le=2**30)]
Seconds = Annotated[float, Meta(ge=0, le=86400)]
Timeout = Annotated[float, Meta(ge=0.01, le=86400)]
Port = Annotated[int, Meta(ge=0, le=65535)]
Quota = Annotated[int, Meta(ge=-1, le=2**31 - 1)]


class Table(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file."""


class HostTable(Table, frozen=True, kw_only=True, tag_field="driver"):
    name: HostNamed
    zone: ZoneNamed
    vcpus: Count
    memory_mib: MemoryMib
    disk_gib: DiskGib
    dedicated_vcpus: Annotated[int, Meta(ge=0, le=2**20)] = 0  # besides `vcpus`: dedicated to one guest each
    traits: tuple[TraitNamed, ...] = ()  # besides those that every host has
    resources: dict[ClassNamed, Count] = {}  # resource class -> amount
    kpps: Kbps = 0  # thousands of packets per second, both directions together; 0: not counted
    egress_kpps: Kbps = 0
    ingress_kpps: Kbps = 0
    cards: tuple[HostNic, ...] = field(default=(), name="nic")
    pci: tuple[PciDevice, ...] = ()  # devices for passthrough to servers

    @property
    def net(self) -> HostNet:
        """Return the network service's data of the host."""
        rates = {"kpps": self.kpps, "egress_kpps": self.egress_kpps, "ingress_kpps": self.ingress_kpps}
        return HostNet(host=self.name, cards=self.cards, **rates)


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
    guest_nics: Literal["tap", "user"] = "tap"  # user: QEMU's isolated network, which needs no permission for taps

    def guests_in(self, data_dir: Path) -> Path:
        """Return the directory of its guests."""
        return Path(self.guests_dir) if self.guests_dir else data_dir / "guests" / self.name


class CellTable(Table, frozen=True, kw_only=True):
    name: CellNamed
    database: DatabaseUrl | None = None  # None: the cloud's own
    enabled: bool = True
    physnets: tuple[PhysnetNamed, ...] | None = None  # the physical networks that its hosts reach; None: all
    storage: tuple[StorageNamed, ...] | None = None  # the storage back ends that its hosts reach; None: all
    hosts: tuple[SimulatedHost | LibvirtHost, ...] = field(default=(), name="host")  # besides those that join


class SimulatedTimes(Table, frozen=True, kw_only=True):
    """Durations of operations on simulated hosts, so that users can observe them."""

    reserve_s: Seconds = 0.0
    build_disk_s: Seconds = 0.0
    copy_disk_s: Seconds = 0.0
    snapshot_s: Seconds = 0.0
    start_s: Seconds = 0.0
    stop_s: Seconds = 0.0


class Listen(Table, frozen=True, kw_only=True):
    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    port: Port = 8774


class HttpTable(Table, frozen=True, kw_only=True):
    """The limits of all HTTP servers: a request that exceeds one is refused, and the connection is closed."""

    url_bytes: Annotated[int, Meta(ge=1024, le=2**20)] = 16 << 10  # 414
    header_bytes: Annotated[int, Meta(ge=1024, le=2**20)] = 64 << 10  # 431; the request line and all headers together
    headers: Annotated[int, Meta(ge=16, le=10_000)] = 128  # 431
    header_timeout_s: Timeout = 30.0  # 408; from the first byte of a request to the end of its headers
    body_timeout_s: Timeout = 120.0  # 408; in each such period a client sends at least body_bytes_per_s
    body_bytes_per_s: Annotated[int, Meta(ge=0, le=2**30)] = 500
    write_timeout_s: Timeout = 60.0  # for a client that does not read its answer
    idle_timeout_s: Timeout = 75.0  # longer than clients keep an idle connection, so that the client closes it
    connections: Count = 2048  # 503
    connections_per_peer: Count = 512  # 503; a peer is an IPv4 address, or a /64 of IPv6
    trusted_proxies: tuple[Annotated[str, Meta(min_length=1)], ...] = ()  # X-Forwarded-For and -Proto are believed


class TlsTable(Table, frozen=True, kw_only=True):
    """TLS of the HTTP servers of a process."""

    cert_file: FileNamed | None = None  # PEM; the certificate, then those of its issuers
    key_file: FileNamed | None = None
    insecure: bool = False  # serve plain HTTP at addresses outside loopback

    @property
    def is_on(self) -> bool:
        return self.cert_file is not None


class ServicesTable(Table, frozen=True, kw_only=True):
    """The URLs of the services, for clients and for the other processes of the cloud."""

    url: HttpUrl | None = None  # of the HTTP front ends, or of their load balancer; None: where this process listens
    identity: HttpUrl | None = None  # each: if it is not below `url`
    compute: HttpUrl | None = None
    network: HttpUrl | None = None
    placement: HttpUrl | None = None
    image: HttpUrl | None = None  # None: the image service is in the process `up`
    volume: HttpUrl | None = None
    ca_file: FileNamed | None = None  # of the certificates of these services; None: those of the system
    insecure: bool = False  # send tokens over plain HTTP to addresses outside loopback


class BusTable(Table, frozen=True, kw_only=True):
    """The NATS servers that connect the processes and the hosts of the cloud."""

    urls: tuple[BusUrl, ...] = ()  # (): all hosts are in the process `up`
    ca_file: FileNamed | None = None
    insecure: bool = False  # connect without TLS to addresses outside loopback


class IdentityTable(Table, frozen=True, kw_only=True):
    """The identity of the cloud, `[cloud]`."""

    id: CloudIdentifier | None = None  # None: that of the database


class DatabaseTable(Table, frozen=True, kw_only=True):
    url: DatabaseUrl | None = None  # None: SQLite in the data directory
    url_file: FileNamed | None = None  # a file with the URL, instead of `url`
    connections: Annotated[int, Meta(ge=1, le=1000)] = CONNECTIONS  # to one PostgreSQL database, of each process


class MetricsTable(Table, frozen=True, kw_only=True):
    """Access of Prometheus: /metrics of the cloud's port, or a separate port."""

    enabled: bool = True
    open: bool = False  # true: /metrics of the cloud's port needs no token
    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"  # address of the separate port
    port: Port | None = None  # None: no separate port
    secret_file: FileNamed | None = None  # the token; None: metrics.secret of the data directory


class VolumesTable(Table, frozen=True, kw_only=True):
    """The embedded volume service."""

    zones: Annotated[tuple[ZoneNamed, ...], Meta(min_length=1)] | None = None
    exports: Literal["nbd", "simulated"] | None = None  # None: NBD, unless all hosts of the file are simulated
    nbd_address: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    nbd_port: Port = 0
    volumes_quota: Quota = 10
    snapshots_quota: Quota = 10
    gigabytes_quota: Quota = 1000
    per_volume_gigabytes_quota: Quota = -1

    @property
    def limits(self) -> dict[str, int]:
        """Return the default limits of a project."""
        fields = msgspec.structs.asdict(self)
        return {name.removesuffix("_quota"): limit for name, limit in fields.items() if name.endswith("_quota")}


class ImagesTable(Table, frozen=True, kw_only=True):
    """The embedded image service: the limits of each project."""

    images_quota: Quota = 100
    gigabytes_quota: Quota = 1000
    per_image_gigabytes_quota: Quota = 100

    @property
    def limits(self) -> ImageLimits:
        total, one = self.gigabytes_quota, self.per_image_gigabytes_quota
        return ImageLimits(
            images=self.images_quota,
            size_bytes=total << 30 if total >= 0 else -1,
            image_bytes=one << 30 if one >= 0 else -1,
        )


class StorageTable(Table, frozen=True, kw_only=True):
    """The file system of the data directory, and the network of disks."""

    network: str | None = None  # addresses at which disks are served; None: loopback only
    # Space that images and volumes leave free; None: 1 GiB, or a 20th of a small file system.
    reserved_mib: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None

    @property
    def reserved_bytes(self) -> int | None:
        return None if self.reserved_mib is None else self.reserved_mib << 20


class SettingsFile(Table, frozen=True, kw_only=True):
    """The tables of a file."""

    cells: tuple[CellTable, ...] = field(default=(), name="cell")
    rules: Rules = Rules()
    simulated: SimulatedTimes = SimulatedTimes()
    listen: Listen = Listen()
    volumes: VolumesTable = VolumesTable()
    images: ImagesTable = ImagesTable()
    storage: StorageTable = StorageTable()
    metrics: MetricsTable = MetricsTable()
    http: HttpTable = HttpTable()
    database: DatabaseTable = DatabaseTable()
    tls: TlsTable = TlsTable()
    services: ServicesTable = ServicesTable()
    bus: BusTable = BusTable()
    cloud: IdentityTable = IdentityTable()
    host: dict[str, Any] = {}  # the host of the agent on this machine: `settings.agent_host`


class CloudConfig(SettingsFile, frozen=True, kw_only=True):
    """The settings of a process, from a file. Names of other files in it are absolute."""

    rules_in_file: frozenset[str] = frozenset()  # the rules that the file sets; the others have their defaults

    def volume_zones(self, known: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the zones of volumes; the first is the default. known: of hosts that are not in the settings."""
        default = self.rules.default_availability_zone
        return self.volumes.zones or tuple(dict.fromkeys([default, *(host.zone for _, host in self.hosts()), *known]))

    def hosts(self) -> Iterator[tuple[CellTable, SimulatedHost | LibvirtHost]]:
        for cell in self.cells:
            for host in cell.hosts:
                yield cell, host

    def guests_dirs(self, data_dir: Path) -> list[Path]:
        """Return the absolute directories of all real guests."""
        real = (host for _, host in self.hosts() if isinstance(host, LibvirtHost))
        return [host.guests_in(data_dir).absolute() for host in real]
