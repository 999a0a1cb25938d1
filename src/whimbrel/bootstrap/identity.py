"""The identity service of a process: the embedded one, in its database, or the Keystone of the settings.

The latter is imported only if the settings name one: `whimbrel up` starts fast.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from whimbrel.adapters.openstack.session import Token
from whimbrel.adapters.sql.identity.store import SqlIdentity
from whimbrel.bootstrap.process_base import ProcessBase
from whimbrel.bootstrap.service_login import IssuedToken, ServiceClients
from whimbrel.bootstrap.service_urls import ServiceUrls, service_urls
from whimbrel.ports.services.identity import Identity

if TYPE_CHECKING:
    from whimbrel.bootstrap.external_services import ExternalServices


@dataclass(frozen=True)
class Authentication:
    """Who makes a request, and how this process authenticates its own."""

    identity: Identity
    accounts: SqlIdentity | None  # of the embedded identity service; None: others run one
    external: "ExternalServices | None"  # the services that others run; None: all are embedded
    urls: ServiceUrls
    clients: ServiceClients
    token: Token  # of this process


def authentication(base: ProcessBase) -> Authentication:
    """Create it. Nothing is asked over HTTP."""
    config, clock, opened = base.start.config, base.clock, base.opened
    urls, ca_file = service_urls(config.services, base.start.front_url), config.services.ca_file
    if config.keystone is None:
        accounts = SqlIdentity(base.database("identity"), clock)
        token = IssuedToken(accounts, clock)
        clients = ServiceClients(urls, token, ca_file, opened)
        return Authentication(accounts, accounts, None, urls, clients, token)
    from whimbrel.bootstrap.external_services import ExternalServices

    external = ExternalServices(config, clock, opened)
    clients = ServiceClients(urls, external.token, ca_file, opened)
    return Authentication(external.identity, None, external, urls, clients, external.token)
