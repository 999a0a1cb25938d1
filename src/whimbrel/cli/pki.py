"""`whimbrel pki`: a small private CA, and the certificates of servers and clients that it signs."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from whimbrel.cli import terminal
from whimbrel.cli.output_format import Json

if TYPE_CHECKING:
    from whimbrel.adapters.private_ca import Issued, PrivateCa

DIRECTORY = Path("pki")
Directory = Annotated[Path, Parameter(help="Directory of the CA.")]

app = App(
    name="pki",
    help="A small private CA for TLS: create it, issue certificates, renew and list them.",
    default_parameter=Parameter(negative=()),
)


@app.command
def init(*, dir: Directory = DIRECTORY, name: str = "Whimbrel CA", days: int = 3650, json: Json = False) -> None:
    """Create a CA: ca.crt, which clients have to trust, and ca.key, which signs.

    Who has ca.key can impersonate every server: keep the directory on a machine of its own, and copy only what each
    machine needs.

    Parameters
    ----------
    name
        Name of the CA in its certificate.
    days
        Days for which the CA is valid.
    """
    _show("Created", dir, _ca(dir).create(name, days, datetime.now(UTC)), json)


@app.command
def issue(
    name: str,
    /,
    *names: str,
    dir: Directory = DIRECTORY,
    use: Literal["server", "client", "both"] = "server",
    days: int | None = None,
    json: Json = False,
) -> None:
    """Make a key and a certificate: NAME.key and NAME.crt. Existing files are not overwritten.

    Parameters
    ----------
    name
        Name of the files, and common name in the certificate; for a client of PostgreSQL, its user there.
    names
        DNS names and IP addresses by which clients connect to the server. Default: NAME.
    use
        What it is for: a server, a client, or both, as the nodes of a NATS cluster are to each other.
    days
        Days for which it is valid. Default: 365, or fewer if the CA expires earlier.
    """
    _show("Issued", dir, _ca(dir).issue(name, names, use, days, datetime.now(UTC)), json)


@app.command
def renew(name: str, /, *, dir: Directory = DIRECTORY, days: int | None = None, json: Json = False) -> None:
    """Replace NAME.crt by a newer certificate of the same key, names and use; `ca` renews the CA itself.

    The key is not needed for it, only that of the CA. What a CA has signed stays valid when the CA is renewed; give
    clients the new ca.crt before the old one expires.

    Parameters
    ----------
    name
        Name of the certificate, without `.crt`.
    days
        Days for which it is valid from now on. Default: as many as before.
    """
    _show("Renewed", dir, _ca(dir).renew(name, days, datetime.now(UTC)), json)


@app.command(name="list")
def list_certificates(*, dir: Directory = DIRECTORY, json: bool = False) -> None:
    """List the CA and its certificates, with the days that are left of each.

    Parameters
    ----------
    json
        One JSON document instead of a table.
    """
    certificates = _ca(dir).list()
    if json:
        terminal.write_json({"certificates": certificates})
        return
    table = terminal.plain_table("name", "use", "names", "expires", "days left")
    for each in certificates:
        left = (each.expires_at - datetime.now(UTC)).days
        table.add_row(each.name, each.use, ", ".join(each.names) or "-", f"{each.expires_at:%Y-%m-%d}", str(left))
    terminal.console().print(table)


def _ca(directory: Path) -> "PrivateCa":
    from whimbrel.adapters.private_ca import PrivateCa

    return PrivateCa(directory)


def _show(verb: str, directory: Path, made: "Issued", json: bool) -> None:
    if json:
        terminal.write_json({"certificate": made})
        return
    names = f" for {', '.join(made.names)}" if made.names else ""
    terminal.console().print(
        f"[bold green]{verb}[/] {directory / made.name}.crt{names}, valid until {made.expires_at:%Y-%m-%d}\n"
        f"sha256 {made.sha256}",
        soft_wrap=True,
    )
