"""Who holds a token, in every adapter of the port, also with a real Keystone; then what only the one over HTTP has to
mind. For the real one see tests/openstack_services.py.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import httpx
import pytest

from tests.embedded.opened import Opened, opened
from tests.openstack_services import REAL, TIMEOUT_S, RealCloud, real_services
from whimbrel.adapters.clock import SystemClock
from whimbrel.adapters.openstack.identity import BELIEVED_S, KeystoneIdentity
from whimbrel.adapters.openstack.own_token import TOKENS, Login, OwnToken
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


class IdentityAndProjects(Identity, Projects, Protocol):
    """Both ports, which each adapter implements."""


@dataclass
class Around:
    """An identity service with a member of a project. token: of that member. admin: of an administrator."""

    identity: IdentityAndProjects
    token: str
    admin: str
    user: str
    user_name: str
    project: str
    project_name: str
    unscoped: Callable[[], Awaitable[str]]
    """Issue the member a token without a project."""
    revoke: Callable[[str], Awaitable[None]]


def embedded(services: Opened, identity: IdentityAndProjects) -> Around:
    async def unscoped() -> str:
        end = services.clock.now() + 60
        await services.store.issue(
            NewToken(text="bare", user_id="ann", project_id=None, methods=["password"], audit_ids=["a"], expires_at=end)
        )
        return "bare"

    return Around(
        identity, "token of ann", "token of root", "ann", "ann", "p1", "name of p1", unscoped, services.store.revoke
    )


@asynccontextmanager
async def real() -> AsyncIterator[Around]:
    services = real_services()
    own, demo, admin = (services.cloud(name) for name in ("service", "demo", "admin"))
    async with httpx.AsyncClient(base_url=own.login.auth_url, timeout=TIMEOUT_S) as client:

        async def issue(scope: dict[str, object]) -> str:
            proof = {"identity": demo.login.proof["identity"], "scope": scope}
            answer = await client.post(TOKENS, json={"auth": proof})
            return str(answer.raise_for_status().headers["x-subject-token"])

        async def unscoped() -> str:
            return await issue({"unscoped": {}})

        async def revoke(token: str) -> None:
            headers = {"X-Auth-Token": token, "X-Subject-Token": token}
            (await client.delete(TOKENS, headers=headers)).raise_for_status()

        clock = SystemClock()
        yield Around(
            KeystoneIdentity(client, OwnToken(client, lambda: own.login, clock), clock),
            await issue({"project": {"id": demo.project_id}}),
            admin.token,
            user_id(demo),
            "demo",
            demo.project_id,
            "demo",
            unscoped,
            revoke,
        )


def user_id(cloud: RealCloud) -> str:
    found = cloud.session.get_user_id()
    assert found
    return str(found)


@pytest.fixture(params=["store", "keystone", REAL])
async def around(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Around]:
    async with AsyncExitStack() as ending:
        if request.param == "real":
            yield await ending.enter_async_context(real())
            return
        services = await ending.enter_async_context(opened(tmp_path))
        yield embedded(services, keystone(services) if request.param == "keystone" else services.store)


@pytest.fixture
def over_http(services: Opened) -> KeystoneIdentity:
    return keystone(services)


async def test_a_token_has_a_holder(around: Around) -> None:
    principal = await around.identity.principal(around.token)
    assert principal is not None
    assert (principal.user_id, principal.user_name, principal.user_domain_id) == (
        around.user,
        around.user_name,
        "default",
    )
    assert (principal.project_id, principal.project_name, principal.project_domain_id) == (
        around.project,
        around.project_name,
        "default",
    )
    assert principal.roles == {"member", "reader"}
    assert principal.system_scope == ""


@pytest.mark.parametrize("token", ["unknown", "", "tökén", "a b"])
async def test_a_token_that_nobody_has(around: Around, token: str) -> None:
    assert await around.identity.principal(token) is None


async def test_a_token_without_a_scope_has_no_project_and_no_roles(around: Around) -> None:
    principal = await around.identity.principal(await around.unscoped())
    assert principal is not None
    assert (principal.user_id, principal.project_id, principal.roles) == (around.user, "", frozenset())


async def test_a_revoked_token_has_no_holder(around: Around) -> None:
    await around.revoke(around.token)
    assert await around.identity.principal(around.token) is None


async def test_projects_exist_or_not(around: Around) -> None:
    assert await around.identity.has_project(around.project, around.admin)
    for other in ("p9", "../users/ann", "a b", "é"):
        assert not await around.identity.has_project(other, around.admin)


async def test_a_project_exists_for_those_whom_the_service_does_not_tell(around: Around) -> None:
    if not isinstance(around.identity, KeystoneIdentity):
        pytest.skip("the store of the embedded service tells everybody")
    assert await around.identity.has_project("p9", around.token)
    assert await around.identity.has_project("p9", "unknown")


async def test_a_token_that_a_service_rejects_is_believed_as_long_as_keystone_does(around: Around) -> None:
    if not isinstance(around.identity, KeystoneIdentity):
        pytest.skip("the store of the embedded service believes nothing")
    assert await around.identity.principal(around.token)
    assert await around.identity.accepts(around.token)
    await around.revoke(around.token)
    assert await around.identity.principal(around.token)
    assert not await around.identity.accepts(around.token)
    assert await around.identity.principal(around.token) is None


@pytest.mark.parametrize("over_http", [True, False])
async def test_a_token_ends(services: Opened, over_http: bool) -> None:
    identity: Identity = keystone(services) if over_http else services.store
    principal = await identity.principal("token of ann")
    assert principal is not None
    assert principal.expires_at == pytest.approx(services.clock.now() + 3600)
    services.clock.advance(3601)
    assert await identity.principal("token of ann") is None


# Over HTTP


async def test_a_revoked_token_is_believed_for_a_minute_at_most(services: Opened, over_http: Identity) -> None:
    assert await over_http.principal("token of ann")
    await services.store.revoke("token of ann")
    services.clock.advance(BELIEVED_S - 1)
    assert await over_http.principal("token of ann")
    services.clock.advance(1)
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
