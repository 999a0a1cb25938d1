"""`whimbrel placement`: the Placement API as a process of its own, for any cloud, and the copying of its data.

Invariant: the port is bound and the policy is valid before the database is opened.
"""

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter
from rich.markup import escape

from whimbrel import settings
from whimbrel.adapters.sql.engine.urls import without_password
from whimbrel.bootstrap import http_server
from whimbrel.cli import log_setup
from whimbrel.cli.database_option import VARIABLE, chosen_database, warn_of_passwords
from whimbrel.cli.role_options import SettingsFile, settings_of
from whimbrel.cli.service_command import keep_what_is_loaded, run_until_stopped, say
from whimbrel.cli.serving import listen
from whimbrel.cli.serving import metrics_secret as secret_of_settings
from whimbrel.domain.errors import Invalid
from whimbrel.settings.datadir import DataDir, default_path
from whimbrel.settings.named_files import read_word
from whimbrel.settings.sections import TlsTable

if TYPE_CHECKING:
    import asyncio

    from starlette.types import ASGIApp

    from whimbrel.adapters.openstack.own_token import CredentialLogin, Login
    from whimbrel.bootstrap.placement import EmbeddedIdentity, PlacementSettings

NO_CLOUD = "--os-cloud ''"
"""For the client: an exported cloud, or the only one in clouds.yaml, has a login that some plug-ins refuse."""
PORT = 8778
Auth = Literal["noauth2", "keystone", "embedded"]

app = App(
    name="placement",
    help="Start the Placement API as a process of its own; copy data from OpenStack Placement, and back.",
    default_parameter=Parameter(negative=()),
)
app.command("whimbrel.cli.placement_copy:import_", name="import", help="Copy OpenStack Placement's database here.")
app.command("whimbrel.cli.placement_copy:export", help="Copy everything into OpenStack Placement's database.")


@Parameter(name="*")  # its fields are options
@dataclass(frozen=True)
class Keystone:
    """How to reach Keystone, and the login with which tokens are validated there."""

    os_auth_url: Annotated[str | None, Parameter(env_var="OS_AUTH_URL")] = None
    """With --auth keystone: the URL of Keystone."""
    os_username: Annotated[str | None, Parameter(env_var="OS_USERNAME")] = None
    """The user that validates tokens, with the role service or admin."""
    os_password: Annotated[str | None, Parameter(env_var="OS_PASSWORD", show_default=False)] = None
    """Its password; in the environment other users of this machine cannot see it."""
    os_project_name: Annotated[str | None, Parameter(env_var="OS_PROJECT_NAME")] = None
    """Its project."""
    os_user_domain_id: Annotated[str, Parameter(env_var="OS_USER_DOMAIN_ID")] = "default"
    """Its domain."""
    os_user_domain_name: Annotated[str | None, Parameter(env_var="OS_USER_DOMAIN_NAME")] = None
    """Its domain, by name."""
    os_project_domain_id: Annotated[str, Parameter(env_var="OS_PROJECT_DOMAIN_ID")] = "default"
    """The domain of its project."""
    os_project_domain_name: Annotated[str | None, Parameter(env_var="OS_PROJECT_DOMAIN_NAME")] = None
    """The domain of its project, by name."""


@dataclass(frozen=True)
class Metrics:
    """Access to /metrics."""

    open: bool
    secret: str  # "": none was given

    def secret_for(self, identity: "Login | CredentialLogin | DataDir | EmbeddedIdentity | None") -> str | None:
        """Return the bearer token of scrapers; "" matches nothing, None: no token is needed."""
        if self.open or identity is None:
            return None
        return self.secret or (identity.metrics_secret() if isinstance(identity, DataDir) else "")


@app.default
def placement(
    *,
    db: str | None = None,
    db_file: Path | None = None,
    settings_file: SettingsFile = None,
    port: int = PORT,
    host: str | None = None,
    auth: Auth | None = None,
    policy_defaults: Literal["legacy", "secure-rbac"] = "legacy",
    policy: Path | None = None,
    cors_origin: tuple[str, ...] = (),
    max_allocation_candidates: int = 10_000,
    data_dir: Path | None = None,
    seed: int | None = None,
    no_metrics: bool = False,
    metrics_secret: Path | None = None,
    open_metrics: bool = False,
    http_limit: tuple[str, ...] = (),
    keystone: Keystone | None = None,
    verbose: bool = False,
) -> None:
    """Start the Placement API as a process of its own. SIGTERM or Ctrl-C ends it in order.

    Several processes can serve the same database at once. `import` and `export` copy data instead of starting it.

    Parameters
    ----------
    db
        sqlite:///DIRECTORY, or postgresql://USER@HOST/NAME. It is created if it does not exist. Default: the
        environment variable WHIMBREL_DATABASE.
    db_file
        A file with that URL: a password in it is not shown to other users, as one on the command line is.
    settings_file
        The settings of the cloud to which it belongs: database, certificate, limits. Default: it belongs to none.
    port
        Port to listen at, 0: a free one.
    host
        Address to listen at. Default: that of [listen] of the settings, 127.0.0.1.
    auth
        Authentication: by tokens of Keystone (keystone) or of a cloud of Whimbrel (embedded); noauth2: none, for
        tests. Default: with --settings embedded, else keystone.
    policy_defaults
        The default rules.
    policy
        A policy file in oslo.policy's format that overrides the defaults.
    cors_origin
        Origin from which browsers may send requests, such as https://dashboard.example.org; can be repeated.
    max_allocation_candidates
        The maximum number of allocation candidates in one answer, with any limit of the client or none; -1: no maximum.
    data_dir
        With --auth embedded: the directory of the cloud.
    seed
        Order candidates in the same way at every start with this number. Default: another order at each start, so that
        several processes do not all begin with the same hosts.
    no_metrics
        Do not serve /metrics.
    metrics_secret
        File with the bearer token that Prometheus sends. Default: with --auth embedded metrics.secret of the cloud's
        directory; with keystone none, and all requests to /metrics are refused.
    open_metrics
        Serve /metrics without authentication. This is the default with --auth noauth2.
    http_limit
        A limit of the HTTP server, such as connections=1000; can be repeated. docs/http-limits.md lists them.
    verbose
        Log more than warnings.
    """
    log_setup.configure(verbose)
    warn_of_passwords()
    config = settings_of(settings_file, None) if settings_file else settings.CloudConfig()
    database_url = chosen_database(db, db_file, "--db") or config.database.url
    if database_url is None:
        raise Invalid(f"no database is named: give --db, --db-file or {VARIABLE}, or --settings")
    limits = settings.http_limits(http_limit) if http_limit else config.http
    from whimbrel.bootstrap.placement import PlacementSettings

    chosen = PlacementSettings(
        database_url=database_url,
        identity=_identity(auth, config if settings_file else None, data_dir, keystone or Keystone()),
        connections=config.database.connections,
        migrates=settings_file is None,
        policy_defaults=policy_defaults,
        policy=policy,
        cors_origins=cors_origin,
        max_allocation_candidates=max_allocation_candidates,
        seed=seed,
    )
    secret = _read_secret(metrics_secret) or secret_of_settings(config, None) or ""
    metrics = None if no_metrics else Metrics(open_metrics or config.metrics.open, secret)
    with listen(host or config.listen.host, port, config) as endpoint:
        run_until_stopped(lambda stop: _serve(chosen, endpoint, stop, limits, metrics, config.tls))


async def _serve(
    chosen: "PlacementSettings",
    endpoint: socket.socket,
    stop: "asyncio.Event",
    limits: settings.HttpTable,
    metrics: Metrics | None,
    tls: TlsTable,
) -> None:
    from whimbrel.bootstrap.placement import open_placement

    async with open_placement(chosen) as (app, health):
        app = _watched(app, metrics.secret_for(chosen.identity)) if metrics else app
        app = health.beside(app)
        keep_what_is_loaded()
        url = http_server.url_of(endpoint, tls)
        await http_server.serve(app, endpoint, stop, lambda: _ready(chosen, url), limits, tls)


def _read_secret(file: Path | None) -> str:
    """Read the secret of Prometheus in the way Prometheus reads it. Raises: Invalid."""
    return read_word(file, "--metrics-secret", "a long random word") if file else ""


def _watched(app: "ASGIApp", secret: str | None) -> "ASGIApp":
    """Count requests, and serve /metrics; all other paths go to the application."""
    from whimbrel.bootstrap.metrics import Watch

    watch = Watch()
    return watch.beside(watch.count_one(app, "placement"), secret)


def _identity(
    auth: Auth | None, config: settings.CloudConfig | None, data_dir: Path | None, keystone: Keystone
) -> "Login | CredentialLogin | DataDir | EmbeddedIdentity | None":
    """Return the service or directory that authenticates requesters. Raises: Invalid: something is missing."""
    if auth == "noauth2":
        return None
    if auth == "keystone" or (auth is None and config is None):
        return _login(keystone)
    if config is None:
        return DataDir(data_dir or default_path())
    if config.keystone:
        from whimbrel.bootstrap.external_services import login_of

        return login_of(config.keystone)
    from whimbrel.bootstrap.placement import EmbeddedIdentity

    url = config.services.identity or (config.services.url and f"{config.services.url}/identity")
    if url is None:
        raise Invalid("[services] of the settings has no 'url', where clients get their tokens: set it")
    return EmbeddedIdentity(url)


def _login(given: Keystone) -> "Login":
    from whimbrel.adapters.openstack.own_token import Login

    def needed(option: str) -> str:
        value: str | None = getattr(given, option)
        if value:
            return value
        raise Invalid(
            f"Keystone validates tokens, and how to reach it is missing: give --{option.replace('_', '-')} or set"
            f" {option.upper()}, or choose --auth embedded, or --auth noauth2 for tests"
        )

    auth_url = needed("os_auth_url").rstrip("/").removesuffix("/v3")
    if not auth_url.startswith(("http://", "https://")):
        raise Invalid(f"{given.os_auth_url} is no URL: give --os-auth-url http://HOST/identity")
    return Login(
        auth_url=auth_url,
        username=needed("os_username"),
        password=needed("os_password"),
        project_name=needed("os_project_name"),
        user_domain=_domain(given.os_user_domain_name, given.os_user_domain_id),
        project_domain=_domain(given.os_project_domain_name, given.os_project_domain_id),
    )


def _domain(name: str | None, id: str) -> dict[str, str]:
    return {"name": name} if name else {"id": id}


def _ready(chosen: "PlacementSettings", url: str) -> None:
    """Print the address, and the next commands."""
    version = "--os-placement-api-version 1.39"
    if chosen.identity is None:
        client = f"openstack {NO_CLOUD} --os-auth-type none --os-endpoint {url} {version}"
        note = "[yellow]Requests are not authenticated: for tests only.[/]"
    else:
        token = '"$(openstack token issue -f value -c id)"'
        client = f"openstack {NO_CLOUD} --os-auth-type admin_token --os-token {token} --os-endpoint {url} {version}"
        note = "Clients that use the catalog need an endpoint of the service type placement in it."
    needs = "[dim]openstack needs the plug-in osc-placement for this: pip install osc-placement[/]"
    say(
        f"[bold green]Placement is up[/] at {url}",
        f"Data: {escape(without_password(chosen.database_url))}   To end it: Ctrl-C or kill {os.getpid()}",
        note,
        "\nIn another terminal:\n",
        f"  [bold]{client} resource provider create one[/]",
        f"  [bold]{client} resource provider list[/]",
        f"  [bold]curl {url}/[/]",
        f"\n{needs}",
    )
