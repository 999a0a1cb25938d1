"""`whimbrel bus`: the configuration of the NATS servers of a cloud."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import App, Parameter

from whimbrel.cli import log_setup
from whimbrel.cli.role_options import DatabaseFile, SettingsFile, database_of, settings_of
from whimbrel.domain.errors import Invalid, Refused

if TYPE_CHECKING:
    from whimbrel.adapters.bus.server_configuration import ServerOptions

LISTEN = "127.0.0.1:4222"
ACCOUNTS = Path("/var/lib/nats/jwt")

app = App(
    name="bus", help="The NATS servers of a cloud: their configuration.", default_parameter=Parameter(negative=())
)


@app.command
def init(
    *,
    settings_file: SettingsFile = None,
    database_file: DatabaseFile = None,
    output: Path | None = None,
    listen: str = LISTEN,
    directory: Path = ACCOUNTS,
    certificate: Path | None = None,
    key: Path | None = None,
    name: str = "",
    cluster_listen: str = "",
    route: tuple[str, ...] = (),
) -> None:
    """Write the configuration file of a NATS server. It has no secret, and hosts and cells never change it.

    The keys of the bus are made in the cloud's database, unless they are there: migrate it first.

    Parameters
    ----------
    settings_file
        The settings of the cloud, for its database.
    database_file
        A file with the URL of the database, if the settings do not say it.
    output
        The file to write. Default: print it.
    listen
        Address and port at which the server listens.
    directory
        Directory in which the server stores accounts; it has to be able to write there.
    certificate
        The certificate of the server, for TLS.
    key
        Its key.
    name
        Name of the server; each server of a cluster has its own.
    cluster_listen
        Address and port at which the server listens for other servers of its cluster.
    route
        Another server of the cluster, nats-route://HOST:PORT; can be repeated.
    """
    log_setup.configure(verbose=False)
    if (certificate is None) != (key is None):
        raise Invalid("a certificate needs its key: give --certificate and --key")
    config = settings_of(settings_file, None)
    url = database_of(config, database_file, None)
    from whimbrel.adapters.bus.server_configuration import ServerOptions

    options = ServerOptions(
        listen=listen,
        directory=directory.absolute(),
        certificate=certificate and certificate.absolute(),
        key=key and key.absolute(),
        name=name,
        cluster_listen=cluster_listen,
        routes=route,
    )
    text = asyncio.run(_configuration(url, options))
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text)
    except OSError as error:
        raise Refused(f"{output} cannot be written ({error.strerror}): name another file with --output") from None


async def _configuration(url: str, options: "ServerOptions") -> str:
    from whimbrel.adapters.bus.account_keys import AccountKeys
    from whimbrel.adapters.bus.server_configuration import server_configuration
    from whimbrel.adapters.clock import SystemClock
    from whimbrel.adapters.sql.engine.databases import open_database
    from whimbrel.adapters.sql.engine.schema import check
    from whimbrel.adapters.sql.global_.bus_accounts import SqlBusAccounts

    check(url, "global")
    database = open_database(url, "global")
    try:
        return await server_configuration(AccountKeys(SqlBusAccounts(database), SystemClock()), options)
    finally:
        await database.close()
