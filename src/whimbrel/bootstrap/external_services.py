"""The services that others run: clients of a Keystone and of what its catalog names, as the settings say.

Invariant: nothing is asked at the start. A service that does not answer stops what needs it, and nothing else.
"""

import ssl
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import httpx

from whimbrel.adapters.openstack.catalog_entries import CatalogEntries
from whimbrel.adapters.openstack.connections import MOST, Connections
from whimbrel.adapters.openstack.http_service import HttpService
from whimbrel.adapters.openstack.identity import KeystoneIdentity
from whimbrel.adapters.openstack.images import HttpImages
from whimbrel.adapters.openstack.keystone_quotas import KeystoneLimits
from whimbrel.adapters.openstack.network import HttpNetwork
from whimbrel.adapters.openstack.own_token import CredentialLogin, Login, OwnToken, unversioned
from whimbrel.adapters.openstack.sealed_grants import SealedGrants
from whimbrel.adapters.openstack.service_client import Answer, Query, Service
from whimbrel.adapters.openstack.session import Session
from whimbrel.adapters.openstack.steady_transport import SteadyTransport
from whimbrel.domain.errors import Invalid, Refused, Unavailable
from whimbrel.domain.ids import ProjectId
from whimbrel.ports.clock import Clock
from whimbrel.settings import CloudConfig
from whimbrel.settings.sections import KeystoneTable

DEFAULT_DOMAIN = {"id": "default"}


class ExternalServices:
    """Clients of the services of [keystone]. closing: closes them."""

    def __init__(self, config: CloudConfig, clock: Clock, closing: AsyncExitStack) -> None:
        assert config.keystone, "the settings have external services"
        self.table: KeystoneTable = config.keystone
        self.names = config.external
        self._overrides = config.services
        self._clock = clock
        self._closing = closing
        auth_url = unversioned(self.table.auth_url)
        self._keystone = self._client(auth_url)
        self.token = OwnToken(self._keystone, partial(login_of, self.table), clock)

    @cached_property
    def identity(self) -> KeystoneIdentity:
        return KeystoneIdentity(self._keystone, self.token, self._clock)

    @property
    def identity_url(self) -> str:
        """Return where clients get a token."""
        return self.table.auth_url

    @property
    def login_client(self) -> httpx.AsyncClient:
        """Return a client of the identity service without a token of its own."""
        return self._keystone

    async def endpoint(self, name: str) -> str:
        """Return the URL of a service without its version. Raises: Unavailable: Keystone, or not in the catalog."""
        if said := getattr(self._overrides, name, None):
            return unversioned(said)
        interfaces = (self.table.interface,) if self.table.interface else ("internal", "public")
        return await self.token.endpoint(name, self.table.region, interfaces)

    async def registered(self, name: str) -> str:
        """Return the URL of a service as clients find it in the catalog. Raises: Unavailable: as in `endpoint`."""
        return await self.token.catalog_url(name, self.table.region, ("public", "internal"))

    @property
    def limits(self) -> KeystoneLimits:
        keystone = HttpService(self._connections, Session(self.token, self._keystone_url), "identity")
        return KeystoneLimits(keystone, self.token, self.table.region)

    @property
    def catalog_entries(self) -> CatalogEntries:
        return CatalogEntries(self._client(unversioned(self.table.auth_url), Session(self.token)))

    @cached_property
    def grants(self) -> SealedGrants:
        return SealedGrants(partial(secret_of, self.table))

    def images_of(self, token: str) -> HttpImages:
        """Return the image service as the user of a token, who may see images that other projects share."""
        return HttpImages(self.http("image", as_user=token))

    def network_of(self, token: str) -> HttpNetwork:
        """Return the network service as the user of a token, who may see networks that are shared with a project."""
        return HttpNetwork(self.service("network", as_user=token))

    def relayed_images(self) -> HttpImages:
        """Return the image service for the relay: transfers do not use up the connections of other requests."""
        return HttpImages(self._client("http://image.invalid", self._session("image"), self._opened(most=0)))

    def volumes_of(self, project: ProjectId, grant: str) -> Service:
        """Return the volume service as the user of a grant; without one as this cloud itself."""
        return GrantedService(self, "volume", "/v3", grant) if grant else self.service("volume", "/v3")

    def service(self, name: str, version: str = "", as_user: str | None = None) -> HttpService:
        """Return the client of a JSON API. version: "/v3". as_user: the token of the user for whom the requests are."""
        return HttpService(self._connections, self._session(name, as_user), name, version)

    def http(self, name: str, as_user: str | None = None) -> httpx.AsyncClient:
        """Return a client of a service that is not only asked for JSON; all share their connections."""
        return self._client(f"http://{name}.invalid", self._session(name, as_user))

    def _session(self, name: str, as_user: str | None = None) -> Session:
        return Session(self.token, partial(self.endpoint, name), as_user, self.identity.accepts)

    async def _keystone_url(self) -> str:
        return unversioned(self.table.auth_url)

    def _client(
        self, url: str, auth: httpx.Auth | None = None, connections: Connections | None = None
    ) -> httpx.AsyncClient:
        transport = SteadyTransport(connections or self._connections)
        return httpx.AsyncClient(base_url=url, auth=auth, transport=transport, timeout=self.table.timeout_s)

    @cached_property
    def _connections(self) -> Connections:
        return self._opened(MOST)

    def _opened(self, most: int) -> Connections:
        """most: connections at a time; 0: any number."""
        connections = Connections(
            self._trusted(), timeout_s=self.table.timeout_s, retries=self.table.retries, most=most
        )
        self._closing.push_async_callback(connections.close)
        return connections

    def _trusted(self) -> ssl.SSLContext:
        """Raises: Invalid: a file has no certificates, or not those that it should."""
        try:
            context = ssl.create_default_context(cafile=self.table.ca_file)
        except OSError as error:
            raise Invalid(
                f"[keystone]: 'ca_file' is {self.table.ca_file}, which cannot be used: {error.strerror or error}; name"
                " a file with certificates in PEM"
            ) from None
        if self.table.cert_file:
            try:
                context.load_cert_chain(self.table.cert_file, self.table.key_file, password="")
            except (OSError, ValueError) as error:
                raise Invalid(
                    f"[keystone]: 'cert_file' is {self.table.cert_file}, which cannot be used ({error}): name a"
                    " certificate and its key in PEM, without a passphrase"
                ) from None
        return context


class GrantedService:
    """Implements adapters.openstack.service_client.Service for the user of a grant."""

    def __init__(self, external: ExternalServices, name: str, version: str, grant: str) -> None:
        self._external = external
        self._name = name
        self._version = version
        self._grant = grant

    async def ask(
        self, method: str, path: str, *, query: Query = (), body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """As in Service. Raises: Refused too: the user's token is no longer accepted."""
        token = self._external.grants.open(self._grant)
        service = self._external.service(self._name, self._version, token)
        answer = await service.ask(method, path, query=query, body=body, headers=headers)
        if answer.status == httpx.codes.UNAUTHORIZED:  # also with a new token of this process beside it
            raise Refused(f"the {self._name} service no longer accepts the token of this request's user")
        return answer


def login_of(table: KeystoneTable) -> Login | CredentialLogin:
    """Return the login, with the secret as it is in its file now. Raises: Unavailable: the file cannot be read."""
    auth_url = unversioned(table.auth_url)
    if table.application_credential_id:
        return CredentialLogin(auth_url=auth_url, id=table.application_credential_id, secret=secret_of(table))
    return Login(
        auth_url=auth_url,
        username=table.username or "",
        password=secret_of(table),
        project_name=table.project_name,
        user_domain=_domain(table.user_domain_name, table.user_domain_id),
        project_domain=_domain(table.project_domain_name, table.project_domain_id),
    )


def secret_of(table: KeystoneTable) -> str:
    """Return the password, or the application credential's secret. Raises: Unavailable."""
    file = Path(table.application_credential_secret_file or table.password_file or "")
    try:
        secret = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Unavailable(f"[keystone]: the secret in {file} cannot be read: {error}") from None
    if not secret:
        raise Unavailable(f"[keystone]: {file} is empty; write the secret into it")
    return secret


def _domain(name: str | None, id: str | None) -> dict[str, str]:
    if name:
        return {"name": name}
    return {"id": id} if id else DEFAULT_DOMAIN
