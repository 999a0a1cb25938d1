"""`whimbrel bus`: configurations of NATS servers for a cloud, and what is on its bus."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import App, Parameter

from whimbrel.adapters import file_modes
from whimbrel.cli import log_setup, terminal
from whimbrel.cli.role_options import DatabaseOptions
from whimbrel.domain.errors import Refused
from whimbrel.domain.ids import CellName
from whimbrel.settings.private_files import write_private

if TYPE_CHECKING:
    from whimbrel.adapters.bus.bus_view import BusView

app = App(
    name="bus",
    help="The bus: configure NATS servers for the cloud, see what is connected.",
    default_parameter=Parameter(negative=()),
)


@app.command
def init(
    *,
    database: DatabaseOptions = DatabaseOptions(),
    output: Path | None = None,
    listen: str = "127.0.0.1:4222",
    name: str = "",
    directory: Path = Path("/var/lib/nats/jwt"),
    certificate: Path | None = None,
    key: Path | None = None,
    ca: Path | None = None,
    cluster_listen: str = "",
    route: tuple[str, ...] = (),
    leaf_listen: str = "",
    insecure: bool = False,
) -> None:
    """Write the configuration of a NATS server; make the keys of the bus if the database has none yet.

    The file contains no secret, and stays as it is when cells and hosts are added. May be repeated: the keys stay.

    Parameters
    ----------
    output
        The file to write. Default: standard output.
    listen
        Address and port for clients.
    name
        Name of the server; each server of a cluster needs its own.
    directory
        Where the server stores accounts. Its user must be able to write there.
    certificate
        The server's certificate: PEM. Required if it listens beyond loopback.
    key
        The certificate's key: PEM.
    ca
        The certificate of the CA, with which servers of a cluster check each other: PEM.
    cluster_listen
        Address and port for the other servers of a cluster.
    route
        nats-route://HOST:PORT of another server of the cluster; may be given several times.
    leaf_listen
        Address and port for leaf servers, which `whimbrel bus leaf` configures.
    insecure
        Allow connections without TLS beyond loopback.
    """
    log_setup.configure(verbose=False)
    _, url = database.found()
    from whimbrel.adapters.bus.server_configuration import ServerOptions
    from whimbrel.bootstrap import bus_administration

    options = ServerOptions(
        listen=listen,
        name=name,
        directory=directory.absolute(),
        certificate=certificate and certificate.absolute(),
        key=key and key.absolute(),
        ca=ca and ca.absolute(),
        insecure=insecure,
        cluster_listen=cluster_listen,
        routes=route,
        leaf_listen=leaf_listen,
    )
    text = asyncio.run(bus_administration.make_configuration(url, options))
    if output is None:
        print(text, end="")
        return
    try:
        output.write_text(text)
    except OSError as error:
        raise Refused(f"{output} cannot be written ({error.strerror}): name another file with --output") from None
    terminal.console().print(f"Wrote {output}. Start the server with: nats-server -c {output}")


@app.command
def leaf(
    directory: Path,
    /,
    *,
    name: str,
    cell: tuple[str, ...],
    hub: tuple[str, ...],
    database: DatabaseOptions = DatabaseOptions(),
    listen: str = "127.0.0.1:4222",
    accounts: Path = Path("/var/lib/nats/jwt"),
    certificate: Path | None = None,
    key: Path | None = None,
    hub_ca: Path | None = None,
    hub_insecure: bool = False,
    installed: Path = Path("/etc/nats"),
    insecure: bool = False,
) -> None:
    """Write the configuration of a leaf server: hosts of a far cell connect to it, and it joins the others for them.

    Copy the directory to the leaf's machine: it contains secrets, valid for a year. Written again, it has a new key.
    Paths of other options are those on that machine.

    Parameters
    ----------
    directory
        The directory to write nats-server.conf and the credentials into.
    name
        Name of the leaf server.
    cell
        A cell whose hosts connect to it; may be given several times.
    hub
        HOST:PORT at which a server of NATS listens for leaf servers (--leaf-listen); may be given several times.
    listen
        Address and port for the agents of the cells' hosts.
    accounts
        Where the leaf server stores accounts. Its user must be able to write there.
    certificate
        The leaf server's certificate: PEM. Required if it listens beyond loopback.
    key
        The certificate's key: PEM.
    hub_ca
        The certificate of the CA of the servers that it joins: PEM. Default: those that its system trusts.
    hub_insecure
        Join them without TLS: others on the way could read and change orders.
    installed
        Where the directory's files will be on the leaf's machine.
    insecure
        Let agents connect without TLS beyond loopback.
    """
    log_setup.configure(verbose=False)
    _, url = database.found()
    from whimbrel.adapters.bus.server_configuration import Hub, ServerOptions
    from whimbrel.bootstrap import bus_administration

    options = ServerOptions(
        name=name, listen=listen, directory=accounts, certificate=certificate, key=key, insecure=insecure
    )
    joined = Hub(
        addresses=hub, cells=tuple(map(CellName, cell)), ca=hub_ca, insecure=hub_insecure, credentials=installed
    )
    public_key, files = asyncio.run(bus_administration.make_leaf(url, options, joined))
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=file_modes.DIRECTORY)
        for each, text in files.items():
            write_private(directory / each, text.encode())
    except OSError as error:
        raise Refused(f"{directory} cannot be written ({error.strerror}): name another directory") from None
    scheme = "tls" if certificate else "nats"
    lines = (
        f"Wrote {directory}. Move its files to {installed} on the machine of {name}, start the server with:",
        f"  nats-server -c {installed / 'nats-server.conf'}",
        f"and let hosts join with: whimbrel agent join TOKEN --bus {scheme}://HOST:PORT",
        f"If its key is lost: whimbrel bus revoke-leaf {public_key}",
    )
    terminal.console().print("\n".join(lines), markup=False, soft_wrap=True)


@app.command
def revoke_leaf(public_key: str, /, *, database: DatabaseOptions = DatabaseOptions()) -> None:
    """Revoke the key of a leaf server: all servers end its connections.

    Parameters
    ----------
    public_key
        The key, as `whimbrel bus leaf` printed it; it is also in the first lines of nats-server.conf.
    """
    log_setup.configure(verbose=False)
    config, url = database.found()
    from whimbrel.bootstrap import bus_administration

    asyncio.run(bus_administration.revoke_leaf(url, config.bus, public_key))
    terminal.console().print(f"Revoked {public_key}.")


@app.command
def push(*, database: DatabaseOptions = DatabaseOptions()) -> None:
    """Store accounts on the servers. Running processes do this by themselves; see `whimbrel bus show`."""
    log_setup.configure(verbose=False)
    config, url = database.found()
    from whimbrel.bootstrap import bus_administration

    names = asyncio.run(bus_administration.push(url, config.bus))
    said = f"Stored: {', '.join(names)}." if names else "The servers have all accounts already."
    terminal.console().print(said)


@app.command
def show(
    *,
    database: DatabaseOptions = DatabaseOptions(),
    json: bool = False,
) -> None:
    """Show the servers and their versions, the accounts, and the connected agents and processes.

    Parameters
    ----------
    json
        One JSON document instead of tables.
    """
    log_setup.configure(verbose=False)
    config, url = database.found()
    from whimbrel.bootstrap import bus_administration

    view = asyncio.run(bus_administration.show(url, config.bus))
    if json:
        terminal.write_json(view)
    else:
        _print_tables(view)


def _print_tables(view: "BusView") -> None:
    servers = terminal.plain_table("server", "host", "version", "connections")
    for server in view.servers:
        servers.add_row(server.name, server.host, server.version, str(server.connections))
    accounts = terminal.plain_table("account", "connections", "")
    for account in view.accounts:
        accounts.add_row(
            account.name, str(account.connections), "" if account.is_stored else "not stored: whimbrel bus push"
        )
    connections = terminal.plain_table("connected", "account", "server", "address", "since")
    for each in view.connections:
        connections.add_row(each.name, each.account, each.server, each.address, each.since)
    leaf_servers = terminal.plain_table("leaf server of", "server", "address", "round trip")
    for leaf in view.leaf_servers:
        leaf_servers.add_row(leaf.account, leaf.server, leaf.address, leaf.round_trip)
    console = terminal.console()
    for table in (servers, accounts, connections, *([leaf_servers] if view.leaf_servers else [])):
        console.print(table)
        console.print()
