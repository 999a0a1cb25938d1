"""Version 1 of the delete saga, frozen: deletes begun by 0.1 finish on it. It knows no shelved servers.

Remove it when no such delete can be open any more: an upgrade from 0.1 does not end them.
"""

from whimbrel.domain.operation_facts import OperationFacts, has_devices, is_placed
from whimbrel.moves.steps import claims
from whimbrel.saga.step import Saga, Step
from whimbrel.servers.lifecycle.delete import (
    close_record,
    destroy_guest,
    erase_entry,
    let_go_ports,
    let_go_volumes,
    mark_deleting,
    release_devices,
)

DELETE_1: Saga[OperationFacts] = Saga(
    "delete",
    1,
    OperationFacts,
    undoable=(),
    forward_only=(
        Step(mark_deleting, in_request=True),
        Step(destroy_guest, only_if=is_placed, event="compute_terminate_instance"),
        Step(let_go_volumes, only_if=has_devices, event="compute_terminate_instance"),
        Step(let_go_ports, only_if=has_devices, event="compute_terminate_instance"),
        Step(release_devices, only_if=has_devices, event="compute_terminate_instance"),
        Step(claims.release_server, event="compute_terminate_instance"),
        Step(close_record, unlocks=True, only_if=is_placed, event="compute_terminate_instance"),
        Step(erase_entry, event="compute_terminate_instance"),
    ),
)
