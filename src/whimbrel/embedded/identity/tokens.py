"""Authenticate, and issue, validate and revoke tokens.

Invariant: a refusal does not reveal its reason: unknown user, disabled user and wrong password read the same.
"""

import secrets

from whimbrel.domain.errors import NotFound, Refused
from whimbrel.embedded.identity import catalog_resources, views
from whimbrel.embedded.identity.bodies import (
    Auth,
    CredentialProof,
    Proof,
    Ref,
    RefInDomain,
    Scope,
)
from whimbrel.embedded.identity.record_replies import listed
from whimbrel.embedded.identity.request import FORBIDDEN, UNAUTHORIZED, Call, admin
from whimbrel.http.call import SERVICE_ROLE
from whimbrel.http.problem import Problem
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.ports.services.identity import (
    ApplicationCredential,
    Domain,
    Grant,
    IdentityStore,
    NewToken,
    Project,
    Role,
    SystemAssignment,
    User,
)

TOKEN_LIFETIME_S = 12 * 3600.0
METHODS = {"password", "token", "application_credential"}


async def create(call: Call) -> Reply:
    auth = await call.inside("auth", Auth)
    proof = auth.identity
    if not set(proof.methods) <= METHODS:
        raise Problem(401, f"Only these methods are known here: {', '.join(sorted(METHODS))}.")
    if "application_credential" in proof.methods:
        return await _by_application_credential(call, auth)
    user, earlier = await _prove(call, proof)
    if earlier and earlier.application_credential_id:
        raise Problem(403, "A token of an application credential cannot be exchanged for another one.")
    wanted = NewToken(
        text=_new_text(),
        user_id=user.id,
        project_id=await _project_id(call.store, auth, user),
        system_scope="all" if isinstance(auth.scope, Scope) and auth.scope.system is not None else "",
        methods=[*dict.fromkeys([*proof.methods, *(earlier.methods if earlier else [])])],
        audit_ids=[secrets.token_urlsafe(16), *(earlier.audit_ids[-1:] if earlier else [])],
        expires_at=earlier.principal.expires_at if earlier else call.context.clock.now() + TOKEN_LIFETIME_S,
    )
    return await _issued(call, wanted)


async def _by_application_credential(call: Call, auth: Auth) -> Reply:
    """Issue a token of an application credential, which has the project and the roles of that. Raises: Problem."""
    given = auth.identity.application_credential
    if given is None or len(set(auth.identity.methods)) > 1:
        raise Problem(400, "identity.application_credential is missing, or is not the only method.")
    if auth.scope is not None:
        raise Problem(401, "Application credentials cannot request a scope.")
    credential = await _named_credential(call.store, given)
    account = f"application credential {credential.id if credential else given.id or given.name}"
    right = await call.knows_password(given.secret, credential.secret_hash if credential else None, account)
    now = call.context.clock.now()
    if credential is None or not right or (credential.expires_at or now + 1) <= now:
        raise Problem(401, UNAUTHORIZED)
    expires_at = now + TOKEN_LIFETIME_S
    wanted = NewToken(
        text=_new_text(),
        user_id=credential.user_id,
        project_id=credential.project_id,
        methods=["application_credential"],
        audit_ids=[secrets.token_urlsafe(16)],
        expires_at=min(expires_at, credential.expires_at or expires_at),
        application_credential_id=credential.id,
    )
    return await _issued(call, wanted)


async def _named_credential(store: IdentityStore, given: CredentialProof) -> ApplicationCredential | None:
    if given.id is not None:
        found = await store.records(ApplicationCredential, id=given.id)
    elif given.name is not None and given.user is not None:
        user = await _named_user(store, given.user)
        found = await store.records(ApplicationCredential, name=given.name, user_id=user.id) if user else []
    else:
        raise Problem(400, "An application credential is named by id, or by name and user.")
    return found[0] if found else None


def _new_text() -> str:
    return secrets.token_hex(32)  # hexadecimal: command lines parse a leading dash as an option


async def _issued(call: Call, wanted: NewToken) -> Reply:
    try:
        grant = await call.store.issue(wanted)
    except (Refused, NotFound) as error:
        raise Problem(401, UNAUTHORIZED) from error
    return await _answer(call, grant, wanted.text, 201)


async def show(call: Call) -> Reply:
    subject = await _subject(call)
    return await _answer(call, await call.store.grant(subject), subject, 200)


async def revoke(call: Call) -> Reply:
    await call.store.revoke(await _subject(call))
    return NO_CONTENT


async def show_catalog(call: Call) -> Reply:
    if not call.principal.project_id:
        raise Problem(403, FORBIDDEN)
    return Reply(
        {"catalog": await catalog_resources.in_tokens(call), "links": {"self": f"{call.root_url}/v3/auth/catalog"}}
    )


async def list_projects(call: Call) -> Reply:
    """List the projects to which the requester can scope a token."""
    found = [project for project in await call.store.projects_of(call.principal.user_id) if project.enabled]
    return listed(call, Project, found)


async def list_systems(call: Call) -> Reply:
    """List the systems to which the requester can scope a token: there is one.

    Source: Keystone 30 does not regard the user's groups here.
    """
    has = await call.store.assignments(SystemAssignment, user_id=call.principal.user_id)
    links = {"self": f"{call.root_url}/v3/auth/system"}
    return Reply({"system": [{"all": True}] if has else [], "links": links})


async def list_domains(call: Call) -> Reply:
    """List the domains to which a token can be scoped: always empty."""
    return listed(call, Domain, [])


async def refuse_trusts(call: Call) -> Reply:
    raise Problem(404, "Trusts are not supported here: use an application credential.")


async def _answer(call: Call, grant: Grant, text: str, status: int) -> Reply:
    catalog = None if call.flag("nocatalog") else await catalog_resources.in_tokens(call)
    view = views.token(grant, await call.store.records(Domain), await call.store.records(Role), catalog)
    if grant.application_credential_id:
        credential = await call.store.record(ApplicationCredential, grant.application_credential_id)
        its = {"id": credential.id, "name": credential.name, "restricted": not credential.unrestricted}
        view["token"]["application_credential"] = its
    return Reply(view, status, {"X-Subject-Token": text})


async def _subject(call: Call) -> str:
    """Return the token in question: the requester's own, or any for administrators, and to look at for services."""
    headers = call.request.headers
    subject = headers.get("x-subject-token")
    if not subject:
        raise Problem(400, "The header X-Subject-Token is missing.")
    looks = call.request.method != "DELETE" and SERVICE_ROLE in call.principal.roles
    if subject == headers.get("x-auth-token") or admin(call) or looks:
        return subject
    if (await call.store.grant(subject)).principal.user_id != call.principal.user_id:
        raise Problem(403, FORBIDDEN)
    return subject


async def _prove(call: Call, proof: Proof) -> tuple[User, Grant | None]:
    """Authenticate by every method in the proof. Raises: Problem."""
    user: User | None = None
    earlier: Grant | None = None
    for method in dict.fromkeys(proof.methods):
        if method == "password":
            found = await _by_password(call, proof)
        else:
            earlier = await _by_token(call.store, proof)
            found = await call.store.record(User, earlier.principal.user_id)
        if user is not None and user.id != found.id:
            raise Problem(401, UNAUTHORIZED)
        user = found
    assert user is not None, "a proof has a method"
    return user, earlier


async def _by_password(call: Call, proof: Proof) -> User:
    if proof.password is None:
        raise Problem(400, "identity.password is missing.")
    given = proof.password.user
    user = await _named_user(call.store, given)
    domain = given.domain or Ref()
    account = user.id if user else f"{given.id} {given.name} {domain.id} {domain.name}"
    stored = user.password_hash if user and user.enabled else None
    right = await call.knows_password(given.password, stored, account)
    if user is None or not right:
        raise Problem(401, UNAUTHORIZED)
    return user


async def _by_token(store: IdentityStore, proof: Proof) -> Grant:
    if proof.token is None:
        raise Problem(400, "identity.token is missing.")
    try:
        return await store.grant(proof.token.id)
    except NotFound as error:
        raise Problem(401, UNAUTHORIZED) from error


async def _named_user(store: IdentityStore, given: RefInDomain) -> User | None:
    if given.id is not None:
        found = await store.records(User, id=given.id)
    elif given.name is not None and given.domain is not None:
        found = await store.records(User, name=given.name, domain_id=await _domain_id(store, given.domain))
    else:
        raise Problem(400, "A user is named by id, or by name and domain.")
    return found[0] if found else None


async def _project_id(store: IdentityStore, auth: Auth, user: User) -> str | None:
    """Return the project of the token; None: it is unscoped or for the system. Raises: Problem."""
    scope = auth.scope
    if scope == "unscoped":
        return None
    if scope is None:
        return await _default_project_id(store, user)
    if sum(part is not None for part in (scope.project, scope.domain, scope.system, scope.unscoped)) != 1:
        raise Problem(400, "A scope is exactly one of system, project, domain or unscoped.")
    if scope.domain is not None:
        raise Problem(401, "Tokens can be scoped to projects and to the system, not to domains.")
    return None if scope.project is None else await _named_project_id(store, scope.project)


async def _named_project_id(store: IdentityStore, given: RefInDomain) -> str:
    if given.id is not None:
        return given.id
    if given.name is None or given.domain is None:
        raise Problem(400, "A project is named by id, or by name and domain.")
    found = await store.records(Project, name=given.name, domain_id=await _domain_id(store, given.domain))
    if not found:
        raise Problem(401, UNAUTHORIZED)
    return found[0].id


async def _default_project_id(store: IdentityStore, user: User) -> str | None:
    """Return the user's default project if a token for it is still permitted."""
    mine = {project.id for project in await store.projects_of(user.id) if project.enabled}
    return user.default_project_id if user.default_project_id in mine else None


async def _domain_id(store: IdentityStore, given: Ref) -> str:
    """Return a domain's id, or "" for an unknown domain."""
    if given.id is not None:
        return given.id
    return next((domain.id for domain in await store.records(Domain) if domain.name == given.name), "")
