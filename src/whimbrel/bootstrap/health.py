"""The health of a process, for load balancers: whether it serves, and its database answers."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable

import sqlalchemy as sa
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from whimbrel.adapters.sql.engine.database import Database
from whimbrel.domain.errors import Unavailable, WorldError

HEALTH = "healthz"
"""The path of the endpoint."""
TIMEOUT_S = 2.0

_ASK = sa.text("SELECT 1")


class HealthAnswer(ABC):
    """Answers 200, or 503 with the reason. Anybody may ask, so the reason names no server."""

    @abstractmethod
    async def trouble(self) -> str | None:
        """Return why this process cannot serve; None: it can."""

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request at /healthz."""
        trouble = await self.trouble()
        content = {"status": "unavailable", "reason": trouble} if trouble else {"status": "ok"}
        await JSONResponse(content, 503 if trouble else 200)(scope, receive, send)


class Health(HealthAnswer):
    def __init__(self, database: Database, check: Callable[[], None]) -> None:
        """check: raises Unavailable if this process must not work now."""
        self._database = database
        self._check = check

    async def trouble(self) -> str | None:
        try:
            self._check()
        except Unavailable:
            return "the lease of this process has run out"
        try:
            async with asyncio.timeout(TIMEOUT_S), self._database.urgent.look() as tx:
                await tx.value(_ASK)
        except (WorldError, TimeoutError):
            return "the database does not answer"
        return None

    def beside(self, app: ASGIApp) -> ASGIApp:
        """Mount the endpoint beside an application that has all other paths, including the root."""

        async def either(scope: Scope, receive: Receive, send: Send) -> None:
            await (self.app if scope.get("path") == f"/{HEALTH}" else app)(scope, receive, send)

        return either
