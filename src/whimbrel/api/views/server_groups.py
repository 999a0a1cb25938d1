"""Moves of server groups."""

import msgspec


class GroupServer(msgspec.Struct, kw_only=True):
    """moves_along: its latest move has the group's destination. reason: why it has not arrived."""

    id: str
    name: str
    status: str
    host: str | None
    arrived: bool
    move_id: str | None = None
    move_state: str | None = None
    moves_along: bool
    reason: str | None = None

    @property
    def awaits_verdict(self) -> bool:
        """Check whether it has arrived with its group and awaits confirmation or reversion."""
        return self.arrived and self.moves_along and self.move_state == "parked"


class ServerGroup(msgspec.Struct, kw_only=True):
    id: str
    name: str
    policy: str
    project_id: str = ""
    state: str
    moving_to: str | None
    hosts: list[str]
    servers: list[GroupServer]


class ServerGroupAnswer(msgspec.Struct):
    server_group: ServerGroup
