"""All ports together: the argument of steps, schedulers and applications."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import msgspec

from whimbrel.domain.errors import Unavailable
from whimbrel.domain.guest_settings import GuestRules
from whimbrel.domain.ids import CellName, HostName, ProjectId, ServerId, UserId
from whimbrel.domain.live_policy import LiveRules
from whimbrel.domain.notification_rules import NotificationRules
from whimbrel.domain.pci import PciAlias
from whimbrel.domain.quota_settings import QuotaRules
from whimbrel.domain.scheduler_settings import SchedulerRules
from whimbrel.ports.clock import Clock, IdSource
from whimbrel.ports.hosts.agent import Agent, Agents
from whimbrel.ports.hosts.fencing import Fences, NoFences
from whimbrel.ports.meter import Meter
from whimbrel.ports.placement.placement import Placement
from whimbrel.ports.services.images import Images
from whimbrel.ports.services.network import Network
from whimbrel.ports.services.vendor_data import NoVendorData, VendorData
from whimbrel.ports.services.volumes import Volumes
from whimbrel.ports.shared_reading import SharedReading
from whimbrel.ports.stores.catalog import Aggregates, Flavors, Keypairs, Quotas
from whimbrel.ports.stores.cells import Cells
from whimbrel.ports.stores.console_tokens import ConsoleTokens
from whimbrel.ports.stores.directory import Directory
from whimbrel.ports.stores.fleet import Fleets
from whimbrel.ports.stores.host_keys import HostKeys
from whimbrel.ports.stores.hosts import Hosts
from whimbrel.ports.stores.image_fetches import ImageFetches
from whimbrel.ports.stores.journal import Journal
from whimbrel.ports.stores.maintenances import Maintenances
from whimbrel.ports.stores.pci_devices import Devices
from whimbrel.ports.stores.processes import Processes
from whimbrel.ports.stores.restores import Restores
from whimbrel.ports.stores.server_groups import ServerGroups
from whimbrel.ports.stores.servers import Servers
from whimbrel.ports.stores.zones import Zones
from whimbrel.ports.unreachable_cells import UnreachableCells


class Requester(msgspec.Struct, frozen=True, kw_only=True):
    """The user, project and request id of a request."""

    user_id: UserId
    project_id: ProjectId
    request_id: str
    is_admin: bool = False
    grant: str = ""  # for what is done in the user's name: see ports.services.user_grants


class Owned(Protocol):
    """A server, a run or a maintenance: what belongs to a user and a project."""

    @property
    def user_id(self) -> UserId: ...

    @property
    def project_id(self) -> ProjectId: ...


ZonePolicy = Literal["keep", "prefer", "free"]
"""What a move does with the server's zone if the request does not say: keep it, keep it if possible, any zone."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The operator's settings for moves; Nova's names and defaults where Nova has them."""

    allow_resize_to_same_host: bool = False
    resize_confirm_window_s: float = 0.0  # 0: no automatic confirm
    shelved_offload_time_s: int = 0  # a shelved server leaves its host after that; 0: at once; -1: never by itself
    reclaim_instance_interval_s: int = 0  # a deleted server is kept for so long, off; 0: it is deleted at once
    max_attempts: int = 3  # hosts tried by one move
    shutdown_timeout_s: float = 60.0
    vif_plugging_timeout_s: float = 300.0  # how long a guest waits, paused, for the network's word; 0: it does not wait
    vif_plugging_is_fatal: bool = True  # whether a guest that waited in vain is given up; False: it runs
    default_availability_zone: str = "nova"  # its id; also its name until renamed
    default_schedule_zone: str | None = None
    cross_az_attach: bool = True  # whether a server may use a volume of another availability zone
    az_on_move: ZonePolicy = "keep"
    az_on_move_of_projects: dict[str, ZonePolicy] = {}  # project id -> policy
    step_timeout_s: float = 300.0  # time without an answer after which a move rolls back
    lease_s: float = 3.0
    cell_timeout_s: float = 10.0  # how long a list waits for a cell before it goes on without it
    list_records_by_skipping_down_cells: bool = True  # if a list cannot show UNKNOWN; False: the list fails
    cpu_allocation_ratio: float = 4.0
    ram_allocation_ratio: float = 1.0
    disk_allocation_ratio: float = 1.0
    key_pairs_quota: int = 100
    scheduler: SchedulerRules = SchedulerRules()
    refuse_undelivered_guest_data: bool = False  # refuse creates with data that the guest cannot get; False: record it
    accept_forced_down: bool = True  # whether a host that is forced down counts as dead when it is evacuated
    evacuate_dead_hosts: bool = False  # whether conductors evacuate dead hosts without being asked
    evacuate_after_s: float = 180.0  # how long such a host has been down by then
    evacuations_at_once: int = 20  # of one host
    evacuations_per_minute: int = 0  # of one host; how many begin; 0: no limit
    most_hosts_lost: float = 0.34  # share of a zone's hosts; if more are down, nothing is evacuated without being asked
    pci_alias: tuple[PciAlias, ...] = ()  # the kinds of PCI devices that flavors may request
    live: LiveRules = LiveRules()  # from [moves.live]
    guests: GuestRules = GuestRules()  # from [guests]
    notifications: NotificationRules = NotificationRules()  # from [notifications]
    quota: QuotaRules = QuotaRules()  # from [quota]


@dataclass(frozen=True)
class EvacuationOrder:
    """The servers of a dead host that may still have to be evacuated, the next one last. A memory, not the truth."""

    since: float  # when the evacuation of the host began, as its requests say
    servers: list[ServerId]


@dataclass(frozen=True)
class Cell:
    name: CellName
    servers: Servers
    hosts: Hosts
    devices: Devices
    agents: Agents
    database: str = "sqlite"  # kind, for display: "sqlite" | "postgresql"


@dataclass(frozen=True)
class Cloud:
    clock: Clock
    ids: IdSource
    journal: Journal
    directory: Directory
    cells: Mapping[CellName, Cell]
    cell_infos: Cells  # their stored properties
    host_keys: HostKeys
    console_tokens: ConsoleTokens
    image_fetches: ImageFetches
    fleets: Fleets
    placement: Placement
    images: Images
    network: Network
    volumes: Volumes
    flavors: Flavors
    keypairs: Keypairs
    quotas: Quotas
    aggregates: Aggregates
    server_groups: ServerGroups
    zones: Zones
    restores: Restores
    maintenances: Maintenances
    processes: Processes
    rules: Rules = field(default_factory=Rules)
    meter: Meter = field(default_factory=Meter)
    fences: Fences = field(default_factory=NoFences)  # the fence devices of hosts
    vendor_data: VendorData = field(default_factory=NoVendorData)
    unreachable: UnreachableCells = field(default_factory=UnreachableCells)
    evacuation_orders: dict[HostName, EvacuationOrder] = field(init=False, default_factory=dict)
    live_queue: SharedReading[Any] = field(init=False, default_factory=SharedReading)  # of moves/steps/live_queue.py

    def cell(self, name: CellName) -> Cell:
        """Raises: Unavailable: the cell was just added, and this process has not opened it yet."""
        try:
            return self.cells[name]
        except KeyError:
            raise Unavailable(f"cell {name} is not open here") from None

    def on_behalf_of(self, owner: Owned, *, is_admin: bool = True) -> Requester:
        """Return a requester for what the cloud does by itself to what belongs to this user, with a new request id."""
        return Requester(
            user_id=owner.user_id, project_id=owner.project_id, request_id=f"req-{self.ids.uuid()}", is_admin=is_admin
        )

    def agent(self, cell: CellName, host: HostName) -> Agent:
        return self.cell(cell).agents.at(host)
