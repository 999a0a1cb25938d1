"""The history of a server, and its state at a time."""

import msgspec
from msgspec import UNSET, UnsetType


class Entry(msgspec.Struct, kw_only=True):
    """One event. The names are added by the command line, which asks the identity service."""

    at: float
    kind: str
    what: str
    move_id: str | None = None
    move_kind: str | None = None
    request_id: str | None = None
    user_id: str | None = None
    user_name: str | UnsetType | None = UNSET
    project_id: str | None = None
    project_name: str | UnsetType | None = UNSET
    way: str | None = None
    outcome: str | None = None
    took_s: float | None = None
    detail: str | None = None
    before: str | None = msgspec.field(default=None, name="from")
    after: str | None = msgspec.field(default=None, name="to")
    epoch: int | None = None
    summary: str | None = None
    chosen: list[str] = []


class UnderWay(msgspec.Struct, kw_only=True):
    move_id: str
    move_kind: str
    after_step: str | None = None
    way: str | None = None


class State(msgspec.Struct, kw_only=True):
    vm_state: str | None = None
    flavor: str | None = None
    host_id: str = msgspec.field(default="", name="hostId")
    availability_zone: str | None = None
    host: str | None = None
    cell: str | None = None
    under_way: list[UnderWay] = []


class History(msgspec.Struct, kw_only=True):
    """at, state: if a time was requested; state None: the server did not exist yet."""

    server_id: str
    project_id: str | None = None
    deleted_at: float | None = None
    at: float | UnsetType = UNSET
    state: State | UnsetType | None = UNSET
    entries: list[Entry] = []


class HistoryAnswer(msgspec.Struct):
    history: History
