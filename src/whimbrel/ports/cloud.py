"""All ports together: the argument of steps, schedulers and applications."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from whimbrel.domain.errors import Unavailable
from whimbrel.domain.ids import CellName, HostName, ProjectId, UserId
from whimbrel.domain.pci import PciAlias
from whimbrel.domain.scheduler_settings import SchedulerRules
from whimbrel.ports.clock import Clock, IdSource
from whimbrel.ports.hosts.agent import Agent, Agents
from whimbrel.ports.meter import Meter
from whimbrel.ports.placement.placement import Placement
from whimbrel.ports.services.images import Images
from whimbrel.ports.services.network import Network
from whimbrel.ports.services.volumes import Volumes
from whimbrel.ports.stores.catalog import Aggregates, Flavors, Keypairs, Quotas
from whimbrel.ports.stores.cells import Cells
from whimbrel.ports.stores.directory import Directory
from whimbrel.ports.stores.fleet import Fleets
from whimbrel.ports.stores.host_keys import HostKeys
from whimbrel.ports.stores.hosts import Hosts
from whimbrel.ports.stores.journal import Journal
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


ZonePolicy = Literal["keep", "prefer", "free"]
"""What a move does with the server's zone if the request does not say: keep it, keep it if possible, any zone."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The operator's settings for moves; Nova's names and defaults where Nova has them."""

    allow_resize_to_same_host: bool = False
    resize_confirm_window_s: float = 0.0  # 0: no automatic confirm
    max_attempts: int = 3  # hosts tried by one move
    shutdown_timeout_s: float = 60.0
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
    pci_alias: tuple[PciAlias, ...] = ()  # the kinds of PCI devices that flavors may request


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
    processes: Processes
    rules: Rules = field(default_factory=Rules)
    meter: Meter = field(default_factory=Meter)
    unreachable: UnreachableCells = field(default_factory=UnreachableCells)

    def cell(self, name: CellName) -> Cell:
        """Raises: Unavailable: the cell was just added, and this process has not opened it yet."""
        try:
            return self.cells[name]
        except KeyError:
            raise Unavailable(f"cell {name} is not open here") from None

    def agent(self, cell: CellName, host: HostName) -> Agent:
        return self.cell(cell).agents.at(host)
