"""Version 1 of the operations on devices, frozen: those begun by 0.1 finish on it. Nothing is queued behind them.

Remove it when no such run can be open any more: an upgrade from 0.1 does not end them.
"""

from whimbrel.saga.step import Saga, Step
from whimbrel.servers import operation
from whimbrel.servers.devices import volumes
from whimbrel.servers.devices.interface_claims import (
    choose_claim,
    claim_as_before,
    give_back_claim,
    see_claim,
    set_claim,
)
from whimbrel.servers.devices.interface_facts import InterfaceFacts, changes_claim, has_function, names_port
from whimbrel.servers.devices.interfaces import (
    bind_port,
    check_plugged,
    check_unplugged,
    end_port,
    give_back_device,
    have_port,
    learn_nic,
    let_go_port,
    plug_again,
    plug_nic,
    record_plugged,
    record_unplugged,
    unplug_nic,
)
from whimbrel.servers.devices.volumes import VolumeFacts

_ATTACH = "compute_attach_volume"
_DETACH = "compute_detach_volume"
_PLUG = "compute_attach_interface"
_UNPLUG = "compute_detach_interface"

ATTACH_VOLUME_1 = Saga(
    "attach_volume",
    1,
    VolumeFacts,
    undoable=(
        Step(operation.lock, undo=operation.unlock, in_request=True,
             after=(volumes.reserve_volume, volumes.reserve_volume_later, volumes.attach_to_guest)),
        Step(volumes.check_still_free, in_request=True),
        Step(volumes.reserve_volume, undo=volumes.let_go_volume, only_if=volumes.is_at_once, in_request=True,
             event=_ATTACH, after=(volumes.attach_to_guest,)),
        Step(volumes.check_volume, only_if=volumes.is_for_later, event=_ATTACH),
        Step(volumes.reserve_volume_later, undo=volumes.let_go_volume, only_if=volumes.is_for_later, event=_ATTACH,
             after=(volumes.attach_to_guest,)),
        Step(volumes.learn_attachment),
        Step(volumes.connect_volume, event=_ATTACH),
        Step(volumes.attach_to_guest, undo=volumes.detach_from_guest, event=_ATTACH),
        Step(volumes.complete_volume, event=_ATTACH),
    ),
    forward_only=(Step(volumes.record_attached, event=_ATTACH),),
)  # fmt: skip

DETACH_VOLUME_1 = Saga(
    "detach_volume",
    1,
    VolumeFacts,
    undoable=(
        Step(operation.lock, undo=operation.unlock, in_request=True, after=(volumes.detach_from_guest,)),
        Step(volumes.check_attached, in_request=True),
        Step(volumes.detach_from_guest, undo=volumes.attach_to_guest, event=_DETACH),
    ),
    forward_only=(
        Step(volumes.end_attachments, event=_DETACH),
        Step(volumes.record_detached, event=_DETACH),
    ),
)

ATTACH_INTERFACE_1 = Saga(
    "attach_interface",
    1,
    InterfaceFacts,
    undoable=(
        Step(operation.lock, undo=operation.unlock, in_request=True, after=(have_port, set_claim, plug_nic)),
        Step(check_unplugged, only_if=names_port, in_request=True),
        Step(have_port, undo=let_go_port, in_request=True, event=_PLUG, after=(plug_nic,)),
        Step(learn_nic),
        Step(choose_claim, event=_PLUG),
        Step(set_claim, undo=claim_as_before, only_if=changes_claim, event=_PLUG),
        Step(bind_port, event=_PLUG),
        Step(plug_nic, undo=unplug_nic, event=_PLUG),
    ),
    forward_only=(Step(record_plugged, event=_PLUG),),
)

DETACH_INTERFACE_1 = Saga(
    "detach_interface",
    1,
    InterfaceFacts,
    undoable=(
        Step(operation.lock, undo=operation.unlock, in_request=True, after=(unplug_nic,)),
        Step(check_plugged, in_request=True),
        Step(see_claim),
        Step(unplug_nic, undo=plug_again, event=_UNPLUG),
    ),
    forward_only=(
        Step(end_port, event=_UNPLUG),
        Step(give_back_device, only_if=has_function, event=_UNPLUG),
        Step(give_back_claim, only_if=changes_claim, event=_UNPLUG),
        Step(record_unplugged, event=_UNPLUG),
    ),
)

LISTS_1 = (ATTACH_VOLUME_1, DETACH_VOLUME_1, ATTACH_INTERFACE_1, DETACH_INTERFACE_1)
