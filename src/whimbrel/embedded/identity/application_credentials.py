"""Application credentials: logins of programs, each for one user, one project and some of the user's roles.

Invariant: a credential permits nothing that its owner may not do, and its secret is shown once.
"""

import secrets
from datetime import UTC, datetime

from whimbrel.domain.errors import Conflict, NotFound
from whimbrel.embedded.identity import views
from whimbrel.embedded.identity.bodies import NewApplicationCredential, Ref
from whimbrel.embedded.identity.initial_accounts import new_id
from whimbrel.embedded.identity.passwords import RANDOM_COST_LOG2, hash_now, hashed
from whimbrel.embedded.identity.request import FORBIDDEN, Call
from whimbrel.http.problem import Problem
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.ports.services.identity import ApplicationCredential, Role

LATEST = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
"""The latest expiry, which every time zone can show."""


async def index(call: Call) -> Reply:
    found = await call.store.records(ApplicationCredential, user_id=call.path("user_id"), **call.filters("name"))
    roles = await call.store.records(Role)
    lines = [views.application_credential(call.root_url, each, roles) for each in found]
    return Reply(views.listing(call.root_url, "application_credentials", lines))


async def show(call: Call) -> Reply:
    return await _answer(call, await _named(call))


async def create(call: Call) -> Reply:
    """Create a credential of the requester in the project of the token."""
    await _check_may_manage(call)
    if call.principal.user_id != call.path("user_id") or not call.principal.project_id:
        raise Problem(403, FORBIDDEN)
    given = await call.inside("application_credential", NewApplicationCredential)
    if given.access_rules:
        raise Problem(400, "Access rules of application credentials are not supported.")
    secret = given.secret or secrets.token_urlsafe(64)
    credential = ApplicationCredential(
        id=new_id(call.context.ids),
        user_id=call.principal.user_id,
        project_id=call.principal.project_id,
        name=given.name,
        description=given.description or "",
        secret_hash=await hashed(secret) if given.secret else hash_now(secret, RANDOM_COST_LOG2),
        roles=sorted(_granted(given.roles, await call.store.records(Role), call.principal.roles)),
        unrestricted=bool(given.unrestricted),
        expires_at=_expiry(given, call.context.clock.now()),
    )
    try:
        await call.store.add(credential)
    except Conflict as error:
        raise Conflict(
            "Conflict occurred attempting to store application_credential - Duplicate entry found with name"
            f" {credential.name}."
        ) from error
    return await _answer(call, credential, secret)


async def delete(call: Call) -> Reply:
    await _check_may_manage(call)
    await call.store.remove(ApplicationCredential, (await _named(call)).id)
    return NO_CONTENT


async def _check_may_manage(call: Call) -> None:
    """Raises: Problem: the token is from a restricted credential, which could otherwise prolong its own life."""
    grant = await call.store.grant(call.request.headers["x-auth-token"])
    if grant.application_credential_id is None:
        return
    if not (await call.store.record(ApplicationCredential, grant.application_credential_id)).unrestricted:
        raise Problem(403, FORBIDDEN)


async def _named(call: Call) -> ApplicationCredential:
    found = await call.store.record(ApplicationCredential, call.path("credential_id"))
    if found.user_id != call.path("user_id"):
        raise NotFound(f"Could not find application credential: {found.id}.")
    return found


async def _answer(call: Call, credential: ApplicationCredential, secret: str | None = None) -> Reply:
    view = views.application_credential(call.root_url, credential, await call.store.records(Role))
    if secret is None:
        return Reply({"application_credential": view})
    return Reply({"application_credential": {**view, "secret": secret}}, 201)


def _granted(wanted: list[Ref] | None, known: list[Role], own: frozenset[str]) -> frozenset[str]:
    """Return the names of the roles of a credential; None: all that the token has. Raises: Problem."""
    if not wanted:
        return own
    names = set()
    for ref in wanted:
        name = next((role.name for role in known if role.id == ref.id or role.name == (ref.name or "").lower()), None)
        if name not in own:
            raise Problem(400, "Invalid application credential: Could not find role assignment for the requested role.")
        names.add(name)
    return frozenset(names)


def _expiry(given: NewApplicationCredential, now: float) -> float | None:
    if given.expires_at is None:
        return None
    try:
        expires_at = datetime.fromisoformat(given.expires_at)
    except ValueError:
        raise Problem(400, f"Invalid input for field 'expires_at': {given.expires_at} is not a date.") from None
    seconds = (expires_at if expires_at.tzinfo else expires_at.replace(tzinfo=UTC)).timestamp()
    if seconds > LATEST:
        raise Problem(400, f"Invalid input for field 'expires_at': {given.expires_at} is too far ahead.")
    if seconds <= now:
        raise Problem(400, "Invalid input for field 'expires_at': it is in the past.")
    return seconds
