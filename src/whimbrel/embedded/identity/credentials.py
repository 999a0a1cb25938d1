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
from whimbrel.embedded.identity.request import FORBIDDEN, Call, admin
from whimbrel.http.problem import Problem
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.ports.services.identity import Credential, Project, User

EC2 = "ec2"


async def index(call: Call) -> Reply:
    wanted = call.filters("user_id", "type")
    if not admin(call):
        wanted["user_id"] = call.principal.user_id
    found = await call.store.records(Credential, **wanted)
    return listed(call, Credential, found)


async def show(call: Call) -> Reply:
    return shown(call, await _own(call))


async def create(call: Call) -> Reply:
    given = await call.inside("credential", NewCredential)
    user = await call.store.record(User, given.user_id)
    _check_owner(call, user.id)
    if given.project_id is not None:
        await call.store.record(Project, given.project_id)
    credential = Credential(
        id=_ec2_id(_keys(given.blob)["access"]) if given.type == EC2 else new_id(call.context.ids),
        user_id=user.id,
        type=given.type,
        blob=given.blob,
        project_id=None if given.project_id is None else ProjectId(given.project_id),
    )
    await call.store.add(credential)
    return shown(call, credential, 201)


async def update(call: Call) -> Reply:
    credential, changes = await _own(call), changes_of(await call.inside("credential", ChangedCredential))
    now = replace(credential, **changes)
    if now.type == EC2:
        _keys(now.blob)
    if changes.get("project_id") is not None:
        await call.store.record(Project, changes["project_id"])
    changed = await call.store.change(Credential, credential.id, changes)
    return shown(call, changed)


async def delete(call: Call) -> Reply:
    await call.store.remove(Credential, (await _own(call)).id)
    return NO_CONTENT


# EC2 keys: the same records, as `openstack ec2 credentials` sees them


async def index_ec2(call: Call) -> Reply:
    found = await call.store.records(Credential, user_id=call.path("user_id"), type=EC2)
    return Reply(views.listing(call.root_url, "credentials", [_ec2_view(call, each) for each in found]))


async def create_ec2(call: Call) -> Reply:
    user = await in_path(call, User)
    project = await call.store.record(Project, (await call.body(Ec2Body)).tenant_id)
    if not admin(call) and project.id != call.principal.project_id:
        raise Problem(403, FORBIDDEN)
    keys = {"access": secrets.token_hex(16), "secret": secrets.token_hex(16)}
    credential = Credential(
        id=_ec2_id(keys["access"]),
        user_id=UserId(user.id),
        project_id=project.id,
        type=EC2,
        blob=msgspec.json.encode(keys).decode(),
    )
    await call.store.add(credential)
    return Reply({"credential": _ec2_view(call, credential)}, 201)


async def show_ec2(call: Call) -> Reply:
    return Reply({"credential": _ec2_view(call, await _ec2(call))})


async def delete_ec2(call: Call) -> Reply:
    await call.store.remove(Credential, (await _ec2(call)).id)
    return NO_CONTENT


async def _ec2(call: Call) -> Credential:
    found = await call.store.record(Credential, _ec2_id(call.path("access")))
    if found.user_id != call.path("user_id"):
        raise Problem(404, f"Could not find credential: {call.path('access')}.")
    return found


def _ec2_view(call: Call, each: Credential) -> dict[str, Any]:
    keys = _keys(each.blob)
    return {
        "user_id": each.user_id,
        "tenant_id": each.project_id,
        "access": keys["access"],
        "secret": keys.get("secret"),
        "trust_id": None,
        "links": {"self": f"{call.root_url}/v3/users/{each.user_id}/credentials/OS-EC2/{keys['access']}"},
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


async def _own(call: Call) -> Credential:
    found = await in_path(call, Credential)
    _check_owner(call, found.user_id)
    return found


def _check_owner(call: Call, user_id: str) -> None:
    if not admin(call) and user_id != call.principal.user_id:
        raise Problem(403, FORBIDDEN)
