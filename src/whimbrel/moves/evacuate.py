"""Evacuation: a server of a dead host is built again on another one, once it is evident that its guest cannot run.

The source's agent is never needed. What is left on the source is destroyed when its agent answers again
(reconcilers/returned_sources.py), and only after this list has ended.
"""

from typing import Any

from whimbrel.moves import needs
from whimbrel.moves.evacuation_facts import ARRIVED, NAME, EvacuationFacts
from whimbrel.moves.facts import crosses_cells, has_ports, has_volumes, needs_disks
from whimbrel.moves.steps import (
    claims,
    dead_source,
    disk,
    evacuation,
    guest,
    home_cell,
    pci_devices,
    ports,
    record,
    volumes,
)
from whimbrel.moves.steps.target import choose_target, next_alternate
from whimbrel.saga.step import Saga, Step

_EVENT = "compute_rebuild_instance"

_UNDOABLE: tuple[Step[Any], ...] = (
    Step(evacuation.lock, undo=record.unlock, event="rebuild_server", in_request=True, status="accepted",
         after=(claims.hold_source, pci_devices.claim_devices, ports.bind_target, volumes.attach_target,
                guest.prepare_target, evacuation.start_evacuated)),  # idle only when it is as before
    Step(dead_source.find_evidence, event="rebuild_server", waits=True),  # nothing begins before it
    Step(choose_target, again=next_alternate, event="rebuild_server", passive=True),  # only decides
    Step(claims.hold_source, undo=claims.return_source, event="rebuild_server", status="pre-migrating",
         after=(guest.prepare_target,)),  # the move owns the source's claim
    Step(claims.claim_target, event=_EVENT),  # the server owns the target's
    Step(home_cell.copy_to_target, undo=home_cell.erase_at_target, only_if=crosses_cells, event=_EVENT),
    Step(pci_devices.claim_devices, undo=pci_devices.release_devices, only_if=needs.wants_pci, event=_EVENT,
         after=(guest.prepare_target, evacuation.start_evacuated)),
    Step(ports.bind_target, undo=ports.unbind_target, only_if=has_ports, event=_EVENT,
         after=(ports.activate_target,)),  # still inactive there
    # The source's attachments stay until the record names the target: only its agent could connect them again.
    Step(volumes.attach_target, undo=volumes.detach_target, only_if=has_volumes, was=("connect_target",), event=_EVENT,
         after=(evacuation.start_evacuated,)),
    Step(guest.prepare_target, undo=evacuation.remove_from_target, event=_EVENT,
         shows="rebuild_block_device_mapping", after=(disk.build_disk, evacuation.start_evacuated)),
    # What was on a local disk is lost: a new one is made from the image. A root on a volume is kept.
    Step(disk.build_disk, undo=disk.discard_built, only_if=needs_disks, event=_EVENT,
         after=(evacuation.start_evacuated,)),
    Step(ports.activate_target, undo=ports.activate_source, only_if=has_ports, event=_EVENT,
         after=(evacuation.start_evacuated,)),
    Step(evacuation.start_evacuated, undo=evacuation.remove_from_target, event=_EVENT, shows="rebuild_spawning"),
    Step(volumes.complete_target, only_if=has_volumes, event=_EVENT),
)  # fmt: skip

_FORWARD_ONLY: tuple[Step[Any], ...] = (
    Step(evacuation.arrive, event=_EVENT),  # the commit point: the record names the target
    Step(volumes.detach_source, only_if=has_volumes, event=_EVENT),
    Step(ports.unbind_source, only_if=has_ports, event=_EVENT),
    Step(pci_devices.release_old_devices, only_if=needs.had_pci, event=_EVENT),
    Step(claims.release_source, event=_EVENT),  # by the move itself: the source may never return
    Step(home_cell.erase_at_source, only_if=crosses_cells, event=_EVENT),
    Step(evacuation.unlock_evacuated, event=_EVENT),
)

EVACUATE = Saga(
    NAME, 1, EvacuationFacts, _UNDOABLE, _FORWARD_ONLY, done_status=ARRIVED, secrets=("changes.admin_pass",)
)
"""Ended with status done; completed, once what was left on the source is destroyed."""
