"""Absence in the answers of a Neutron, confirmed: its first requests after a start are answered as if nobody were an
administrator.

Ports of other projects are then missing from lists, and not found. Found by ending a real Neutron with signal 9: a
move went on without the port of its server, which stayed bound to the old host.
"""

from collections.abc import Mapping
from typing import Any

import httpx

from whimbrel.adapters.openstack.service_client import Answer, Query, Service
from whimbrel.domain.errors import Unavailable

OF_ADMINISTRATORS = "/v2.0/quotas/whimbrel"
"""The quotas of another project, which need not exist. Only administrators may read them."""

EMPTY_BYTES = 64
"""A longer answer is no empty list."""


class AdministratorsView:
    """Implements service_client.Service for an administrator: what is absent in an answer does not exist."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def ask(
        self, method: str, path: str, *, query: Query = (), body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """As in Service. Raises: Unavailable too: the service does not take this cloud for an administrator."""
        answer = await self._service.ask(method, path, query=query, body=body, headers=headers)
        if not _lacks_something(answer):
            return answer
        seen = await self._service.ask("GET", OF_ADMINISTRATORS)
        if not seen.is_yes:
            raise Unavailable(
                "the network service answers as if this cloud were no administrator: it has just started, or the login"
                " lacks the role admin"
            )
        return await self._service.ask(method, path, query=query, body=body, headers=headers)


def _lacks_something(answer: Answer) -> bool:
    is_empty = len(answer.content) < EMPTY_BYTES and answer.content.rstrip().endswith(b"[]}")
    return answer.status == httpx.codes.NOT_FOUND or (answer.is_yes and is_empty)
