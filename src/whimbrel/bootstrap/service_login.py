"""The cloud as a user of its own services: inside a process it is let in as what it is, at the doors it logs in."""

from collections.abc import Callable
from contextlib import AsyncExitStack

import httpx
from starlette.types import ASGIApp

from whimbrel.adapters.openstack.identity import Login, OwnToken
from whimbrel.adapters.openstack.service_client import HttpService, InnerService
from whimbrel.adapters.openstack.session import Session
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.ports.services.identity import Principal
from whimbrel.settings.datadir import DataDir

SERVICE_USER = "whimbrel"
SERVICE_PROJECT = "service"
SERVICE_LOGIN = Principal(
    user_id=UserId(SERVICE_USER),
    user_name=SERVICE_USER,
    project_id=ProjectId(SERVICE_PROJECT),
    roles=frozenset({"admin", "service"}),
)


class ServiceLogin:
    """Fulfils ports.identity.Identity, where nobody else can come in: whoever asks is the cloud itself."""

    async def principal(self, token: str) -> Principal | None:
        return SERVICE_LOGIN


def inside(app: ASGIApp, path: str = "") -> InnerService:
    """Give the way to a service of this process, whose application lets in whoever asks."""
    return InnerService(app, path, {"X-Auth-Token": SERVICE_USER})


async def over_http(data: DataDir, front_url: str, path: str, timeout_s: float, closing: AsyncExitStack) -> HttpService:
    """Give the way to a service through the doors of the cloud.

    path: of its door and version, "compute/v2.1". closing: closes what it opens.
    """
    identity = await closing.enter_async_context(httpx.AsyncClient(base_url=f"{front_url}/identity", timeout=timeout_s))
    auth = Session(OwnToken(identity, _login_of(data, front_url)))
    client = httpx.AsyncClient(base_url=f"{front_url}/{path}", timeout=timeout_s, auth=auth)
    return HttpService(await closing.enter_async_context(client), path.partition("/")[0])


def _login_of(data: DataDir, front_url: str) -> Callable[[], Login]:
    """Say how the cloud's own user logs in: his password is there once the cloud was furnished."""

    def login() -> Login:
        password = data.passwords().get(SERVICE_USER)
        if password is None:
            raise Unavailable(f"there is no password of the user {SERVICE_USER} in {data.path}")
        domain = {"id": "default"}
        return Login(
            auth_url=f"{front_url}/identity",
            username=SERVICE_USER,
            password=password,
            project_name=SERVICE_PROJECT,
            user_domain=domain,
            project_domain=domain,
        )

    return login
