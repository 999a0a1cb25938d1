"""Over HTTP anything but the agent's own answer is Unavailable, and strangers are told nothing."""

import inspect
from typing import Any, cast

import httpx
import pytest

from tests.host_room import H1, Room, order, spec
from whimbrel.adapters.bus.agent_client import HttpAgents
from whimbrel.adapters.bus.agent_server import agents_app
from whimbrel.adapters.bus.local import LocalAgents
from whimbrel.adapters.bus.verbs import ERRORS, VERBS, decode_trouble
from whimbrel.domain import errors
from whimbrel.domain.errors import Refused, Unavailable
from whimbrel.domain.ids import HostName
from whimbrel.ports.hosts.agent import Agent, Agents

KEY = spec().key


def test_the_table_has_every_verb_of_the_port() -> None:
    methods = {name for name, _ in inspect.getmembers(Agent, inspect.isfunction) if not name.startswith("_")}
    assert set(VERBS) == methods


def test_every_error_of_the_world_can_travel() -> None:
    assert {errors.Refused, errors.Superseded, errors.Unavailable, errors.NotFound} <= set(ERRORS.values())


def answering(status: int, body: bytes) -> HttpAgents:
    client = httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(status, content=body)))
    return HttpAgents("http://hosts.test", "secret", client)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b"Internal Server Error"),
        (503, b""),
        (404, b"Not Found"),
        (200, b"<html>"),
        (200, b'{"key": 1}'),
        (409, b"{}"),
        (409, b'{"error": "Unheard", "reason": "of"}'),
    ],
)
async def test_what_is_no_answer_is_unavailable(status: int, body: bytes) -> None:
    with pytest.raises(Unavailable):
        await answering(status, body).at(H1).look(KEY)


SHUT = httpx.ConnectError("connection refused")
RESET = AttributeError("'NoneType' object has no attribute 'getpeername'")
"""What anyio makes of a connection that uvloop closed before it was looked at."""


@pytest.mark.parametrize("error", [SHUT, RESET], ids=repr)
async def test_an_app_that_cannot_be_reached_is_unavailable(error: Exception) -> None:
    def fail(_: httpx.Request) -> httpx.Response:
        raise error

    client = httpx.AsyncClient(transport=httpx.MockTransport(fail))
    with pytest.raises(Unavailable, match="no answer from host h1 to look"):
        await HttpAgents("http://hosts.test", "secret", client).at(H1).look(KEY)


async def test_the_answer_may_take_as_long_as_the_order_grants() -> None:
    waits: list[float] = []

    def note(request: httpx.Request) -> httpx.Response:
        waits.append(request.extensions["timeout"]["read"])
        return httpx.Response(200, content=b"null")

    client = httpx.AsyncClient(transport=httpx.MockTransport(note))
    agent = HttpAgents("http://hosts.test", "secret", client, timeout_s=10.0).at(H1)
    await agent.stop(order(), KEY, 60.0)
    await agent.start(order(), KEY)
    assert waits == [70.0, 10.0]


def endpoint(agents: Agents) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(agents_app(agents, "secret"), raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://hosts.test")


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer other"}, {"authorization": "Bearer sécret"}])
async def test_strangers_see_nothing(headers: dict[str, str]) -> None:
    raw = {name: value.encode() for name, value in headers.items()}
    async with endpoint(LocalAgents(Room().agents)) as client:
        for path in ("/agents/h1/guests", "/agents/h1/nonsense"):
            assert (await client.post(path, content=b"{}", headers=cast(Any, raw))).status_code == 401


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/agents/h1/guests", b"{}", 200),
        ("/agents/h1/look", b"nonsense", 400),
        ("/agents/h9/guests", b"{}", 409),
    ],
)
async def test_what_the_app_answers(path: str, body: bytes, status: int) -> None:
    async with endpoint(LocalAgents(Room().agents)) as client:
        answer = await client.post(path, content=body, headers={"authorization": "Bearer secret"})
        assert answer.status_code == status


ORDER = b'"order":{"run":"r","epoch":1},"key":{"server":"s","slot":"old"}'


@pytest.mark.parametrize(
    ("verb", "body", "unknown"),
    [
        ("open", b"{}", "the order 'open'"),
        ("__init__", b"{}", "the order '__init__'"),
        ("look", b"{}", "these arguments of look"),
        ("look", b'{"key": {"server": 1, "slot": "a"}}', "these arguments of look"),
        ("unexport_disk", b"{" + ORDER + b',"disk":"ephemeral"}', "the argument 'disk' of unexport_disk"),
        ("export_disk", b"{" + ORDER + b',"disk":"ephemeral2"}', "these arguments of export_disk"),
        ("export_disk", b"{" + ORDER.replace(b'"epoch":1', b'"epoch":1,"new":2') + b"}", "the argument 'order.new'"),
    ],
)
async def test_an_agent_refuses_what_it_does_not_know_all_of(verb: str, body: bytes, unknown: str) -> None:
    """A newer conductor meant something else than what would be done: another disk than the root disk, say."""
    async with endpoint(LocalAgents(Room().agents)) as client:
        answer = await client.post(f"/agents/h1/{verb}", content=body, headers={"authorization": "Bearer secret"})
    trouble = decode_trouble(answer.content)
    assert (answer.status_code, type(trouble)) == (409, Refused)
    assert f"does not know {unknown}" in trouble.reason
    assert "upgrade the agent" in trouble.reason


async def test_an_argument_that_has_its_default_is_not_sent() -> None:
    """So an older agent is asked only what it must know."""
    sent: list[bytes] = []

    def note(request: httpx.Request) -> httpx.Response:
        sent.append(request.content)
        return httpx.Response(409, content=b'{"error":"Refused","reason":"no"}')

    client = httpx.AsyncClient(transport=httpx.MockTransport(note))
    agent = HttpAgents("http://hosts.test", "secret", client).at(H1)
    for disk in ("root", "swap"):
        with pytest.raises(Refused):
            await agent.export_disk(order(), KEY, cast(Any, disk))
    assert [b"disk" in each for each in sent] == [False, True]


class BrokenAgent:
    async def guests(self) -> None:
        raise ZeroDivisionError


async def test_a_bug_behind_the_app_is_unavailable_before_it() -> None:
    broken = LocalAgents({H1: cast(Agent, BrokenAgent())})
    async with endpoint(broken) as client:
        with pytest.raises(Unavailable, match="500"):
            await HttpAgents("http://hosts.test", "secret", client).at(H1).guests()


async def test_names_are_quoted() -> None:
    odd = HostName("rack 1?")
    async with endpoint(LocalAgents({odd: Room().agents[H1]})) as client:
        assert await HttpAgents("http://hosts.test", "secret", client).at(odd).guests() == []
