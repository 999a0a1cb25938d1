"""Facts of operations: runs on a server that does not move. Their steps are in `servers/`."""

import msgspec

from whimbrel.domain.ids import CellName, HostName, RunId, Slot
from whimbrel.domain.run import Run


class OperationFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The location of the server, and the states that it shows."""

    cell: CellName | None
    host: HostName | None
    slot: Slot | None
    was: str  # vm_state before
    shows: str | None  # task_state meanwhile
    beside: RunId | None = None  # the move that waits for its verdict and lends its lock
    ran: bool | None = None  # whether the guest ran, if the record does not tell
    hard: bool = False  # of a reboot
    image_id: str | None = None  # of a snapshot
    image_name: str = ""
    image_owner: str = ""
    image_properties: dict[str, str] = {}
    devices: bool = False  # whether it had ports, volumes or PCI devices


Operation = Run[OperationFacts]


def is_placed(facts: OperationFacts) -> bool:
    return facts.cell is not None and facts.host is not None


def has_devices(facts: OperationFacts) -> bool:
    """Check whether it may have ports, volumes or devices; a server without a host has none, whatever its flavor."""
    return facts.devices and is_placed(facts)
