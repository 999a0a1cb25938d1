"""Requests bear our token: one for all who ask at once, another where it is not taken any more."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from whimbrel.adapters.openstack.own_token import Login, OwnToken
from whimbrel.adapters.openstack.session import Session
from whimbrel.domain.errors import Unauthenticated, Unavailable
from whimbrel.sim.world.clock import JumpingClock

LOGIN = Login(
    auth_url="http://cloud/identity",
    username="whimbrel",
    password="secret",
    project_name="service",
    user_domain={"id": "default"},
    project_domain={"id": "default"},
)


class Cloud:
    """An identity service that gives tokens t1, t2 ..., and a service that takes only the newest."""

    def __init__(self) -> None:
        self.logins = 0
        self.valid = ""
        self.answers = True

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if not self.answers:
            return httpx.Response(503)
        if request.url.path == "/identity/v3/auth/tokens":
            self.logins += 1
            self.valid = f"t{self.logins}"
            end = "2100-01-01T00:00:00.000000Z"
            return httpx.Response(201, headers={"X-Subject-Token": self.valid}, json={"token": {"expires_at": end}})
        taken = request.headers["X-Auth-Token"] == self.valid
        return httpx.Response(200 if taken else 401, content=request.content)


def clients(cloud: Cloud) -> httpx.AsyncClient:
    transport = httpx.MockTransport(cloud)
    identity = httpx.AsyncClient(transport=transport, base_url=LOGIN.auth_url)
    return httpx.AsyncClient(
        transport=transport,
        base_url="http://cloud/service",
        auth=Session(OwnToken(identity, lambda: LOGIN, JumpingClock())),
    )


async def test_one_login_for_all() -> None:
    cloud = Cloud()
    client = clients(cloud)
    answers = await asyncio.gather(*(client.get("/x") for _ in range(5)))
    assert [answer.status_code for answer in answers] == [200] * 5
    assert cloud.logins == 1


async def test_a_token_that_ended_is_renewed() -> None:
    cloud = Cloud()
    client = clients(cloud)
    await client.get("/x")
    cloud.valid = "other"
    answer = await client.post("/x", json={"a": 1})
    assert (answer.status_code, answer.json(), cloud.logins) == (200, {"a": 1}, 2)


async def test_what_cannot_be_sent_twice_is_not() -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"once"

    cloud = Cloud()
    client = clients(cloud)
    await client.get("/x")
    cloud.valid = "other"
    assert (await client.put("/x", content=body())).status_code == 401
    assert cloud.logins == 1


async def test_an_identity_service_that_does_not_help() -> None:
    cloud = Cloud()
    cloud.answers = False
    with pytest.raises(Unavailable):
        await clients(cloud).get("/x")


class Fixed:
    """A token of this process that is renewed once."""

    def __init__(self) -> None:
        self.token = "ours"

    async def get(self, ended: str | None = None) -> str:
        if ended == self.token:
            self.token = "ours anew"
        return self.token


class Seen:
    """A service that notes what it was asked, and rejects the first token of this process."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str, str]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        headers = request.headers
        self.asked.append((str(request.url), headers["Host"], headers["X-Auth-Token"], headers["X-Service-Token"]))
        return httpx.Response(401 if headers["X-Service-Token"] == "ours" else 200)


async def test_own_requests_have_the_token_as_service_token_too() -> None:
    seen = Seen()
    async with httpx.AsyncClient(transport=httpx.MockTransport(seen), auth=Session(Fixed())) as client:
        assert (await client.get("http://s/x")).status_code == 200
    assert [tokens for _, _, *tokens in seen.asked] == [["ours", "ours"], ["ours anew", "ours anew"]]


async def test_requests_for_a_user_have_the_users_token_beside_ours() -> None:
    async def place() -> str:
        return "https://volumes.example.org:8776/base/"

    seen = Seen()
    session = Session(Fixed(), place, as_user="theirs")
    async with httpx.AsyncClient(
        transport=httpx.MockTransport(seen), auth=session, base_url="http://volume.invalid/v3"
    ) as client:
        await client.post("/p/volumes", params={"a": "b c"}, json={})
    url, host = "https://volumes.example.org:8776/base/v3/p/volumes?a=b+c", "volumes.example.org:8776"
    assert seen.asked == [(url, host, "theirs", "ours"), (url, host, "theirs", "ours anew")]


@pytest.mark.parametrize("accepted", [True, False])
async def test_a_rejected_request_for_a_user_is_repeated_only_if_keystone_accepts_the_users_token(
    accepted: bool,
) -> None:
    asked: list[str] = []

    async def is_accepted(token: str) -> bool:
        asked.append(token)
        return accepted

    seen, own = Seen(), Fixed()
    session = Session(own, as_user="theirs", is_accepted=is_accepted)
    async with httpx.AsyncClient(transport=httpx.MockTransport(seen), auth=session) as client:
        if accepted:
            assert (await client.get("http://s/x")).status_code == 200
        else:
            with pytest.raises(Unauthenticated):
                await client.get("http://s/x")
    assert asked == ["theirs"]
    assert (len(seen.asked), own.token) == ((2, "ours anew") if accepted else (1, "ours"))
