"""Creates the applications of a cloud's single port: its own APIs, the embedded services', and the internal one."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from starlette.types import ASGIApp

from whimbrel.adapters.bus.agent_server import cells_app
from whimbrel.api.app import compute_app
from whimbrel.api.http import policy as compute_policy
from whimbrel.api.http.context import ConsoleProxy as ConsoleUrl
from whimbrel.api.http.context import Context, PublicUrl
from whimbrel.api.metadata_service import metadata_app
from whimbrel.bootstrap.http_server import DASHBOARD
from whimbrel.bootstrap.images import image_relay
from whimbrel.bootstrap.own_certificates import own_certificates
from whimbrel.bootstrap.process import Process
from whimbrel.bootstrap.service_login import ServiceLogin
from whimbrel.domain.errors import Invalid
from whimbrel.embedded.console.app import ConsoleProxy, ProxyLimits
from whimbrel.embedded.dashboard.app import Dashboard
from whimbrel.embedded.dashboard.change_stream import ChangeStream
from whimbrel.embedded.dashboard.login_relay import LoginRelay
from whimbrel.embedded.identity.app import identity_app
from whimbrel.embedded.image.app import image_app
from whimbrel.history.journal_changes import JournalChanges
from whimbrel.http.policy import Policy
from whimbrel.placement_api import policy as placement_policy
from whimbrel.placement_api.app import placement_app
from whimbrel.placement_api.principals import access
from whimbrel.ports.hosts.bus_access import NoBus
from whimbrel.ports.services.identity import EveryProject
from whimbrel.ports.services.user_grants import NoGrantsNeeded
from whimbrel.settings.datadir import INTERNAL, DataDir

CONSOLE = "console"
"""The path of the proxy of consoles."""


def _public_url(process: Process) -> PublicUrl:
    """Return where hosts reach the compute API, if the settings say it. Raises: Invalid: the file of certificates."""
    services = process.config.services
    url = f"{process.urls.compute}/v2.1" if services.url or services.compute else ""
    try:
        return PublicUrl(url, Path(services.ca_file).read_text() if services.ca_file else "")
    except OSError as error:
        raise Invalid(f"[services]: 'ca_file' is {services.ca_file}, which cannot be read: {error.strerror}") from None


def console_endpoints(process: Process) -> dict[str, ASGIApp]:
    """Return the proxy of consoles by its path."""
    settings = process.config.consoles
    limits = ProxyLimits(settings.allowed_origins, settings.sessions)
    return {CONSOLE: ConsoleProxy(process.cloud, process.urls.console, limits).app}


def _dashboard(process: Process, policy: Policy) -> Dashboard:
    cloud, external = process.cloud, process.external
    changes = ChangeStream(JournalChanges(cloud), process.identity, policy, cloud.clock)
    return Dashboard(
        changes.follow, LoginRelay(external.login_client) if external and not process.own_accounts else None
    )


def endpoints(process: Process, data: DataDir | None, policy_file: Path | None) -> dict[str, ASGIApp]:
    """Return the application of each path of the port; INTERNAL is for the cloud's own processes.

    Raises: Invalid: the policy file.
    """
    cloud, identity = process.cloud, process.identity
    # One file for both: their rule names are distinct, and the rules that both refer to are the same.
    policy = Policy.load({**compute_policy.DEFAULTS, **placement_policy.DEFAULTS["legacy"]}, policy_file)
    proxy = ConsoleUrl(process.urls.console, process.config.consoles.token_lifetime_s)
    context = Context(
        cloud=cloud,
        engine=process.engine,
        identity=identity,
        policy=policy,
        bus=process.bus or NoBus(),
        public=_public_url(process),
        console_proxy=proxy,
        certificates=partial(own_certificates, process.config),
        images_of=process.external.images_of if process.external and "image" in process.external.names else None,
        network_of=process.external.network_of if process.external and "network" in process.external.names else None,
        projects=process.own_accounts or (process.external.identity if process.external else EveryProject()),
        grants=process.external.grants if process.external else NoGrantsNeeded(),
        identity_url=process.external.identity_url if process.external else None,
    )
    apps: dict[str, ASGIApp] = {
        "compute": compute_app(context),
        "placement": placement_app(
            process.placement,
            identity,
            cloud.clock,
            cloud.ids,
            identity_url=context.identity_url,
            rights=access("legacy", policy),
        ),
        **console_endpoints(process),
        DASHBOARD: _dashboard(process, policy).app,
    }
    if process.own_accounts:
        apps["identity"] = identity_app(process.own_accounts, cloud.clock, cloud.ids, process.urls.catalog)
    hears = compute_app(replace(context, identity=ServiceLogin()))
    if process.embedded_network:
        process.embedded_network.hear(hears)
        apps["network"] = process.embedded_network.app(identity)
    if process.image_service:
        apps["image"] = image_app(process.image_service, identity, cloud.ids, process.secret_of_grants)
    if process.bus:
        apps |= image_relay(process.external, cloud.clock, process.secret_of_grants)
    if process.embedded_volumes:
        process.embedded_volumes.hear(hears)
        apps["volume"] = process.embedded_volumes.app
    if data and process.agents:
        apps[INTERNAL] = cells_app({name: cell.agents for name, cell in cloud.cells.items()}, data.agents_secret())
    return apps


def metadata_service(process: Process) -> ASGIApp | None:
    """Return the application for Neutron's metadata agents; None: the settings have no secret for it.

    Raises: Invalid: the file of the secret.
    """
    file = process.config.metadata.secret_file
    if file is None:
        return None
    try:
        secret = Path(file).read_bytes().strip()
    except OSError as error:
        raise Invalid(f"[metadata]: 'secret_file' is {file}, which cannot be read: {error.strerror}") from None
    if not secret:
        raise Invalid(f"[metadata]: 'secret_file' is {file}, which is empty; write the secret into it")
    return metadata_app(process.cloud, secret)
