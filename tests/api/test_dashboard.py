"""The dashboard: the page for browsers only, its files, its log-in elsewhere, and its stream of changes."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from starlette.requests import Request

from tests.api.front import OTHER_PROJECT, POLICY, Front, Tokens
from tests.embedded.opened import opened as identity_opened
from tests.processes import HANG_S
from whimbrel.bootstrap import http_server
from whimbrel.embedded.dashboard import change_stream
from whimbrel.embedded.dashboard.app import Dashboard
from whimbrel.embedded.dashboard.change_stream import ChangeStream
from whimbrel.embedded.dashboard.login_relay import LoginRelay
from whimbrel.history.journal_changes import PAUSE_S, JournalChanges
from whimbrel.http.app import App

BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
MOST_HEARD = 5
PROGRAMS = ({}, {"accept": "*/*"}, {"accept": "application/json"})


def stream_of(front: Front) -> ChangeStream:
    cloud = front.world.cloud
    return ChangeStream(JournalChanges(cloud), Tokens(), POLICY, cloud.clock)


@asynccontextmanager
async def client_of(app: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://cloud") as client:
        yield client


@pytest.fixture
async def client(front: Front) -> AsyncIterator[httpx.AsyncClient]:
    other = App(lambda request: pytest.fail("not asked"), None)  # type: ignore[arg-type]
    async with client_of(
        http_server.front({"compute": other, "dashboard": Dashboard(stream_of(front).follow, None).app})
    ) as c:
        yield c


async def test_a_program_gets_the_services_as_before_and_a_browser_the_page(client: httpx.AsyncClient) -> None:
    for headers in PROGRAMS:
        answer = await client.get("/", headers=headers)
        assert answer.json() == {"name": "whimbrel", "services": ["/compute"]}
        assert answer.headers["vary"] == "Accept"
    page = await client.get("/", headers=BROWSER)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "dashboard/dashboard.js" in page.text
    assert (await client.post("/", headers=BROWSER)).status_code == 405


async def test_without_a_dashboard_a_browser_gets_the_services_too() -> None:
    async with client_of(http_server.front({"metrics": App(None, None)})) as client:  # type: ignore[arg-type]
        assert (await client.get("/", headers=BROWSER)).json()["services"] == ["/metrics"]


async def test_the_page_may_load_and_ask_its_own_server_only(client: httpx.AsyncClient) -> None:
    for path in ("/", "/dashboard/dashboard.js", "/dashboard/dashboard.css", "/dashboard/preact/LICENSE"):
        answer = await client.get(path, headers=BROWSER)
        assert answer.status_code == 200, path
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy


async def test_below_its_path_it_has_files_only(client: httpx.AsyncClient) -> None:
    for path in ("/dashboard", "/dashboard/"):
        assert (await client.get(path)).headers["location"] == "../"
    for path in ("index.html", "none", "app.py", "preact/", "preact/package.json", "identity/v3/auth/tokens"):
        assert (await client.get(f"/dashboard/{path}")).status_code == 404, path


async def test_log_ins_are_forwarded_to_an_identity_service_elsewhere(front: Front, tmp_path: Any) -> None:
    proof = {"user": {"name": "ann", "domain": {"id": "default"}, "password": "secret of ann"}}
    auth = {"auth": {"identity": {"methods": ["password"], "password": proof}}}
    async with identity_opened(tmp_path) as there:
        at = httpx.AsyncClient(transport=there.client._transport, base_url="http://keystone/identity")
        async with client_of(
            http_server.front({"dashboard": Dashboard(stream_of(front).follow, LoginRelay(at)).app})
        ) as client:
            assert 'data-identity="dashboard/identity"' in (await client.get("/", headers=BROWSER)).text
            found = await client.post("/dashboard/identity/v3/auth/tokens", json=auth)
            assert found.status_code == 201, found.text
            token = {"x-auth-token": found.headers["x-subject-token"]}
            projects = await client.get("/dashboard/identity/v3/auth/projects", headers=token)
            assert projects.json()["projects"]
            assert (await client.get("/dashboard/identity/v3/users", headers=token)).status_code == 404
            big = await client.post("/dashboard/identity/v3/auth/tokens", content=b"x" * 20_000)
            assert big.status_code == 413
        at = httpx.AsyncClient(base_url="http://127.0.0.1:1")
        async with client_of(
            http_server.front({"dashboard": Dashboard(stream_of(front).follow, LoginRelay(at)).app})
        ) as client:
            assert (await client.post("/dashboard/identity/v3/auth/tokens", json=auth)).status_code == 503


# The stream


class Follower:
    """Reads a stream event by event."""

    def __init__(self, stream: ChangeStream, token: str) -> None:
        self._stream = stream
        self._token = token
        self._parts: Any = None

    async def open(self) -> int:
        headers = [(b"x-auth-token", self._token.encode())] if self._token else []
        response = await self._stream.follow(Request({"type": "http", "method": "GET", "headers": headers}))
        self._parts = getattr(response, "body_iterator", None)
        return response.status_code

    async def hear(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the next events."""
        async with asyncio.timeout(HANG_S):
            text = (await anext(self._parts)).decode()
        events = [each.splitlines() for each in text.split("\n\n") if each.startswith("event")]
        return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in events]

    async def hear_change(self, server: str, at: str | None = None) -> dict[str, Any]:
        """Return the next change of a server; at: at this step."""
        for _ in range(MOST_HEARD):
            for name, data in await self.hear():
                assert name != "reload"
                if name == "change" and data["server_id"] == server and at in (None, data["at"]):
                    return data
        raise AssertionError(f"no change of {server} at {at}")


async def test_the_owner_follows_its_server_and_another_project_does_not(front: Front) -> None:
    stream = stream_of(front)
    owner, other, operator = (Follower(stream, who) for who in ("reader", f"reader@{OTHER_PROJECT}", "admin"))
    for each in (owner, other, operator):
        assert await each.open() == 200
        assert await each.hear() == [("reload", {})]
    server = await front.boot()
    change = await owner.hear_change(server)
    assert (change["move_kind"], change["state"]) == ("create", "done")
    assert await operator.hear_change(server) == change
    assert set(change) == {"server_id", "move_id", "move_kind", "state", "way", "at"}  # no host
    assert await other.hear() == []  # a beat


async def test_a_move_is_followed_to_its_verdict_and_to_its_end(front: Front) -> None:
    server = await front.boot()
    owner = Follower(stream_of(front), "reader")
    await owner.open()
    await owner.hear()
    await front.act(server, {"resize": {"flavorRef": "2"}})
    assert (await owner.hear_change(server))["state"] == "open"
    await front.settle()
    assert (await owner.hear_change(server, "await_verdict"))["state"] == "parked"
    await front.act(server, {"confirmResize": None})
    await front.settle()
    assert (await owner.hear_change(server, "unlock_resized"))["state"] == "done"
    await front.act(server, {"lock": {}})
    assert await owner.hear_change(server, "lock") | {"server_id": ""} == {
        "server_id": "",
        "move_id": None,
        "move_kind": None,
        "state": None,
        "way": None,
        "at": "lock",
    }


async def test_operators_hear_of_hosts(front: Front) -> None:
    stream = stream_of(front)
    operator, owner = Follower(stream, "admin"), Follower(stream, "reader")
    for each in (operator, owner):
        await each.open()
        await each.hear()
    body = {"force_down": {"forced_down": True, "reason": "its power was cut"}}
    await front.ask("PUT", "/whimbrel/hosts/h1/force-down", body, who="admin")
    assert ("hosts", {}) in await operator.hear()
    assert await owner.hear() == []


async def test_operators_hear_of_maintenances(front: Front) -> None:
    operator = Follower(stream_of(front), "admin")
    await operator.open()
    await operator.hear()
    answer = await front.ask("POST", "/whimbrel/maintenances", {"maintenance": {"hosts": ["h1"]}}, who="admin")
    assert answer.status_code == 201
    assert ("hosts", {}) in await operator.hear()


async def test_who_may_not_list_servers_may_not_follow_them(front: Front) -> None:
    assert await Follower(stream_of(front), "").open() == 401
    assert await Follower(stream_of(front), "wrong").open() == 401
    assert await Follower(stream_of(front), "nobody").open() == 403


async def begin(stream: ChangeStream, who: str) -> tuple[int, asyncio.Task[None] | None]:
    """Open a stream as a server does; return its status, and the task of its response once it has begun."""
    headers = [(b"x-auth-token", who.encode())]
    scope = {"type": "http", "method": "GET", "headers": headers, "asgi": {"spec_version": "2.0"}}
    response = await stream.follow(Request(scope))
    if response.status_code != 200:
        return response.status_code, None
    begun = asyncio.Event()

    async def send(_: Any) -> None:
        begun.set()

    async def receive() -> Any:
        await asyncio.Event().wait()

    task = asyncio.create_task(response(scope, receive, send))
    async with asyncio.timeout(HANG_S):
        await begun.wait()
    return 200, task


async def test_a_project_has_some_of_the_streams_only(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_stream, "MOST_OF_PROJECT", 2)
    monkeypatch.setattr(change_stream, "MOST", 3)
    stream = stream_of(front)
    others = (f"reader@{OTHER_PROJECT}", "reader@third")
    begun = [await begin(stream, who) for who in ("reader", "member", "reader", *others)]
    tasks = [task for _, task in begun if task]
    try:
        assert [status for status, _ in begun] == [200, 200, 429, 200, 503]
        tasks[0].cancel()
        await asyncio.wait(tasks[:1])
        status, task = await begin(stream, "reader")
        assert status == 200
        tasks += [task] if task else []
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.wait(tasks)


async def test_a_follower_that_comes_back_after_a_pause_reads_everything_anew(front: Front) -> None:
    changes = JournalChanges(front.world.cloud)
    position = await changes.position()
    await front.world.cloud.clock.sleep(1)
    assert await changes.after(position) == ([], position)
    await front.boot()
    await front.world.cloud.clock.sleep(PAUSE_S + 1)
    found, position = await changes.after(position)
    assert found is None
    assert await changes.after(position) == ([], position)


async def test_the_journal_is_read_once_for_all_followers(front: Front) -> None:
    changes = JournalChanges(front.world.cloud)
    position = await changes.position()
    server = await front.boot()
    await front.world.cloud.clock.sleep(1)
    first = await changes.after(position)
    assert {change.server_id for change in first[0] or ()} == {server}
    await front.ask("POST", f"/servers/{server}/action", {"lock": {}})
    assert await changes.after(position) == first  # read too recently to be read again
    await front.world.cloud.clock.sleep(1)
    found, _ = await changes.after(first[1])
    assert [change.at for change in found or ()] == ["lock"]
