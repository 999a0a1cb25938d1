"""One request to the network service: who asks, what for, and how answers and errors look.

Law: what somebody may not see is not there for him; every error has Neutron's shape and bears its name.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from whimbrel.domain.errors import Conflict, Forbidden, Invalid, NotFound, Refused, Unavailable, WorldError
from whimbrel.domain.host_nics import HostNet
from whimbrel.embedded.endpoint import Asked, Endpoint, Manners, caller_of, json
from whimbrel.embedded.network import policy
from whimbrel.ports.clock import Clock, IdSource
from whimbrel.ports.embedded.network_store import NetworkStore, Query, R
from whimbrel.ports.services import network_errors
from whimbrel.ports.services.identity import Identity
from whimbrel.ports.services.network_errors import RevisionNumberConstraintFailed
from whimbrel.ports.services.server_events import ServerEvents

TRIES = 20  # to change what others change too
IF_MATCH = re.compile(r"revision_number=(\d{1,9})")


@dataclass(frozen=True, kw_only=True)
class Door:
    """What the handlers work with."""

    store: NetworkStore
    identity: Identity
    clock: Clock
    ids: IdSource
    hosts: Mapping[str, HostNet]
    events: ServerEvents
    in_groups: bool = True  # how a port says what it asks of Placement: one group for each kind of resource, or one


class Problem(HTTPException):
    """An answer that is no, under the name that Neutron's clients know it by."""

    def __init__(self, status: int, message: str, name: str = "") -> None:
        super().__init__(status, message)
        self.name = name


@dataclass(frozen=True, kw_only=True)
class Ask(Asked):
    """One request, and what it is answered with."""

    door: Door

    @property
    def store(self) -> NetworkStore:
        return self.door.store

    @property
    def is_admin(self) -> bool:
        return policy.is_admin(self.caller)

    @property
    def viewer(self) -> str | None:
        """Give whose things he sees; None: everybody's."""
        return None if self.is_admin else self.caller.project_id

    async def seen(self, kind: type[R], record_id: str) -> R:
        """Give a record that he may see. Raises: NotFound, of the kind."""
        if self.is_admin:
            return await self.store.find(kind, record_id)
        found = await self.store.search(kind, Query(viewer=self.viewer, where={"id": [record_id]}))
        if not found:
            missing: type[NotFound] = getattr(network_errors, f"{kind.__name__}NotFound")
            raise missing(f"{_words(kind.__name__)} {record_id} could not be found.")
        return found[0]

    async def owned(self, kind: type[R], record_id: str) -> R:
        """Give a record, to be changed. Raises: NotFound; Problem: it is not his."""
        record = await self.seen(kind, record_id)
        self.check_owner(record.project_id)
        return record

    def check_owner(self, project_id: str) -> None:
        """Raises: Problem: 403."""
        if not (self.is_admin or project_id == self.caller.project_id):
            raise forbidden("rule:admin_or_owner")

    def project(self, asked: str | None) -> str:
        """Give whose a new thing will be. Raises: Problem: not his to say."""
        if asked and asked != self.caller.project_id and not self.is_admin:
            raise forbidden("rule:admin_or_owner")
        return asked or self.caller.project_id

    async def changed(self, kind: type[R], record_id: str, edit: Callable[[R], Awaitable[R]]) -> tuple[R, R]:
        """Change a record of his: give what it was and what it is. If somebody is faster, look again.

        Raises: NotFound; Problem; Unavailable; what `edit` raises.
        """
        for _ in range(TRIES):
            before = await self.owned(kind, record_id)
            self._check_revision(before.revision)
            now = msgspec.structs.replace(await edit(before), updated_at=self.door.clock.now())
            try:
                return before, await self.store.change(before, now)
            except RevisionNumberConstraintFailed:
                await self.door.clock.sleep(0)  # on SQLite nothing else does: what others wrote is not seen until then
        raise Unavailable("It is changed by others all the time: ask again.")

    def _check_revision(self, revision: int) -> None:
        asked = self.request.headers.get("if-match")
        if asked is None:
            return
        match = IF_MATCH.fullmatch(asked.strip())
        if match is None or int(match[1]) != revision:
            message = f"Constrained to {asked}, but current revision is {revision}"
            raise Problem(412, message, "RevisionNumberConstraintFailed")


Handler = Callable[[Ask], Awaitable[Response]]


def endpoint(door: Door, handler: Handler) -> Endpoint:
    async def answer(request: Request) -> Response:
        caller = await caller_of(request, door.identity)
        if request.method not in ("GET", "HEAD") and not caller.roles & policy.WRITES:
            raise forbidden("rule:member")
        return await handler(Ask(door=door, request=request, caller=caller))

    return answer


def forbidden(rule: str) -> Problem:
    return Problem(403, f"({rule}) is disallowed by policy", "PolicyNotAuthorized")


def pruned(view: dict[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    """Leave what was asked for with `fields`; nothing was: all."""
    return {name: view[name] for name in fields if name in view} if fields else view


# Errors

STATUS: Sequence[tuple[type[WorldError], int]] = (
    (NotFound, 404),
    (Conflict, 409),
    (Forbidden, 403),
    (Invalid, 400),
    (Refused, 400),
    (Unavailable, 503),
)


def _say(request: Request, status: int, message: str, error: Exception) -> Response:
    name = type(error).__name__ if isinstance(error, WorldError) else getattr(error, "name", "")
    kind = name or f"HTTP{HTTPStatus(status).phrase.replace(' ', '')}"
    return json({"NeutronError": {"type": kind, "message": message, "detail": ""}}, status)


MANNERS = Manners(STATUS, _say, bug="Request Failed: internal server error while processing your request.")


def _words(name: str) -> str:
    """Give the name of a kind as people write it: QosPolicy -> Qos policy."""
    return re.sub(r"(?<!^)([A-Z])", lambda found: f" {found[1].lower()}", name)
