"""Creates the applications of a cloud's single port: its own APIs, the embedded services', and the internal one."""

from dataclasses import replace
from pathlib import Path

from starlette.types import ASGIApp

from whimbrel.adapters.bus.agent_server import cells_app
from whimbrel.api.app import compute_app
from whimbrel.api.http import policy as compute_policy
from whimbrel.api.http.context import Context, PublicUrl
from whimbrel.bootstrap.process import Process
from whimbrel.bootstrap.service_login import ServiceLogin
from whimbrel.domain.errors import Invalid
from whimbrel.embedded.identity.app import identity_app
from whimbrel.embedded.image.app import image_app
from whimbrel.http.policy import Policy
from whimbrel.placement_api import policy as placement_policy
from whimbrel.placement_api.app import placement_app
from whimbrel.placement_api.principals import access
from whimbrel.ports.hosts.bus_access import NoBus
from whimbrel.settings.datadir import INTERNAL, DataDir


def _public_url(process: Process) -> PublicUrl:
    """Return where hosts reach the compute API, if the settings say it. Raises: Invalid: the file of certificates."""
    services = process.config.services
    url = f"{process.urls.compute}/v2.1" if services.url or services.compute else ""
    try:
        return PublicUrl(url, Path(services.ca_file).read_text() if services.ca_file else "")
    except OSError as error:
        raise Invalid(f"[services]: 'ca_file' is {services.ca_file}, which cannot be read: {error.strerror}") from None


def endpoints(process: Process, data: DataDir | None, policy_file: Path | None) -> dict[str, ASGIApp]:
    """Return the application of each path of the port; INTERNAL is for the cloud's own processes.

    Raises: Invalid: the policy file.
    """
    cloud, identity = process.cloud, process.identity
    # One file for both: their rule names are distinct, and the rules that both refer to are the same.
    policy = Policy.load({**compute_policy.DEFAULTS, **placement_policy.DEFAULTS["legacy"]}, policy_file)
    context = Context(
        cloud=cloud,
        engine=process.engine,
        identity=identity,
        policy=policy,
        bus=process.bus or NoBus(),
        public=_public_url(process),
    )
    process.network_service.hear(compute_app(replace(context, identity=ServiceLogin())))
    apps: dict[str, ASGIApp] = {
        "identity": identity_app(identity, cloud.clock, cloud.ids, process.urls.catalog),
        "compute": compute_app(context),
        "placement": placement_app(
            process.placement, identity, cloud.clock, cloud.ids, rights=access("legacy", policy)
        ),
        "network": process.network_service.app(identity),
    }
    if process.image_service:
        apps["image"] = image_app(process.image_service, identity, cloud.ids, process.secret_of_grants)
    if process.embedded_volumes:
        apps["volume"] = process.embedded_volumes.app
    if data and process.agents:
        apps[INTERNAL] = cells_app({name: cell.agents for name, cell in cloud.cells.items()}, data.agents_secret())
    return apps
