"""One request to the network service: its principal, the records visible to it, and the error format.

Invariant: a record that the requester may not see is answered like one that does not exist. Every error has Neutron's
format and name.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import msgspec

from whimbrel.domain.errors import NotFound, Unavailable
from whimbrel.embedded.network import policy
from whimbrel.http.app import Shape
from whimbrel.http.call import Admitted, project_principal
from whimbrel.http.problem import Problem
from whimbrel.http.reply import Reply
from whimbrel.http.request import Request
from whimbrel.http.routes import Route
from whimbrel.ports.clock import Clock, IdSource
from whimbrel.ports.embedded.network_store import Changed, NetworkStore, Query, R
from whimbrel.ports.embedded.nics import Nics
from whimbrel.ports.services import network_errors
from whimbrel.ports.services.identity import Identity
from whimbrel.ports.services.network_errors import RevisionNumberConstraintFailed
from whimbrel.ports.services.server_events import ServerEvents

TRIES = 20  # of a write that conflicts with others, also by a MAC that was generated
IF_MATCH = re.compile(r"revision_number=(\d{1,9})")


@dataclass(frozen=True, kw_only=True)
class Context:
    """The dependencies of handlers."""

    store: NetworkStore
    identity: Identity
    clock: Clock
    ids: IdSource
    nics: Nics
    events: ServerEvents
    in_groups: bool = True  # format of a port's resource request: one group for each type of resource, or one in total


@dataclass(frozen=True, kw_only=True)
class Call(Admitted):
    """One request, and the dependencies of its handler."""

    context: Context

    @property
    def store(self) -> NetworkStore:
        return self.context.store

    @property
    def is_admin(self) -> bool:
        return policy.is_admin(self.principal)

    @property
    def viewer(self) -> str | None:
        """Return the project whose records the requester sees; None: all projects."""
        return None if self.is_admin else self.principal.project_id

    async def seen(self, kind: type[R], record_id: str) -> R:
        """Return a record that the requester may see. Raises: NotFound, of the kind."""
        if self.is_admin:
            return await self.store.find(kind, record_id)
        found = await self.store.search(kind, Query(viewer=self.viewer, where={"id": [record_id]}))
        if not found:
            missing: type[NotFound] = getattr(network_errors, f"{kind.__name__.replace('Ip', 'IP')}NotFound")
            raise missing(f"{_words(kind.__name__)} {record_id} could not be found.")
        return found[0]

    async def owned(self, kind: type[R], record_id: str) -> R:
        """Return a record, to be changed. Raises: NotFound; Problem: the requester does not own it."""
        record = await self.seen(kind, record_id)
        self.check_owner(record.project_id)
        return record

    def check_owner(self, project_id: str) -> None:
        """Raises: Problem: 403."""
        if not (self.is_admin or project_id == self.principal.project_id):
            raise forbidden("rule:admin_or_owner")

    def project(self, asked: str | None) -> str:
        """Return the project of a new record. Raises: Problem: 403: the requester may not name another project."""
        if asked and asked != self.principal.project_id and not self.is_admin:
            raise forbidden("rule:admin_or_owner")
        return asked or self.principal.project_id

    async def changed(
        self,
        kind: type[R],
        record_id: str,
        edit: Callable[[R], Awaitable[R]],
        save: Callable[[Changed, R], Awaitable[R]] | None = None,
    ) -> tuple[R, R]:
        """Change a record of the requester: return it before and after. After a concurrent change it is read again.

        save: writes the change of the record that is passed beside it, with others.
        Raises: NotFound; Problem; Unavailable; what `edit` raises.
        """
        for _ in range(TRIES):
            before = await self.owned(kind, record_id)
            self._check_revision(before.revision)
            edited = await edit(before)
            if edited == before and save is None:  # no revision is spent on it
                return before, before
            now = msgspec.structs.replace(edited, updated_at=self.context.clock.now())
            try:
                saved = save(Changed(before, now), before) if save else self.store.change(before, now)
                return before, await saved
            except RevisionNumberConstraintFailed:
                await self.context.clock.sleep(0)  # on SQLite nothing else yields to concurrent writers
        raise Unavailable("The record is being changed by other requests: retry.")

    def _check_revision(self, revision: int) -> None:
        asked = self.request.headers.get("if-match")
        if asked is None:
            return
        match = IF_MATCH.fullmatch(asked.strip())
        if match is None or int(match[1]) != revision:
            message = f"Constrained to {asked}, but current revision is {revision}"
            raise Problem(412, message, "RevisionNumberConstraintFailed")


Handler = Callable[[Call], Awaitable[Reply]]


def admission(context: Context) -> Callable[[Request, Route], Awaitable[Call]]:
    """Return the admission check."""

    async def admit(request: Request, _route: Route) -> Call:
        principal = await project_principal(request, context.identity)
        if request.method not in ("GET", "HEAD") and not principal.roles & policy.WRITES:
            raise forbidden("rule:member")
        return Call(context=context, request=request, principal=principal)

    return admit


def forbidden(rule: str) -> Problem:
    return Problem(403, f"({rule}) is disallowed by policy", "PolicyNotAuthorized")


def pruned(view: dict[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    """Keep the attributes that the query requests with `fields`; all if it has none."""
    return {name: view[name] for name in fields if name in view} if fields else view


def _refusal(_request: Request, problem: Problem) -> Reply:
    kind = problem.code or f"HTTP{HTTPStatus(problem.status).phrase.replace(' ', '')}"
    body = {"NeutronError": {"type": kind, "message": problem.message, "detail": ""}}
    return Reply(body, problem.status, problem.headers)


def _unexpected(_request: Request) -> str:
    return "Request Failed: internal server error while processing your request."


SHAPE = Shape(refusal=_refusal, bug=_unexpected)


def _words(name: str) -> str:
    """Return the name of a kind in words: QosPolicy -> Qos policy."""
    return re.sub(r"(?<!^)([A-Z])", lambda found: f" {found[1].lower()}", name).replace(" ip", " IP")
