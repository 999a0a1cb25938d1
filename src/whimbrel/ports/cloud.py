"""All ports together: what a step, a scheduler or a door is handed."""

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
    """Who asks for something, under which request id."""

    user_id: UserId
    project_id: ProjectId
    request_id: str
    is_admin: bool = False


ZonePolicy = Literal["keep", "prefer", "free"]
"""What becomes of a server's zone when it moves and nobody said: it stays, it stays if there is room, or anything."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator sets about moves; Nova's names and defaults where Nova has them."""

    allow_resize_to_same_host: bool = False
    resize_confirm_window_s: float = 0.0  # 0: never confirmed by itself
    max_attempts: int = 3  # hosts tried by one move
    shutdown_timeout_s: float = 60.0
    default_availability_zone: str = "nova"  # its id, and its name until it is renamed
    default_schedule_zone: str | None = None
    cross_az_attach: bool = True  # whether a server may use a volume of another availability zone
    az_on_move: ZonePolicy = "keep"
    az_on_move_of_projects: dict[str, ZonePolicy] = {}  # project id -> its own
    step_timeout_s: float = 300.0  # how long a forward step is retried without an answer before the move turns back
    lease_s: float = 3.0
    cell_timeout_s: float = 10.0  # how long a list waits for a cell's records before it goes on without them
    list_records_by_skipping_down_cells: bool = True  # where they cannot be shown as UNKNOWN; False: no list then
    cpu_allocation_ratio: float = 4.0
    ram_allocation_ratio: float = 1.0
    disk_allocation_ratio: float = 1.0
    key_pairs_quota: int = 100
    scheduler: SchedulerRules = SchedulerRules()
    refuse_undelivered_guest_data: bool = False  # a create with what does not reach its guest; False: it is noted
    pci_alias: tuple[PciAlias, ...] = ()  # the kinds of PCI devices that flavors may ask for


@dataclass(frozen=True)
class Cell:
    name: CellName
    servers: Servers
    hosts: Hosts
    devices: Devices
    agents: Agents
    database: str = "sqlite"  # the kind of it, for people: "sqlite" | "postgresql"


@dataclass(frozen=True)
class Cloud:
    clock: Clock
    ids: IdSource
    journal: Journal
    directory: Directory
    cells: Mapping[CellName, Cell]
    cell_infos: Cells  # what is written down of them
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
        """Raises: Unavailable: it was added a moment ago, and this process has not opened it yet."""
        try:
            return self.cells[name]
        except KeyError:
            raise Unavailable(f"cell {name} is not open here") from None

    def agent(self, cell: CellName, host: HostName) -> Agent:
        return self.cell(cell).agents.at(host)
