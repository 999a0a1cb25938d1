"""Version 1 of the create saga, frozen: creates begun by 0.1 finish on it. It chooses no target anew.

Remove it when no such create can be open any more: an upgrade from 0.1 does not end them.
"""

from whimbrel.moves import needs
from whimbrel.moves.facts import MoveFacts, needs_disks, requests_nics, requests_volumes
from whimbrel.moves.steps import build_failures, claims, disk, guest, pci_devices, ports, volumes
from whimbrel.moves.steps.target import choose_target, next_alternate
from whimbrel.saga.step import Saga, Step
from whimbrel.servers.lifecycle.create import activate, bury, displace, greet, place

_SCHEDULE = "conductor_schedule_and_build_instances"
_EVENT = "compute__do_build_and_run_instance"

CREATE_1 = Saga(
    "create",
    1,
    MoveFacts,
    undoable=(
        Step(greet, undo=bury, in_request=True, after=(place,)),  # the undo leaves it in error, in the directory
        Step(choose_target, again=next_alternate, event=_SCHEDULE, passive=True),
        Step(claims.claim_target, undo=claims.release_target, event=_EVENT, after=(guest.prepare_target,)),
        Step(build_failures.trust_host, undo=build_failures.count_failure, idle=True),
        Step(pci_devices.claim_devices, undo=pci_devices.release_devices, only_if=needs.wants_pci, event=_EVENT,
             after=(guest.prepare_target, guest.start_on_target)),
        Step(guest.prepare_target, undo=guest.abandon_target, event=_EVENT,
             after=(disk.build_disk, guest.start_on_target)),
        Step(place, undo=displace, event=_EVENT),  # from here on the cell has the record
        Step(ports.make_ports, undo=ports.unmake_ports, only_if=requests_nics, event=_EVENT,
             after=(guest.start_on_target,)),
        Step(ports.learn_nics, only_if=requests_nics),
        Step(volumes.make_volumes, undo=volumes.unmake_volumes, only_if=requests_volumes, event=_EVENT,
             after=(guest.start_on_target,)),
        Step(volumes.reserve_volumes, only_if=requests_volumes, event=_EVENT),  # unmake_volumes releases them
        Step(volumes.learn_volumes, only_if=requests_volumes),
        Step(volumes.connect_target, only_if=requests_volumes, event=_EVENT),
        Step(disk.build_disk, undo=disk.discard_built, only_if=needs_disks, event=_EVENT,
             after=(guest.start_on_target,)),
        Step(guest.start_on_target, undo=guest.destroy_on_target, event=_EVENT),
        Step(volumes.complete_target, only_if=requests_volumes, event=_EVENT),
        Step(activate, event=_EVENT),
    ),
)  # fmt: skip
