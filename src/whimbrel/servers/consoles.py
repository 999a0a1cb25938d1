"""Access to the consoles of servers: tokens for users, and connections for those who have one.

Invariant: a token opens the console of its server only where the server was when the token was issued.
"""

import secrets
from hashlib import sha256

from whimbrel.domain.console import ConsoleAddress, ConsoleKind
from whimbrel.domain.errors import NotFound, WrongState
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.console_tokens import ConsoleToken
from whimbrel.servers import lookup

WITHOUT_CONSOLE = ("building", "stopped", "suspended", "shelved", "shelved_offloaded")
TOKEN_BYTES = 32


async def issue_token(cloud: Cloud, server: Server, kind: ConsoleKind, lifetime_s: float) -> str:
    """Return a new token for a console. Raises: WrongState: the server has no running guest."""
    if server.vm_state in WITHOUT_CONSOLE or not (server.cell and server.host and server.slot):
        raise WrongState(f"Instance {server.id} is not ready")
    text, now = secrets.token_urlsafe(TOKEN_BYTES), cloud.clock.now()
    token = ConsoleToken(
        digest=_digest(text),
        kind=kind,
        server_id=server.id,
        cell=server.cell,
        host=server.host,
        slot=server.slot,
        expires_at=now + lifetime_s,
    )
    await cloud.console_tokens.add(token, now)
    return text


async def find_token(cloud: Cloud, text: str) -> ConsoleToken:
    """Raises: NotFound: the token is unknown or has expired, or its server is gone or elsewhere; Unavailable."""
    token = await cloud.console_tokens.get(_digest(text), cloud.clock.now())
    server = await lookup.find(cloud, token.server_id)
    if (server.cell, server.host, server.slot) != (token.cell, token.host, token.slot):
        raise NotFound("Token not found")
    return token


async def open_console(cloud: Cloud, token: ConsoleToken) -> ConsoleAddress:
    """Return where the token's console waits for one connection. Raises: Refused; Unavailable: no answer."""
    return await cloud.agent(token.cell, token.host).open_console(GuestKey(token.server_id, token.slot), token.kind)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
