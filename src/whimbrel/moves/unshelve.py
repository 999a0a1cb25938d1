"""Unshelve a server without a host: a move without a source, whose disks are built from its images.

Until the record names the new host, an undo leaves the server shelved and offloaded as it was. Its images, and the
attachments that reserve its volumes, are deleted only after that.
"""

from whimbrel.moves import needs
from whimbrel.moves.facts import MoveFacts, crosses_cells, has_ports, has_shelved_images, has_volumes, needs_disks
from whimbrel.moves.steps import claims, disk, guest, home_cell, pci_devices, ports, shelved, volumes
from whimbrel.moves.steps.target import choose_target, next_alternate
from whimbrel.saga.step import Saga, Step

_EVENT = "compute_unshelve_instance"

UNSHELVE = Saga(
    "unshelve",
    1,
    MoveFacts,
    undoable=(
        Step(shelved.lock_shelved, undo=shelved.unlock_shelved, in_request=True, after=(guest.prepare_target,)),
        Step(shelved.check_images, only_if=has_shelved_images, event="get_image_info", passive=True),
        Step(choose_target, again=next_alternate, event="schedule_instances", passive=True),
        Step(claims.claim_target, undo=claims.release_target, event=_EVENT, after=(guest.prepare_target,)),
        Step(home_cell.copy_to_target, undo=home_cell.erase_at_target, only_if=crosses_cells, event=_EVENT),
        Step(pci_devices.claim_devices, undo=pci_devices.release_devices, only_if=needs.wants_pci, event=_EVENT,
             after=(guest.prepare_target, guest.start_on_target)),
        Step(guest.prepare_target, undo=guest.abandon_target, event=_EVENT,
             after=(disk.fetch_shelved, guest.start_on_target)),
        Step(ports.bind_anew, undo=ports.unbind_anew, only_if=has_ports, event=_EVENT,
             after=(guest.start_on_target,)),
        Step(volumes.attach_target, undo=volumes.detach_target, only_if=has_volumes, event=_EVENT,
             after=(guest.start_on_target,)),  # beside the attachments that reserve the volumes
        Step(volumes.connect_target, only_if=has_volumes, event=_EVENT),
        Step(disk.fetch_shelved, undo=disk.discard_fetched, only_if=needs_disks, event=_EVENT,
             after=(guest.start_on_target,)),
        Step(guest.start_on_target, undo=guest.destroy_on_target, event=_EVENT, shows="spawning"),
        Step(volumes.complete_target, only_if=has_volumes, event=_EVENT),
    ),
    forward_only=(
        Step(shelved.record_host, event=_EVENT),  # the commit point: one row names its host, and its zone pin
        Step(volumes.release_reserved, only_if=has_volumes, event=_EVENT),
        Step(home_cell.erase_at_source, only_if=crosses_cells, event=_EVENT),
        Step(shelved.settle_unshelved, unlocks=True, event=_EVENT),
        Step(shelved.drop_images, only_if=has_shelved_images, event=_EVENT),
    ),
)  # fmt: skip
