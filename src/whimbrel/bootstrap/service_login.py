"""The cloud as a client of its own services: within a process it is trusted, over HTTP it logs in."""

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
    """Implements ports.identity.Identity for applications without other clients: every principal is the cloud
    itself.
    """

    async def principal(self, token: str) -> Principal | None:
        return SERVICE_LOGIN


def inside(app: ASGIApp, path: str = "") -> InnerService:
    """Return the client of a service in this process, with an application that admits every request."""
    return InnerService(app, path, {"X-Auth-Token": SERVICE_USER})


async def over_http(data: DataDir, front_url: str, path: str, timeout_s: float, closing: AsyncExitStack) -> HttpService:
    """Return the client of a service at the cloud's HTTP server.

    path: of the service and version, "compute/v2.1". closing: closes what it opens.
    """
    identity = await closing.enter_async_context(httpx.AsyncClient(base_url=f"{front_url}/identity", timeout=timeout_s))
    auth = Session(OwnToken(identity, _login_of(data, front_url)))
    client = httpx.AsyncClient(base_url=f"{front_url}/{path}", timeout=timeout_s, auth=auth)
    return HttpService(await closing.enter_async_context(client), path.partition("/")[0])


def _login_of(data: DataDir, front_url: str) -> Callable[[], Login]:
    """Return the login of the cloud's own user; its password exists once the cloud is initialised."""

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
