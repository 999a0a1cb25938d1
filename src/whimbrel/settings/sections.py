"""The tables of cloud.toml: one Struct for each. Those of cells and hosts: cell_sections."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, field

from whimbrel.adapters.sql.engine.urls import CONNECTIONS
from whimbrel.domain.live_policy import LivePolicy, LiveRules, Rung
from whimbrel.domain.notification_rules import AuditPeriod, NotificationRules
from whimbrel.domain.quota_settings import QuotaRules
from whimbrel.ports.cloud import Rules
from whimbrel.ports.services.images import ImageLimits
from whimbrel.settings.cell_sections import (
    CellTable,
    IpmiFence,
    LibvirtHost,
    RedfishFence,
    SimulatedHost,
    SimulatedTimes,
)
from whimbrel.settings.value_types import (
    BrokerUrl,
    BusUrl,
    CloudIdentifier,
    Count,
    DatabaseUrl,
    FileNamed,
    HttpUrl,
    LimitNamed,
    OriginHost,
    Port,
    Quota,
    Seconds,
    Table,
    Timeout,
    VendorDataTarget,
    ZoneNamed,
)


class LiveTable(Table, frozen=True, kw_only=True):
    """Live migrations: see docs/live-migration.md. of_projects: project id -> the keys that differ for its servers."""

    longest_pause_ms: Annotated[int, Meta(ge=1, le=600_000)] = 500
    deadline_s: Seconds = 900.0
    rung_s: Annotated[float, Meta(ge=1, le=86_400)] = 60.0
    ladder: tuple[Rung, ...] = ("throttle", "longer_pause", "abort")
    longer_pause_ms: Annotated[int, Meta(ge=1, le=600_000)] = 5000
    bandwidth_mib_s: Annotated[int, Meta(ge=0, le=2**20)] = 0
    at_once_per_host: Annotated[int, Meta(ge=0, le=1000)] = 1
    at_once_per_link: Annotated[int, Meta(ge=0, le=1000)] = 0
    of_projects: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def rules(self) -> LiveRules:
        policy = LivePolicy(**{key: getattr(self, key) for key in LivePolicy.__struct_fields__})
        return LiveRules(
            policy=policy,
            of_projects=self.of_projects,
            at_once_per_host=self.at_once_per_host,
            at_once_per_link=self.at_once_per_link,
        )


class MovesTable(Table, frozen=True, kw_only=True):
    """The moves of servers."""

    live: LiveTable = LiveTable()


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
    image_relay: HttpUrl | None = None  # through which hosts reach an image service that others run
    volume: HttpUrl | None = None
    console: HttpUrl | None = None  # the proxy of consoles
    ca_file: FileNamed | None = None  # of the certificates of these services; None: those of the system
    insecure: bool = False  # send tokens over plain HTTP to addresses outside loopback


ExternalService = Literal["image", "network", "volume"]


class KeystoneTable(Table, frozen=True, kw_only=True):
    """A Keystone that others run, the login of this cloud there, and which services of its catalog are used."""

    auth_url: HttpUrl
    # One of two logins: a user with a password, or an application credential.
    username: str | None = None
    password_file: FileNamed | None = None
    user_domain_name: str | None = None  # neither name nor id: the domain with the id "default"
    user_domain_id: str | None = None
    project_name: str = "service"
    project_domain_name: str | None = None
    project_domain_id: str | None = None
    application_credential_id: str | None = None
    application_credential_secret_file: FileNamed | None = None
    services: tuple[ExternalService, ...] = ("image", "network", "volume")  # the others are embedded
    region: str | None = None  # of the catalog; None: the only one
    interface: Literal["internal", "public", "admin"] | None = None  # None: internal, or public without an internal one
    ca_file: FileNamed | None = None  # of the certificates of Keystone and these services; None: those of the system
    cert_file: FileNamed | None = None  # the certificate of this cloud, for services that want one; None: none is sent
    key_file: FileNamed | None = None  # its key; None: it is in `cert_file`
    insecure: bool = False  # send passwords and tokens over plain HTTP to addresses outside loopback
    timeout_s: Timeout = 60.0  # for a connection, and for each part of an answer
    retries: Annotated[int, Meta(ge=0, le=10)] = 1  # of a request that did not arrive, or that only reads


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


class GuestsTable(Table, frozen=True, kw_only=True):
    """The metadata of guests: see docs/guests.md."""

    dhcp_domain: Annotated[str, Meta(pattern=r"^([A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*)?$", max_length=190)] = "novalocal"
    vendor_data_file: FileNamed | None = None  # a JSON object that all guests get as vendor data
    vendordata_providers: tuple[Literal["StaticJSON", "DynamicJSON"], ...] = ("StaticJSON",)  # the file, the services
    vendordata_dynamic_targets: tuple[VendorDataTarget, ...] = ()  # NAME@URL of services that are asked about guests
    vendordata_dynamic_connect_timeout_s: Annotated[float, Meta(ge=0.1, le=60)] = 5.0
    vendordata_dynamic_read_timeout_s: Annotated[float, Meta(ge=0.1, le=60)] = 5.0
    vendordata_dynamic_failure_fatal: bool = False  # a guest does not start without their answers
    vendordata_dynamic_auth: bool = False  # they are sent this cloud's token
    vendordata_dynamic_ca_file: FileNamed | None = None  # of their certificates; None: those of the system
    force_config_drive: bool = False
    metadata_requests_per_s: Annotated[float, Meta(ge=0, le=10_000)] = 10.0  # of one guest, to one process; 0: no limit
    metadata_burst: Annotated[int, Meta(ge=1, le=100_000)] = 300  # requests of one guest at once


class MetadataTable(Table, frozen=True, kw_only=True):
    """The metadata service for Neutron's metadata agents."""

    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    port: Port = 8775
    secret_file: FileNamed | None = None  # the secret shared with the agents; None: the service is off


Topics = Annotated[tuple[Annotated[str, Meta(min_length=1)], ...], Meta(min_length=1)]


class NotificationsTable(Table, frozen=True, kw_only=True):
    """Notifications to other services of the cloud: see docs/notifications.md."""

    enabled: bool = False  # the same for all processes of the cloud
    transport_url: BrokerUrl | None = None  # None, and no file: this process sends none
    transport_url_file: FileNamed | None = None  # a file with the URL, instead of `transport_url`
    notification_format: Literal["versioned", "unversioned", "both"] = "versioned"
    topics: Topics = ("versioned_notifications",)
    unversioned_topics: Topics = ("notifications",)
    exchange: Annotated[str, Meta(min_length=1)] = "nova"
    queues: Literal["transient", "durable", "quorum"] = "transient"  # as the broker has them already
    ca_file: FileNamed | None = None  # of the broker's certificate; None: without TLS
    notify_on_state_change: Literal["none", "vm_state", "vm_and_task_state"] = "none"
    bdms_in_notifications: bool = False
    instance_usage_audit: bool = False  # send instance.exists of all servers at the end of each period
    instance_usage_audit_period: AuditPeriod = "month"  # in UTC
    backlog_s: Annotated[float, Meta(ge=60, le=31_536_000)] = 86_400.0

    @property
    def rules(self) -> NotificationRules:
        return NotificationRules(**{name: getattr(self, name) for name in NotificationRules.__struct_fields__})


class QuotaTable(Table, frozen=True, kw_only=True):
    """Where the limits of projects on servers are: see docs/api.md. The same for all processes of the cloud."""

    driver: Literal["projects", "unified"] = "projects"  # the cloud's own database, or the limits of Keystone
    unified_limits_resource_strategy: Literal["require", "ignore"] = "require"  # the resources of the list
    unified_limits_resource_list: tuple[LimitNamed, ...] = ("servers",)  # need, or need not, have a registered limit
    count_usage_from_placement: bool = False  # cores and ram are counted by claims, not by servers

    @property
    def rules(self) -> QuotaRules:
        return QuotaRules(**{name: getattr(self, name) for name in QuotaRules.__struct_fields__})


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


class ConsolesTable(Table, frozen=True, kw_only=True):
    """Consoles of servers in a browser."""

    token_lifetime_s: Annotated[float, Meta(ge=1, le=86400)] = 600.0  # how long an address of a console is valid
    allowed_origins: tuple[OriginHost, ...] = ()  # hosts whose pages may show consoles, besides the proxy's own
    sessions: Count = 500  # of one process at the same time


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
    fences: tuple[RedfishFence | IpmiFence, ...] = field(default=(), name="fence")
    rules: Rules = Rules()
    moves: MovesTable = MovesTable()
    guests: GuestsTable = GuestsTable()
    metadata: MetadataTable = MetadataTable()
    simulated: SimulatedTimes = SimulatedTimes()
    listen: Listen = Listen()
    notifications: NotificationsTable = NotificationsTable()
    quota: QuotaTable = QuotaTable()
    volumes: VolumesTable = VolumesTable()
    images: ImagesTable = ImagesTable()
    storage: StorageTable = StorageTable()
    consoles: ConsolesTable = ConsolesTable()
    metrics: MetricsTable = MetricsTable()
    http: HttpTable = HttpTable()
    database: DatabaseTable = DatabaseTable()
    tls: TlsTable = TlsTable()
    services: ServicesTable = ServicesTable()
    keystone: KeystoneTable | None = None  # None: all services are embedded
    bus: BusTable = BusTable()
    cloud: IdentityTable = IdentityTable()
    host: dict[str, Any] = field(default_factory=dict)  # the host of the agent on this machine: `settings.agent_host`


class CloudConfig(SettingsFile, frozen=True, kw_only=True):
    """The settings of a process, from a file. Names of other files in it are absolute."""

    rules_in_file: frozenset[str] = frozenset()  # the rules that the file sets; the others have their defaults

    @property
    def external(self) -> frozenset[str]:
        """Return the services that others run, of identity, image, network and volume."""
        return frozenset(("identity", *self.keystone.services)) if self.keystone else frozenset()

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
