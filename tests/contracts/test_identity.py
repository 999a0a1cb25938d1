"""Who holds a token, in every adapter of the port; then what only the one over HTTP has to mind."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest

from tests.embedded.opened import Opened, opened
from whimbrel.adapters.openstack.identity import BELIEVED_S, KeystoneIdentity
from whimbrel.adapters.openstack.own_token import Login, OwnToken
from whimbrel.domain.errors import Unavailable
from whimbrel.ports.services.identity import Identity, NewToken, Projects
from whimbrel.sim.world.clock import JumpingClock

IN_DEFAULT = {"name": "Default"}
LOGIN = Login(
    auth_url="http://cloud/identity",
    username="root",
    password="secret of root",
    project_name="name of p0",
    user_domain={"id": "default"},
    project_domain=IN_DEFAULT,
)


def keystone(services: Opened, login: Login = LOGIN) -> KeystoneIdentity:
    """Take the embedded service for a Keystone."""
    services.client.base_url = httpx.URL(login.auth_url)
    return KeystoneIdentity(services.client, OwnToken(services.client, lambda: login, services.clock), services.clock)


def alone(client: httpx.AsyncClient) -> KeystoneIdentity:
    clock = JumpingClock()
    return KeystoneIdentity(client, OwnToken(client, lambda: LOGIN, clock), clock)


@pytest.fixture
async def services(tmp_path: Path) -> AsyncIterator[Opened]:
    async with opened(tmp_path) as services:
        yield services


@pytest.fixture(params=["store", "keystone"])
def identity(request: pytest.FixtureRequest, services: Opened) -> Identity:
    return keystone(services) if request.param == "keystone" else services.store


@pytest.fixture
def over_http(services: Opened) -> KeystoneIdentity:
    return keystone(services)


async def test_a_token_has_a_holder(services: Opened, identity: Identity) -> None:
    principal = await identity.principal("token of ann")
    assert principal is not None
    assert (principal.user_id, principal.user_name, principal.user_domain_id) == ("ann", "ann", "default")
    assert (principal.project_id, principal.project_name, principal.project_domain_id) == (
        "p1",
        "name of p1",
        "default",
    )
    assert principal.roles == {"member", "reader"}
    assert principal.expires_at == pytest.approx(services.clock.now() + 3600)


@pytest.mark.parametrize("token", ["unknown", "", "tökén", "a b"])
async def test_a_token_that_nobody_has(identity: Identity, token: str) -> None:
    assert await identity.principal(token) is None


async def test_a_token_without_a_scope_has_no_project_and_no_roles(services: Opened, identity: Identity) -> None:
    end = services.clock.now() + 60
    await services.store.issue(
        NewToken(text="bare", user_id="ann", project_id=None, methods=["password"], audit_ids=["a"], expires_at=end)
    )
    principal = await identity.principal("bare")
    assert principal is not None
    assert (principal.project_id, principal.roles) == ("", frozenset())


async def test_a_token_ends(services: Opened, identity: Identity) -> None:
    assert await identity.principal("token of ann")
    services.clock.advance(3601)
    assert await identity.principal("token of ann") is None


async def test_projects_exist_or_not(services: Opened, identity: Projects) -> None:
    assert await identity.has_project("p1", "token of root")
    for other in ("p9", "../users/ann", "a b", "é"):
        assert not await identity.has_project(other, "token of root")


# Over HTTP


async def test_a_project_exists_for_whom_keystone_does_not_tell(services: Opened, over_http: KeystoneIdentity) -> None:
    assert (await services.ask("ann", "GET", "http://cloud/identity/v3/projects/p9")).status_code == 403
    assert await over_http.has_project("p9", "token of ann")
    assert await over_http.has_project("p9", "unknown")


async def test_a_revoked_token_is_believed_for_a_minute_at_most(services: Opened, over_http: Identity) -> None:
    assert await over_http.principal("token of ann")
    await services.store.revoke("token of ann")
    services.clock.advance(BELIEVED_S - 1)
    assert await over_http.principal("token of ann")
    services.clock.advance(1)
    assert await over_http.principal("token of ann") is None


async def test_a_token_that_a_service_rejects_is_believed_as_long_as_keystone_does(
    services: Opened, over_http: KeystoneIdentity
) -> None:
    assert await over_http.principal("token of ann")
    assert await over_http.accepts("token of ann")
    await services.store.revoke("token of ann")
    assert await over_http.principal("token of ann")
    assert not await over_http.accepts("token of ann")
    assert await over_http.principal("token of ann") is None


async def test_our_own_token_may_end(services: Opened, over_http: Identity) -> None:
    end = services.clock.now() + 40 * 3600
    await services.store.issue(
        NewToken(text="long", user_id="ann", project_id="p1", methods=["password"], audit_ids=["a"], expires_at=end)
    )
    assert await over_http.principal("long")
    services.clock.advance(20 * 3600)  # longer than what our own login gave
    assert await over_http.principal("long")


async def test_a_token_may_be_for_the_whole_system() -> None:
    user = {"id": "u", "name": "name of u", "domain": {"id": "d", "name": "name of d"}}
    shown = {"user": user, "expires_at": "2100-01-01T00:00:00.000000Z", "system": {"all": True}, "roles": []}
    answers = httpx.MockTransport(lambda _: httpx.Response(200, json={"token": shown}))
    async with httpx.AsyncClient(transport=answers, base_url=LOGIN.auth_url) as client:
        principal = await alone(client).principal("token")
        assert principal is not None
        assert (principal.system_scope, principal.project_id) == ("all", "")


async def test_a_login_that_is_wrong_says_nothing_about_callers(services: Opened) -> None:
    wrong = Login(**{name: getattr(LOGIN, name) for name in LOGIN.__struct_fields__} | {"password": "wrong"})
    with pytest.raises(Unavailable, match="answers 401 to this service"):
        await keystone(services, wrong).principal("token of ann")


@pytest.mark.parametrize(
    "answer",
    [
        lambda request: httpx.Response(500),
        lambda request: httpx.Response(201 if request.method == "POST" else 503),
        lambda request: httpx.Response(200, text="<html>"),
        lambda request: httpx.Response(200, json={"token": {"user": 1}}),
    ],
)
async def test_a_service_in_trouble_says_nothing_about_callers(
    answer: Callable[[httpx.Request], httpx.Response],
) -> None:
    await _says_nothing(httpx.MockTransport(answer))


async def test_a_service_that_is_not_there_says_nothing_about_callers() -> None:
    await _says_nothing(httpx.AsyncHTTPTransport(), "http://127.0.0.1:1")


async def _says_nothing(transport: httpx.AsyncBaseTransport, url: str = LOGIN.auth_url) -> None:
    async with httpx.AsyncClient(transport=transport, base_url=url) as client:
        with pytest.raises(Unavailable):
            await alone(client).principal("token")
