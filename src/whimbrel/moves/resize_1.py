"""Version 1 of the resize saga, frozen: moves begun by 0.1 finish on it, also those that wait for a verdict.

Remove it when no such move can be open any more: an upgrade from 0.1 does not end them.
"""

from whimbrel.moves import needs
from whimbrel.moves.facts import (
    Move,
    MoveFacts,
    changes_size,
    crosses_cells,
    has_ports,
    moves_ports,
    moves_volumes,
    needs_disks,
    sends_disk,
)
from whimbrel.moves.steps import claims, disk, guest, home_cell, pci_devices, ports, quota_usage, record, volumes
from whimbrel.moves.steps.home_cell import home_record
from whimbrel.moves.steps.target import choose_target, next_alternate
from whimbrel.ports.cloud import Cloud
from whimbrel.saga.step import Saga, Step


async def start_on_source(move: Move, cloud: Cloud) -> None:
    """Start the guest with its volumes and ports; in this version no steps of their own return them."""
    record = await home_record(move, cloud)
    if move.facts.volumes or record.volumes:
        if moves_ports(move.facts) and _is_undone(move, ports.activate_target.__name__):
            await ports.return_ports(move, cloud)
        # While the guest uses its attachments they are kept.
        await volumes.return_volumes(move, cloud, anew=_is_done(move, guest.stop_on_source.__name__))
    await guest.start_on_source(move, cloud)


# The only steps that read the log entries of other steps:


def _is_done(move: Move, step: str) -> bool:
    """Check whether a step was done, and was not undone since."""
    known = [entry for entry in move.log if entry.step == step and entry.outcome != "debt"]
    return bool(known) and (known[-1].way, known[-1].outcome) == ("do", "done")


def _is_undone(move: Move, step: str) -> bool:
    return any((entry.step, entry.way, entry.outcome) == (step, "undo", "done") for entry in move.log)


_REVERT = "compute_revert_resize"
_FINISH_REVERT = "compute_finish_revert_resize"

_UNDOABLE: tuple[Step[MoveFacts], ...] = (
    # Reserve. The server still runs on the source, unaffected.
    Step(quota_usage.book_larger, undo=quota_usage.book_old, accepted=True, only_if=changes_size,
         status="pre-migrating"),  # counted once, as the larger flavor
    Step(record.lock, undo=record.unlock, event="conductor_migrate_server", undo_event=_FINISH_REVERT,
         in_request=True, status="pre-migrating",
         after=(guest.stop_on_source, record.switch_home)),  # idle only when back on the source and as before
    Step(choose_target, again=next_alternate, event="cold_migrate", passive=True),  # only decides
    Step(claims.hold_source, undo=claims.return_source, event="cold_migrate", undo_event=_FINISH_REVERT,
         after=(guest.prepare_target,)),  # the move owns the source's claim
    Step(claims.claim_target, event="cold_migrate"),  # the server owns the target's; the write that returns the
    # source's claim drops it, once nothing of the guest can be there
    Step(home_cell.copy_to_target, undo=home_cell.erase_at_target, only_if=crosses_cells, event="compute_prep_resize",
         after=(record.switch_home,)),  # does not count yet
    Step(pci_devices.claim_devices, undo=pci_devices.release_devices, only_if=needs.wants_pci,
         event="compute_prep_resize", after=(guest.prepare_target, guest.start_on_target)),
    Step(ports.bind_target, undo=ports.unbind_target, only_if=moves_ports, event="compute_prep_resize",
         after=(ports.activate_target,)),  # still inactive there
    # Reserved for the target before the source releases anything, and recorded (formerly a step of its own).
    Step(volumes.attach_target, undo=volumes.detach_target, only_if=moves_volumes, event="compute_prep_resize",
         after=(guest.stop_on_source,), was=("learn_attachments",)),
    Step(guest.prepare_target, undo=guest.abandon_target, event="compute_prep_resize", undo_event=_REVERT,
         after=(disk.carry_disk, guest.start_on_target)),
    # Move. The guest is down from here until start_on_target.
    Step(guest.stop_on_source, undo=start_on_source, event="compute_resize_instance",
         undo_event=_FINISH_REVERT, status="migrating", shows="resize_migrating",
         after=(guest.start_on_target,)),  # never two guests: first the target's is gone
    Step(disk.carry_disk, undo=disk.discard_carried, only_if=needs_disks, event="compute_resize_instance",
         undo_event=_REVERT, after=(guest.start_on_target,)),
    Step(volumes.hand_over, only_if=moves_volumes, event="compute_finish_resize"),  # start_on_source returns them
    Step(ports.activate_target, undo=ports.activate_source, only_if=has_ports, event="compute_finish_resize",
         undo_event=_REVERT, after=(guest.start_on_target,)),  # traffic switches here
    Step(guest.start_on_target, undo=guest.destroy_on_target, event="compute_finish_resize", undo_event=_REVERT,
         status="post-migrating", shows="resize_finish"),
    Step(disk.drop_parcel, only_if=sends_disk, event="compute_finish_resize"),
    Step(volumes.complete_target, only_if=moves_volumes, event="compute_finish_resize"),
    Step(record.switch_home, undo=record.switch_home_back, event="compute_finish_resize",
         undo_event=_REVERT),  # the commit point: one row names its host
    Step(record.await_verdict, undo=record.show_reverting, parks=True,  # VERIFY_RESIZE, until confirm or revert
         status="finished"),
)  # fmt: skip

_FORWARD_ONLY: tuple[Step[MoveFacts], ...] = (
    # Confirmed: each step is repeated until it succeeds.
    Step(guest.destroy_on_source, event="compute_confirm_resize", status="confirming"),
    Step(ports.unbind_source, only_if=moves_ports, event="compute_confirm_resize"),
    Step(pci_devices.release_old_devices, only_if=needs.had_pci, event="compute_confirm_resize"),
    Step(claims.release_source, event="compute_confirm_resize"),
    Step(home_cell.erase_at_source, only_if=crosses_cells, event="compute_confirm_resize"),
    Step(quota_usage.book_new, only_if=changes_size, passive=True),
    Step(record.unlock_resized, event="compute_confirm_resize"),
)

RESIZE_1 = Saga("resize", 1, MoveFacts, _UNDOABLE, _FORWARD_ONLY, done_status="confirmed")

MIGRATE_1 = Saga("migrate", 1, MoveFacts, _UNDOABLE, _FORWARD_ONLY, done_status="confirmed")
