"""The Placement API over a store in memory, and somebody who asks it: for tests."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import httpx
import pytest
from starlette.types import ASGIApp

from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.engine.databases import open_database
from whimbrel.adapters.sql.engine.schema import create_all
from whimbrel.adapters.sql.placement import SqlPlacement
from whimbrel.bootstrap.http_server import front
from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.placement_api.app import placement_app
from whimbrel.placement_api.microversions import LAST
from whimbrel.ports.services.identity import Principal

NOON = 1_800_000_000.0


class Tokens:
    """An identity service whose tokens are the roles of their holder, all in project `own`."""

    async def principal(self, token: str) -> Principal | None:
        if token == "expired":
            return None
        return Principal(
            user_id=UserId(token), user_name=token, project_id=ProjectId("own"), roles=frozenset(token.split("+"))
        )


class Counting:
    """Ids one after the other, and a clock that stands still."""

    def __init__(self) -> None:
        self._last = 0

    def uuid(self) -> str:
        self._last += 1
        return str(UUID(int=self._last, version=4))

    def now(self) -> float:
        return NOON

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing waits here")


class Client:
    """Asks as an administrator, at the newest version, unless told otherwise."""

    def __init__(self, http: httpx.AsyncClient, database: Database) -> None:
        self._http = http
        self.database = database
        self.store = SqlPlacement(database)

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        at: int | str | None = LAST,
        token: str | None = "admin",
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        params: Any = None,
    ) -> httpx.Response:
        """Send one request. at: the minor version, a whole header, or None for no header."""
        sent = dict(headers or {})
        if at is not None:
            sent["openstack-api-version"] = f"placement 1.{at}" if isinstance(at, int) else at
        if token is not None:
            sent["x-auth-token"] = token
        url = f"/placement{path}"
        if body is None:
            return await self._http.request(method, url, headers=sent, content=content, params=params)
        return await self._http.request(method, url, headers=sent, json=body, params=params)

    async def get(self, path: str, **more: Any) -> Any:
        """Return the body of an answer that must be 200."""
        answer = await self.ask("GET", path, **more)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def refused(self, status: int, method: str, path: str, body: Any = None, **more: Any) -> dict[str, Any]:
        """Return the error of an answer that must be of this status."""
        answer = await self.ask(method, path, body, **more)
        assert answer.status_code == status, answer.text
        error: dict[str, Any] = answer.json()["errors"][0]
        assert error["status"] == status
        assert error["request_id"] == answer.headers["x-openstack-request-id"]
        return error

    async def done(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        """Return an answer that must be a success."""
        answer = await self.ask(method, path, body, **more)
        assert answer.is_success, answer.text
        return answer


def application(database: Database, **more: Any) -> ASGIApp:
    """Make the application, below /placement, over a store that is there."""
    counting = Counting()
    return front({"placement": placement_app(SqlPlacement(database), Tokens(), counting, counting, **more)})


@asynccontextmanager
async def placement() -> AsyncIterator[Client]:
    database = open_database("sqlite://", "placement")
    await create_all(database, "placement")
    transport = httpx.ASGITransport(application(database))
    async with httpx.AsyncClient(transport=transport, base_url="http://cloud") as http:
        yield Client(http, database)
    await database.close()


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with placement() as client:
        yield client
