"""Dynamic vendor data over HTTP: a POST to each of the operator's services, with what Nova sends.

Invariant: no service delays a guest for longer than both time-outs together.
"""

import asyncio
from typing import Any

import httpx
import msgspec
import structlog

from whimbrel.adapters.openstack.session import Token
from whimbrel.adapters.unanswered import unanswered
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.guest_settings import GuestRules
from whimbrel.domain.server import Server

log = structlog.get_logger(__name__)

MOST_BYTES = 1 << 20
HEADERS = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "openstack-nova-vendordata"}


class HttpVendorData:
    """Implements ports.services.vendor_data.VendorData. token: sent to the services; None: none is."""

    def __init__(self, rules: GuestRules, client: httpx.AsyncClient, token: Token | None = None) -> None:
        self._rules = rules
        self._client = client
        self._token = token

    async def of_server(self, server: Server) -> dict[str, Any]:
        found = {}
        body = msgspec.json.encode(_request(server))
        for name, url in self._rules.dynamic_targets.items():
            try:
                found[name] = await self._ask(url, body)
            except Unavailable as trouble:
                log.warning("no dynamic vendor data", service=name, server=server.id, reason=trouble.reason)
                if self._rules.vendordata_dynamic_failure_fatal:
                    raise Unavailable(f"no vendor data of {name}: {trouble.reason}") from trouble
                found[name] = {}
        return found

    async def _ask(self, url: str, body: bytes) -> Any:
        connect_s, read_s = (
            self._rules.vendordata_dynamic_connect_timeout_s,
            self._rules.vendordata_dynamic_read_timeout_s,
        )
        headers = HEADERS | ({"X-Auth-Token": await self._token.get()} if self._token else {})
        timeout = httpx.Timeout(read_s, connect=connect_s)
        with unanswered(f"{url} does not answer"):
            async with asyncio.timeout(connect_s + read_s):
                answer = await self._client.post(url, content=body, headers=headers, timeout=timeout)
        if not answer.is_success:
            raise Unavailable(f"{url} answers {answer.status_code}")
        if len(answer.content) > MOST_BYTES:
            raise Unavailable(f"{url} answers more than {MOST_BYTES} bytes")
        try:
            return msgspec.json.decode(answer.content) if answer.content else {}
        except msgspec.DecodeError as error:
            raise Unavailable(f"{url} answers what is not JSON: {error}") from error


def _request(server: Server) -> dict[str, Any]:
    return {
        "project-id": server.project_id,
        "instance-id": server.id,
        "image-id": server.image_id or "",
        "user-data": server.user_data,
        "hostname": server.hostname,
        "metadata": server.metadata,
        "boot-roles": server.boot_roles,
    }
