"""Composes notifications: an event, the server's record as it was then as far as that is known, and the request.

From the run come host, zone, flavor, vm_state and task_state; the rest is from the record, as it is when it is read.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypedDict
from uuid import UUID, uuid5

import msgspec
from msgspec.structs import replace

from whimbrel.domain.flavor import Flavor
from whimbrel.domain.notification_rules import NotificationRules
from whimbrel.domain.operation_facts import OperationFacts
from whimbrel.domain.run import Action, Run
from whimbrel.domain.server import Server
from whimbrel.moves.facts import MoveFacts
from whimbrel.notifications import unversioned, versioned_objects
from whimbrel.notifications.announced_steps import OF_ACTIONS, By, Event, Payload
from whimbrel.notifications.occurrences import UPDATE, Occurrence
from whimbrel.notifications.versioned_objects import versioned
from whimbrel.ports.services.notifications import Notification
from whimbrel.servers.devices.volume_swaps import SwapFacts
from whimbrel.servers.devices.volumes import VolumeFacts
from whimbrel.servers.lifecycle.rebuild import RebuildFacts

SERVICES: Mapping[By, str] = {
    "source": "nova-compute",
    "target": "nova-compute",
    "api": "nova-api",
    "conductor": "nova-conductor",
    "scheduler": "nova-scheduler",
}
"""Consumers know Nova's services by these names."""


class RequestedBy(TypedDict):
    request_id: str
    user_id: str
    project_id: str


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What a server's notifications need besides its runs."""

    record: Server
    zones: Mapping[str, str] = {}  # id -> name
    fingerprint: str = ""  # of its keypair
    requests: Mapping[str, Action] = {}  # by request id
    rules: NotificationRules = NotificationRules()
    here: str = "localhost"  # the host that announces: for events of services that are on no host of servers


def all_of_occurrence(what: Occurrence, run: Run, setting: Setting) -> list[Notification]:
    """Return the notifications of an event in the formats of the settings; the unversioned one first, as in Nova."""
    found = []
    if setting.rules.sends_unversioned and (name := unversioned.name_of(what.event.name)):
        found.append(_unversioned(what, name, run, setting))
    if setting.rules.sends_versioned:
        found.append(_versioned(what, run, setting))
    return found


def _versioned(what: Occurrence, run: Run, setting: Setting) -> Notification:
    server, requester = _then(setting.record, what, run), _requester_of(what, run, setting)
    return Notification(
        id=str(uuid5(UUID(run.id), f"{what.entry} {what.event.name}")),
        event=what.event.name,
        publisher=f"{SERVICES[what.event.by]}:{what.publisher or setting.here}",
        priority="ERROR" if what.event.name.endswith(".error") else "INFO",
        payload=_payload(what, run, server, requester, setting),
        at=what.at,
        **requester,
    )


def _unversioned(what: Occurrence, name: str, run: Run, setting: Setting) -> Notification:
    server = _then(setting.record, what, run)
    return Notification(
        id=str(uuid5(UUID(run.id), f"{what.entry} {name}")),
        event=name,
        publisher=unversioned.publisher(name, what.publisher or setting.here),
        priority="ERROR" if what.event.name.endswith(".error") else "INFO",
        payload=_unversioned_payload(what, name, run, server, setting),
        at=what.at,
        is_versioned=False,
        **_requester_of(what, run, setting),
    )


def _requester_of(what: Occurrence, run: Run, setting: Setting) -> RequestedBy:
    asked = setting.requests.get(what.request_id)
    user, project = (asked.user_id, asked.project_id) if asked else (run.user_id, run.asker_project_id)
    return {"request_id": what.request_id, "user_id": user, "project_id": project}


def of_action(action: Action, number: int, setting: Setting) -> Notification | None:
    """Return the notification of a request without a run; None: there is none for it."""
    event = OF_ACTIONS.get(action.name)
    if event is None:
        return None
    record, requester = setting.record, _requester(action)
    is_locked = action.name == "lock"
    data = _instance(record, requester, setting) | {"fault": None, "locked": is_locked}
    if not is_locked:
        data["locked_reason"] = None
    return Notification(
        id=str(uuid5(UUID(action.server_id), f"{number} {event.name}")),
        event=event.name,
        publisher=f"{SERVICES[event.by]}:{setting.here}",
        priority="INFO",
        payload=versioned("InstanceActionPayload", data),
        at=action.started_at,
        **requester,
    )


def of_account(begin: float, end: float, at: float, setting: Setting) -> list[Notification]:
    """Return the notifications that a server was there in a period, without ids, in the formats of the settings."""
    server, found = setting.record, list[Notification]()
    no_initiator = {"request_id": None, "action_initiator_user": None, "action_initiator_project": None}
    zone, host = _zone_name(server, setting), server.host or setting.here
    if setting.rules.sends_unversioned:
        name = "compute.instance.exists"
        data = unversioned.instance(server, name, zone) | unversioned.exists(begin, end)
        by = unversioned.publisher(name, host)
        found.append(
            Notification(id="", event=name, publisher=by, priority="INFO", payload=data, at=at, is_versioned=False)
        )
    if setting.rules.sends_versioned:
        fields = versioned_objects.instance(server, zone, setting.rules.bdms_in_notifications) | no_initiator
        data = versioned("InstanceExistsPayload", fields | versioned_objects.audit_period(begin, end))
        by = f"{SERVICES['source']}:{host}"
        found.append(Notification(id="", event="instance.exists", publisher=by, priority="INFO", payload=data, at=at))
    return found


def _requester(action: Action) -> RequestedBy:
    return {"request_id": action.request_id, "user_id": action.user_id, "project_id": action.project_id}


# The record then


def _then(record: Server, what: Occurrence, run: Run) -> Server:
    """Return the record with what the run knows of that time."""
    state = what.state
    is_over = state.vm_state == "deleted"
    is_unborn = run.saga == "create" and state.vm_state == "building"
    return replace(
        record,
        vm_state=state.vm_state or record.vm_state,
        task_state=what.task_state,
        cell=state.cell,
        host=state.host,
        zone=state.zone or (record.zone if state.host else None),
        flavor=what.flavor or record.flavor,
        updated_at=what.at,
        launched_at=None if is_unborn else record.launched_at,
        terminated_at=(record.terminated_at or what.at) if is_over else None,
        deleted_at=(record.deleted_at or what.at) if is_over else None,
        nics=() if is_over or (is_unborn and state.host is None) else record.nics,
        volumes=() if is_over else record.volumes,
    )


def _before(run: Run, server: Server) -> Server:
    """Return the record with the image that it had before a rebuild, which is the one that is charged for."""
    if not isinstance(run.facts, RebuildFacts):
        return server
    return replace(server, image_id=run.facts.old_image_id, image_properties=run.facts.old_image_properties)


# Payloads


def _payload(what: Occurrence, run: Run, server: Server, requester: RequestedBy, setting: Setting) -> dict[str, Any]:
    fault = None if what.fault is None else versioned_objects.exception(*what.fault)
    if what.event is UPDATE:
        assert what.was is not None, "an update has states before"
        more = versioned_objects.of_update(server, what.was, what.at, _updates_tasks(setting))
        return versioned("InstanceUpdatePayload", _instance(server, requester, setting) | more)
    if what.event.payload == "exists":
        data = _instance(_before(run, server), requester, setting) | _period(what.at)
        return versioned("InstanceExistsPayload", data)
    if what.event.payload == "task":
        spec = _request_spec(run, server, setting)
        data = {"instance_uuid": server.id, "request_spec": spec, "state": server.vm_state, "reason": fault}
        return versioned("ComputeTaskPayload", data)
    if what.event.payload == "request_spec":
        return _request_spec(run, server, setting)
    name, more_of = PAYLOADS[what.event.payload]
    data = _instance(server, requester, setting) | {"fault": fault} | more_of(what.event, run, server, setting)
    return versioned(name, data)


def _unversioned_payload(what: Occurrence, name: str, run: Run, server: Server, setting: Setting) -> dict[str, Any]:
    step, message = what.fault or ("", "")
    if what.event.payload == "task":
        return unversioned.task(server, name, message)
    if what.event.payload == "exists":
        period = unversioned.exists(versioned_objects.month_of(what.at), what.at)
        return unversioned.instance(_before(run, server), name, _zone_name(server, setting)) | period
    data = unversioned.instance(server, name, _zone_name(server, setting))
    if what.event is UPDATE:
        assert what.was is not None, "an update has states before"
        return data | unversioned.update(server, what.was, what.at, _updates_tasks(setting))
    if what.fault is not None:
        data |= unversioned.fault(step, message)
    return data | UNVERSIONED_FIELDS.get(name, _no_field)(run)


def _instance(server: Server, requester: RequestedBy, setting: Setting) -> dict[str, Any]:
    zone = _zone_name(server, setting)
    return versioned_objects.instance(server, zone, setting.rules.bdms_in_notifications) | {
        "request_id": requester["request_id"],
        "action_initiator_user": requester["user_id"],
        "action_initiator_project": requester["project_id"],
    }


def _request_spec(run: Run, server: Server, setting: Setting) -> dict[str, Any]:
    zone = server.spec.zone_pin
    return versioned_objects.request_spec(server, _new_flavor(run, server), zone and setting.zones.get(zone, zone))


def _new_flavor(run: Run, server: Server) -> Flavor:
    """Return the flavor for which there has to be room."""
    return run.facts.new_flavor if isinstance(run.facts, MoveFacts) else server.flavor


def _period(at: float) -> dict[str, Any]:
    return versioned_objects.audit_period(versioned_objects.month_of(at), at)


def _zone_name(server: Server, setting: Setting) -> str | None:
    return None if server.zone is None else setting.zones.get(server.zone, server.zone)


def _updates_tasks(setting: Setting) -> bool:
    return setting.rules.notify_on_state_change == "vm_and_task_state"


More = Callable[[Event, Run, Server, Setting], dict[str, Any]]


def _nothing(event: Event, run: Run, server: Server, setting: Setting) -> dict[str, Any]:
    return {}


def _of_create(event: Event, run: Run, server: Server, setting: Setting) -> dict[str, Any]:
    return versioned_objects.of_create(server, setting.fingerprint)


def _of_rebuild(event: Event, run: Run, server: Server, setting: Setting) -> dict[str, Any]:
    image = run.facts.image_id if isinstance(run.facts, MoveFacts) else server.image_id
    return {"trusted_image_certificates": None, "image_uuid": image or ""}


def _of_rescue(event: Event, run: Run, server: Server, setting: Setting) -> dict[str, Any]:
    disk = run.facts.rescue if isinstance(run.facts, OperationFacts) else None
    return {"rescue_image_ref": disk.image_id if disk else None}


def _of_resize_prep(event: Event, run: Run, server: Server, setting: Setting) -> dict[str, Any]:
    return {"new_flavor": versioned_objects.flavor(_new_flavor(run, server))}


def _of_snapshot(event: Event, run: Run, server: Server, setting: Setting) -> dict[str, Any]:
    return {"snapshot_image_id": run.facts.image_id if isinstance(run.facts, OperationFacts) else None}


def _of_volume(event: Event, run: Run, server: Server, setting: Setting) -> dict[str, Any]:
    return _volume_id(run)


def _of_volume_swap(event: Event, run: Run, server: Server, setting: Setting) -> dict[str, Any]:
    assert isinstance(run.facts, SwapFacts), "only swaps of volumes announce one"
    return {"old_volume_id": run.facts.old.volume_id, "new_volume_id": run.facts.device.volume_id}


PAYLOADS: Mapping[Payload, tuple[str, More]] = {
    "action": ("InstanceActionPayload", _nothing),
    "create": ("InstanceCreatePayload", _of_create),
    "rebuild": ("InstanceActionRebuildPayload", _of_rebuild),
    "rescue": ("InstanceActionRescuePayload", _of_rescue),
    "resize_prep": ("InstanceActionResizePrepPayload", _of_resize_prep),
    "snapshot": ("InstanceActionSnapshotPayload", _of_snapshot),
    "volume": ("InstanceActionVolumePayload", _of_volume),
    "volume_swap": ("InstanceActionVolumeSwapPayload", _of_volume_swap),
}
"""Kind -> class, and the function for the fields that only it has."""


def _no_field(run: Run) -> dict[str, Any]:
    return {}


def _no_image_name(run: Run) -> dict[str, Any]:
    """Runs know the id of an image, not its name."""
    return {"image_name": ""}


def _success(run: Run) -> dict[str, Any]:
    return {"message": "Success"}


def _instance_type(run: Run) -> dict[str, Any]:
    assert isinstance(run.facts, MoveFacts), "only moves resize"
    new = run.facts.new_flavor
    return {"new_instance_type": new.name, "new_instance_type_id": new.flavor_id}


def _volume_id(run: Run) -> dict[str, Any]:
    assert isinstance(run.facts, VolumeFacts), "only operations on volumes announce one"
    return {"volume_id": run.facts.device.volume_id}


UNVERSIONED_FIELDS: Mapping[str, Callable[[Run], dict[str, Any]]] = {
    "compute.instance.create.start": _no_image_name,
    "compute.instance.create.end": _success,
    "compute.instance.rebuild.start": _no_image_name,
    "compute.instance.rebuild.end": _no_image_name,
    "compute.instance.rescue.start": lambda run: {"rescue_image_name": ""},
    "compute.instance.rescue.end": lambda run: {"rescue_image_name": ""},
    "compute.instance.resize.prep.end": _instance_type,
    "compute.instance.volume.attach": _volume_id,
    "compute.instance.volume.detach": _volume_id,
}
"""Unversioned name -> the function for the fields that only it has."""
