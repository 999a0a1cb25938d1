"""Credentials for other protocols, such as EC2 keys. This service stores them and checks nothing by them."""

import hashlib
import secrets
from typing import Any

import msgspec
from msgspec.structs import replace

from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.embedded.identity import views
from whimbrel.embedded.identity.accounts import changes_of
from whimbrel.embedded.identity.bodies import ChangedCredential, Ec2Body, NewCredential
from whimbrel.embedded.identity.initial_accounts import new_id
from whimbrel.embedded.identity.record_replies import in_path, listed, shown
from whimbrel.embedded.identity.request import FORBIDDEN, Ask, admin
from whimbrel.http.problem import Problem
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.ports.services.identity import Credential, Project, User

EC2 = "ec2"


async def index(ask: Ask) -> Reply:
    wanted = ask.filters("user_id", "type")
    if not admin(ask):
        wanted["user_id"] = ask.principal.user_id
    found = await ask.store.records(Credential, **wanted)
    return listed(ask, Credential, found)


async def show(ask: Ask) -> Reply:
    return shown(ask, await _own(ask))


async def create(ask: Ask) -> Reply:
    given = await ask.inside("credential", NewCredential)
    user = await ask.store.record(User, given.user_id)
    _check_owner(ask, user.id)
    if given.project_id is not None:
        await ask.store.record(Project, given.project_id)
    credential = Credential(
        id=_ec2_id(_keys(given.blob)["access"]) if given.type == EC2 else new_id(ask.context.ids),
        user_id=user.id,
        type=given.type,
        blob=given.blob,
        project_id=None if given.project_id is None else ProjectId(given.project_id),
    )
    await ask.store.add(credential)
    return shown(ask, credential, 201)


async def update(ask: Ask) -> Reply:
    credential, changes = await _own(ask), changes_of(await ask.inside("credential", ChangedCredential))
    now = replace(credential, **changes)
    if now.type == EC2:
        _keys(now.blob)
    if changes.get("project_id") is not None:
        await ask.store.record(Project, changes["project_id"])
    changed = await ask.store.change(Credential, credential.id, changes)
    return shown(ask, changed)


async def delete(ask: Ask) -> Reply:
    await ask.store.remove(Credential, (await _own(ask)).id)
    return NO_CONTENT


# EC2 keys: the same records, as `openstack ec2 credentials` sees them


async def index_ec2(ask: Ask) -> Reply:
    found = await ask.store.records(Credential, user_id=ask.path("user_id"), type=EC2)
    return Reply(views.listing(ask.root_url, "credentials", [_ec2_view(ask, each) for each in found]))


async def create_ec2(ask: Ask) -> Reply:
    user = await in_path(ask, User)
    project = await ask.store.record(Project, (await ask.body(Ec2Body)).tenant_id)
    if not admin(ask) and project.id != ask.principal.project_id:
        raise Problem(403, FORBIDDEN)
    keys = {"access": secrets.token_hex(16), "secret": secrets.token_hex(16)}
    credential = Credential(
        id=_ec2_id(keys["access"]),
        user_id=UserId(user.id),
        project_id=project.id,
        type=EC2,
        blob=msgspec.json.encode(keys).decode(),
    )
    await ask.store.add(credential)
    return Reply({"credential": _ec2_view(ask, credential)}, 201)


async def show_ec2(ask: Ask) -> Reply:
    return Reply({"credential": _ec2_view(ask, await _ec2(ask))})


async def delete_ec2(ask: Ask) -> Reply:
    await ask.store.remove(Credential, (await _ec2(ask)).id)
    return NO_CONTENT


async def _ec2(ask: Ask) -> Credential:
    found = await ask.store.record(Credential, _ec2_id(ask.path("access")))
    if found.user_id != ask.path("user_id"):
        raise Problem(404, f"Could not find credential: {ask.path('access')}.")
    return found


def _ec2_view(ask: Ask, each: Credential) -> dict[str, Any]:
    keys = _keys(each.blob)
    return {
        "user_id": each.user_id,
        "tenant_id": each.project_id,
        "access": keys["access"],
        "secret": keys.get("secret"),
        "trust_id": None,
        "links": {"self": f"{ask.root_url}/v3/users/{each.user_id}/credentials/OS-EC2/{keys['access']}"},
    }


def _keys(blob: str) -> dict[str, str]:
    """Return the access key and the secret of an EC2 credential. Raises: Problem."""
    try:
        keys = msgspec.json.decode(blob, type=dict[str, str])
        return {name: keys[name] for name in ("access", "secret")}
    except (msgspec.DecodeError, KeyError):
        raise Problem(400, "The blob of an EC2 credential is a JSON object with access and secret.") from None


def _ec2_id(access: str) -> str:
    """Return the id of an EC2 credential, which Keystone derives from its access key."""
    return hashlib.sha256(access.encode()).hexdigest()


async def _own(ask: Ask) -> Credential:
    found = await in_path(ask, Credential)
    _check_owner(ask, found.user_id)
    return found


def _check_owner(ask: Ask, user_id: str) -> None:
    if not admin(ask) and user_id != ask.principal.user_id:
        raise Problem(403, FORBIDDEN)
