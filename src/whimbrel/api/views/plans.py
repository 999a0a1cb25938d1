"""Plans: the destination of a move of a server or of a server group."""

import msgspec
from msgspec import UNSET, UnsetType

from whimbrel.api.views.decisions import Decision


class PlannedServer(msgspec.Struct, kw_only=True):
    """A server of a group. reason: why its move would be refused."""

    id: str = ""
    name: str
    source: str | None
    moves: bool = False
    reason: str | None


class Plan(Decision, kw_only=True):
    """The plan of a server has the first four fields, that of a server group the other four."""

    action: str
    live: bool | UnsetType = UNSET
    server_id: str | UnsetType = UNSET
    flavor: str | UnsetType = UNSET
    source: str | UnsetType | None = UNSET
    server_group_id: str | UnsetType = UNSET
    policy: str | UnsetType = UNSET
    moving_to: str | UnsetType | None = UNSET
    servers: list[PlannedServer] | UnsetType = UNSET


class PlanAnswer(msgspec.Struct):
    plan: Plan
