"""Facts of operations: runs on a server that does not move. Their steps are in `servers/`."""

import msgspec

from whimbrel.domain.guest import DiskName, Power
from whimbrel.domain.guest_hardware import DeviceType, DiskBus
from whimbrel.domain.ids import CellName, HostName, RunId, Slot
from whimbrel.domain.rescue_disk import RescueDisk
from whimbrel.domain.run import Run


class ImagedVolume(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A volume of a server of which an image is made, and its snapshot."""

    volume_id: str
    device: str
    boot_index: int | None = None
    delete_on_termination: bool = False
    tag: str | None = None
    snapshot_id: str = ""  # "": not made yet
    size_gib: int = 0
    bus: DiskBus | None = None
    device_type: DeviceType = "disk"


class OperationFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The location of the server, and the states that it shows."""

    cell: CellName | None
    host: HostName | None
    slot: Slot | None
    was: str  # vm_state before
    shows: str | None  # task_state meanwhile
    beside: RunId | None = None  # the move that waits for its verdict and lends its lock
    ran: bool | None = None  # whether the guest ran, if the record does not tell
    power: Power | None = None  # of the guest then; None: of a run of an older release, or not read
    hard: bool = False  # of a reboot
    image_id: str | None = None  # of a snapshot
    image_name: str = ""
    image_owner: str = ""
    image_properties: dict[str, str] = {}
    imaged_volumes: tuple[ImagedVolume, ...] = ()
    grant: str = ""  # of its user, until the snapshots of volumes are made
    rotation: int = 0  # of a backup: how many of its type are kept
    old_images: tuple[str, ...] = ()  # of a backup: the others
    shelved_images: dict[DiskName, str] = {}  # image of each local disk: of a shelve, or of a shelved server
    offloads: bool = False  # of a shelve: whether the server leaves its host at once
    before: str | None = None  # of a restore: vm_state before the server was soft-deleted
    rescue: RescueDisk | None = None  # of a rescue
    devices: bool = False  # whether it had ports, volumes or PCI devices


Operation = Run[OperationFacts]


def is_placed(facts: OperationFacts) -> bool:
    return facts.cell is not None and facts.host is not None


def has_devices(facts: OperationFacts) -> bool:
    """Check whether it may have ports, volumes or devices; a server without a host has none, whatever its flavor."""
    return facts.devices and is_placed(facts)


def is_in_cell(facts: OperationFacts) -> bool:
    return facts.cell is not None


def holds_devices(facts: OperationFacts) -> bool:
    """Check whether it may have ports, volumes or devices; shelved and offloaded it keeps ports and volumes."""
    return facts.devices and is_in_cell(facts)


def has_shelved_images(facts: OperationFacts) -> bool:
    return bool(facts.shelved_images)


def offloads(facts: OperationFacts) -> bool:
    return facts.offloads


def offloads_devices(facts: OperationFacts) -> bool:
    return facts.offloads and holds_devices(facts)
