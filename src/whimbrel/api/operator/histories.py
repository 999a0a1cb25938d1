"""The history of a server: events and steps with requester and reason; and its state at a time.

This is Whimbrel's own part of the API: /v2.1/whimbrel/servers/ID/history. It exists for deleted servers too.
"""

from collections.abc import Mapping

import msgspec
from msgspec.structs import asdict

from whimbrel.api.http import times
from whimbrel.api.http.call import Call
from whimbrel.api.views.histories import Entry, History, HistoryAnswer, State, UnderWay
from whimbrel.api.views.server import host_id
from whimbrel.domain.errors import Invalid, NotFound, Unavailable
from whimbrel.domain.ids import ProjectId, ServerId, UserId
from whimbrel.history import history
from whimbrel.history.history import Past, events_of, past_of
from whimbrel.history.state_at import server_state_at
from whimbrel.ports.stores.zones import name_of
from whimbrel.scheduling.decision import from_bytes
from whimbrel.servers import lookup

HOSTS = "whimbrel:servers:history:hosts"

AHEAD_S = 60.0
"""Tolerated clock difference of clients that request the present state."""


async def show(call: Call) -> HistoryAnswer:
    """Return all events, the oldest first. at: the state at that time, and the events until then."""
    server_id = ServerId(call.params["server_id"])
    past = await past_of(call.cloud, server_id)
    whose = await _whose(call, server_id, past)
    target = {"project_id": whose.project_id, "user_id": whose.user_id}
    hosts, at = call.may(HOSTS, target), _time_asked(call)
    entries = [_shown(each, hosts=hosts) for each in events_of(past) if at is None or each.at <= at]
    shown = History(server_id=server_id, project_id=whose.project_id, deleted_at=whose.deleted_at, entries=entries)
    if at is not None:
        shown.at = at
        shown.state = await _state(call, past, server_id, whose.project_id, at, hosts=hosts)
    return HistoryAnswer(shown)


async def server_or_its_past(call: Call) -> Mapping[str, str]:
    """Return the project of a present or deleted server. Raises: NotFound: no such server, or another project's."""
    server_id = ServerId(call.params["server_id"])
    whose = await _whose(call, server_id, None)
    if whose.project_id != call.principal.project_id and not call.is_admin:
        raise NotFound(f"Instance {server_id} could not be found.")
    return {"project_id": whose.project_id, "user_id": whose.user_id}


class _Whose(msgspec.Struct, frozen=True):
    project_id: ProjectId
    user_id: UserId
    deleted_at: float | None = None


async def _whose(call: Call, server_id: ServerId, past: Past | None) -> _Whose:
    """Read the directory, and the journal if the directory has no row. Raises: NotFound: in neither."""
    try:
        entry = await call.cloud.directory.entry(server_id, deleted_too=True)
    except NotFound:
        runs = (past or await past_of(call.cloud, server_id)).runs
        if not runs:
            raise
        return _Whose(runs[0].project_id, runs[0].user_id)
    return _Whose(entry.project_id, entry.user_id, entry.deleted_at)


def _time_asked(call: Call) -> float | None:
    """Raises: Invalid: not a time for which history exists."""
    at, now = times.read(call.value("at")), call.cloud.clock.now()
    if at is not None and at > now + AHEAD_S:
        raise Invalid(f"The time {times.with_zone(at)} has not come yet: it is {times.with_zone(now)}.")
    return at


def _shown(entry: history.Entry, *, hosts: bool) -> Entry:
    """hosts: with messages of hosts and names of conductors; an owner sees event and time only."""
    takeover = entry.takeover if hosts else None
    record = from_bytes(entry.choice.document) if entry.choice else None
    more = {
        "move_id": entry.run_id,
        "move_kind": entry.saga,
        "detail": entry.detail if hosts else None,
        "from": takeover.was if takeover else None,
        "to": takeover.by if takeover else None,
        "epoch": takeover.epoch if takeover else None,
        "summary": record.summary() if record else None,
        "chosen": list(record.chosen) if record and hosts else [],
    }
    return msgspec.convert(asdict(entry) | more, Entry)


async def _state(
    call: Call, past: Past, server_id: ServerId, project_id: str, at: float, *, hosts: bool
) -> State | None:
    """Return the state at a time; None: the server did not exist yet."""
    state = server_state_at(past, at, await _vm_state_now(call, server_id))
    if state.vm_state is None and state.flavor is None:
        return None
    return State(
        vm_state=state.vm_state,
        flavor=state.flavor.name if state.flavor else None,
        host_id=host_id(project_id, state.host),
        availability_zone=None if state.zone is None else await name_of(call.cloud.zones, state.zone),
        host=state.host if hosts else None,
        cell=state.cell if hosts else None,
        under_way=[
            UnderWay(move_id=one.run_id, move_kind=one.saga, after_step=one.step, way=one.way)
            for one in state.under_way
        ],
    )


async def _vm_state_now(call: Call, server_id: ServerId) -> str | None:
    """Return the record's vm_state; None: there is no record, or its cell is unreachable."""
    try:
        return (await lookup.find(call.cloud, server_id)).vm_state
    except (NotFound, Unavailable):
        return None
