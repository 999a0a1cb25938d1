"""Live migration: the guest runs on while it is copied, and the hypervisors switch it over.

The switch-over is the pivot: it happens inside `transfer`, which finds out on both hosts whether it did.
"""

from whimbrel.moves import needs
from whimbrel.moves.facts import MoveFacts, crosses_cells, has_ports, has_volumes, is_post_copied
from whimbrel.moves.steps import claims, guest, home_cell, live, live_queue, pci_devices, ports, record, volumes
from whimbrel.moves.steps.guest_transfer import stay, transfer
from whimbrel.moves.steps.target import choose_target
from whimbrel.saga.step import Saga, Step

_TARGET_CHECK = "compute_check_can_live_migrate_destination"
_PREPARE = "compute_pre_live_migration"
_MIGRATE = "compute_live_migration"
_FINISH = "compute_post_live_migration_at_destination"
_BACK = "compute_rollback_live_migration_at_destination"

_UNDOABLE: tuple[Step[MoveFacts], ...] = (
    Step(record.lock_migrating, undo=record.unlock, event="conductor_live_migrate_instance", in_request=True,
         status="accepted", after=(transfer,)),  # idle only when the guest is at the source, as before
    Step(live.examine_source, event="compute_check_can_live_migrate_source", passive=True),  # may refuse
    Step(choose_target, again=live.next_host, event="conductor_live_migrate_instance", passive=True),
    Step(live.check_fit, event=_TARGET_CHECK, passive=True),  # its processor, before anything is reserved
    Step(live_queue.draw_ticket, status="queued"),
    Step(live_queue.await_turn, waits=True),  # a few at once for each host
    Step(claims.hold_source, undo=claims.return_source, event=_PREPARE, status="preparing",
         after=(guest.prepare_target,)),  # the move owns the source's claim
    Step(claims.claim_target, event=_PREPARE),  # the server owns the target's
    Step(home_cell.copy_to_target, undo=home_cell.erase_at_target, only_if=crosses_cells, event=_PREPARE),
    Step(pci_devices.claim_devices, undo=pci_devices.release_devices, only_if=needs.wants_pci, event=_PREPARE,
         after=(guest.prepare_target,)),
    Step(ports.bind_target, undo=ports.unbind_target, only_if=has_ports, event=_PREPARE,
         after=(guest.prepare_target,)),  # inactive there until the switch-over
    Step(volumes.attach_target, undo=volumes.detach_target, only_if=has_volumes, event=_PREPARE,
         after=(guest.prepare_target,), was=("connect_target",)),  # a second attachment beside the source's, connected
    Step(guest.prepare_target, undo=guest.abandon_target, event=_PREPARE, undo_event=_BACK, after=(transfer,)),
    Step(live.receive, event=_PREPARE),  # its slot waits for the guest
    Step(transfer, undo=stay, event=_MIGRATE, status="running", settles=True),  # the pivot is inside
)  # fmt: skip

_FORWARD_ONLY: tuple[Step[MoveFacts], ...] = (
    # The guest is at the target. Each step is repeated until it succeeds.
    Step(live.show_post_copy, only_if=is_post_copied, idle=True, status="running (post-copy)"),
    Step(ports.activate_arrived, only_if=has_ports, event=_FINISH),  # first of all: it runs there without its network
    Step(live.settle_arrival, event=_FINISH, status="post-migrating"),
    Step(volumes.complete_target, only_if=has_volumes, event=_FINISH),
    Step(record.move_home, event=_FINISH),  # one row names its host
    Step(guest.destroy_on_source, event=_FINISH),  # once the target's guest was seen
    Step(volumes.detach_source, only_if=has_volumes, event=_FINISH),
    Step(ports.unbind_source, only_if=has_ports, event=_FINISH),
    Step(pci_devices.release_old_devices, only_if=needs.had_pci, event=_FINISH),
    Step(claims.release_source, event=_FINISH),
    Step(home_cell.erase_at_source, only_if=crosses_cells, event=_FINISH),
    Step(record.unlock, event=_FINISH),
)  # fmt: skip

LIVE_MIGRATE = Saga(
    "live_migrate", 1, MoveFacts, _UNDOABLE, _FORWARD_ONLY, done_status="completed",
    undone_as={"asked": "cancelled", "running": "failed"}, secrets=("live.guest.config_drive",),
)  # fmt: skip
