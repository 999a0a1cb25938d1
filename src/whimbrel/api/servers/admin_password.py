"""The administrator's password of a guest: changed in the guest, shown encrypted for the server's key pair."""

import base64
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import load_ssh_public_key

from whimbrel.api.http.call import Call
from whimbrel.api.servers import action_states
from whimbrel.domain.errors import Conflict, NoGuestAgent, OverQuota, Refused
from whimbrel.domain.guest_agent import admin_of, has_agent
from whimbrel.domain.server import Server
from whimbrel.http.problem import Problem
from whimbrel.servers import edit
from whimbrel.servers.lifecycle import change_password

OVERHEAD_BYTES = 11
"""Of PKCS #1 v1.5: a password that is longer than the key without it cannot be encrypted."""


async def change(call: Call) -> None:
    server, password = call.server, call.body["changePassword"]["adminPass"]
    action_states.check_lock(call)
    action_states.check(server, "changePassword", ("active",))
    action_states.check_placed(server)
    if not has_agent(server.image_properties):
        raise Conflict("QEMU guest agent is not enabled")
    user = admin_of(server.image_properties)
    encrypted = _encrypted(server, password)
    try:
        await change_password.accept(call.cloud, call.engine, call.requester, server, password, user, encrypted)
    except NoGuestAgent:
        raise Problem(501, "Unable to set password on instance", "notImplemented") from None
    except OverQuota:
        raise
    except Refused as refusal:
        raise Conflict(f"Failed to set admin password on {server.id} because {refusal.reason}") from None


async def show(call: Call) -> Any:
    return {"password": call.server.guest_password}


async def clear(call: Call) -> None:
    """Forget the encrypted password; that of the guest stays."""
    if call.server.guest_password:
        await edit.change(call.cloud, call.server, {"guest_password": ""})


def _encrypted(server: Server, password: str) -> str:
    """Return the password for the server's RSA key, in base64. "": it has none, or one that cannot take it."""
    try:
        key = load_ssh_public_key((server.key_data or "").encode())
    except (ValueError, UnsupportedAlgorithm):
        return ""
    secret = password.encode()
    if not isinstance(key, rsa.RSAPublicKey) or len(secret) > key.key_size // 8 - OVERHEAD_BYTES:
        return ""
    return base64.b64encode(key.encrypt(secret, padding.PKCS1v15())).decode()
