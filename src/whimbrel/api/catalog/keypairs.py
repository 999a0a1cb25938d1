"""Keypairs: public keys that users add to their servers. They belong to a user, independent of the project.

Source: reference of Nova 34, section 2.4.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from whimbrel.api.catalog import key_generation
from whimbrel.api.http import paging, times
from whimbrel.api.http.call import Call
from whimbrel.domain.ids import UserId
from whimbrel.http.reply import Reply
from whimbrel.ports.stores.catalog import Keypair


async def owner(call: Call) -> Mapping[str, str]:
    """Return the policy target: the user that owns the keypairs."""
    return {"user_id": _user(call)}


async def index(call: Call) -> Any:
    found = await call.cloud.keypairs.of_user(_user(call))
    if call.minor < 35:
        return {"keypairs": [{"keypair": _brief(call, keypair)} for keypair in found]}
    page = paging.after_marker(call, found, lambda keypair: keypair.name)[: paging.limit(call)]
    answer: dict[str, Any] = {"keypairs": [{"keypair": _brief(call, keypair)} for keypair in page]}
    if links := paging.next_link(call, len(page), page[-1].name if page else None):
        answer["keypairs_links"] = links
    return answer


async def show(call: Call) -> Any:
    keypair = await call.cloud.keypairs.get(_user(call), call.params["name"])
    shown = _brief(call, keypair) | {
        "id": keypair.number,
        "user_id": keypair.user_id,
        "created_at": times.with_fraction(keypair.created_at),
        "updated_at": None,
        "deleted": False,
        "deleted_at": None,
    }
    return {"keypair": shown}


async def create(call: Call) -> Any:
    """Import a key, or below 2.92 generate one if the request has none."""
    wanted = call.body["keypair"]
    user, now, kind = _user(call), call.cloud.clock.now(), wanted.get("type", "ssh")
    private = None
    public = wanted.get("public_key")
    if public is None:
        # In a thread, because it takes long and releases the interpreter lock meanwhile.
        made = await asyncio.to_thread(key_generation.new_x509, user, now) if kind == "x509" else await _new_ssh()
        private, public = made.private, made.public
    fingerprint = key_generation.x509_fingerprint(public) if kind == "x509" else key_generation.ssh_fingerprint(public)
    keypair = Keypair(
        user_id=user, name=wanted["name"], type=kind, public_key=public, fingerprint=fingerprint, created_at=now
    )
    limits = await call.cloud.quotas.limits(call.principal.project_id, user)
    await call.cloud.keypairs.create(keypair, limits["key_pairs"])
    shown = _brief(call, keypair) | {"user_id": user}
    if private is not None:
        shown["private_key"] = private
    return Reply(body={"keypair": shown}, status=201 if call.minor >= 2 else 200)


async def delete(call: Call) -> Any:
    await call.cloud.keypairs.delete(_user(call), call.params["name"])
    return Reply(status=204 if call.minor >= 2 else 202)


async def _new_ssh() -> key_generation.KeyPair:
    return await asyncio.to_thread(key_generation.new_ssh)


def _user(call: Call) -> UserId:
    """Return the user whose keypairs are requested; from 2.10 on the request may name one."""
    if call.minor >= 10:
        sent = call.body["keypair"].get("user_id") if call.body else call.value("user_id")
        if sent:
            return UserId(sent)
    return call.principal.user_id


def _brief(call: Call, keypair: Keypair) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": keypair.name,
        "public_key": keypair.public_key,
        "fingerprint": keypair.fingerprint,
    }
    if call.minor >= 2:
        shown["type"] = keypair.type
    return shown
