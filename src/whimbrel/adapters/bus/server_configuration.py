"""The configuration of nats-server for a cloud. It names the operator only: adding cells and hosts never changes it."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from whimbrel.adapters.bus.account_keys import AccountKeys
from whimbrel.adapters.bus.nats_subjects import CONTROL_ACCOUNT, SYSTEM_ACCOUNT, cell_account
from whimbrel.domain.errors import Invalid
from whimbrel.domain.ids import CellName
from whimbrel.domain.ip_addresses import is_host_and_port, is_loopback
from whimbrel.ports.stores.bus_accounts import BusAccount

MAX_PAYLOAD = 8 * 1024 * 1024
"""Larger than NATS's default, 1 MiB, for the guests and ledgers of large hosts."""

PING_S, PINGS = 10, 2
"""Interval of a server's pings, and the number of unanswered ones after which it closes a connection. A process that
has stopped, or lost its network, loses its share of questions after half of the time after which hosts count as down;
with NATS's defaults it would after six minutes."""


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between servers of one bus.

    Raises: Invalid: others on the network could read what it transmits, or join it.
    """

    listen: str = "127.0.0.1:4222"
    directory: Path = Path("/var/lib/nats/jwt")  # where the server stores accounts; it must be writable for it
    certificate: Path | None = None  # None: without TLS
    key: Path | None = None
    ca: Path | None = None  # what the servers of a cluster check each other's certificates with
    insecure: bool = False
    name: str = ""
    cluster_listen: str = ""  # empty: a server alone
    routes: tuple[str, ...] = ()  # the other servers of the cluster, nats-route://HOST:PORT
    leaf_listen: str = ""  # empty: no leaf servers join it

    def __post_init__(self) -> None:
        if " " in self.name:
            raise Invalid(f"a server of NATS has no space in its name: {self.name!r}")
        if (self.certificate is None) != (self.key is None):
            raise Invalid("a certificate needs its key: give --certificate and --key")
        for address in (self.listen, self.leaf_listen or self.listen):
            if self.certificate or self.insecure or _is_here(address):
                continue
            raise Invalid(
                f"at {address} others on the network could read and change orders: give a certificate and its key"
                " (`whimbrel pki` makes them), or allow it with --insecure"
            )
        if (
            self.cluster_listen
            and not (self.ca and self.certificate)
            and not (self.insecure or _is_here(self.cluster_listen))
        ):
            raise Invalid(
                f"at {self.cluster_listen} any server could join the cluster and hear all: give the certificate, its"
                " key and the certificate of its CA, or allow it with --insecure"
            )


def _is_here(address: str) -> bool:
    return is_loopback(address.rpartition(":")[0].strip("[]"))


class Hub(msgspec.Struct, frozen=True, kw_only=True):
    """The servers that a leaf server joins, in the accounts of some cells.

    Raises: Invalid: others on the network could read what is sent.
    """

    addresses: tuple[str, ...]  # HOST:PORT for leaf servers
    cells: tuple[CellName, ...]
    ca: Path | None = None  # what their certificates are checked with; None: the system's
    insecure: bool = False  # without TLS
    credentials: Path = Path("/etc/nats")  # the directory of the files of credentials, on the leaf's machine
    public_key: str = ""  # of the leaf server, in a comment of the file

    def __post_init__(self) -> None:
        if self.ca and self.insecure:
            raise Invalid("a CA is used with TLS, and --hub-insecure is without TLS: give one of them")
        for address in self.addresses:
            if not is_host_and_port(address):
                raise Invalid(f"{address} is not HOST:PORT; give where a server of the hub listens for leaf servers")

    @property
    def accounts(self) -> list[str]:
        return [SYSTEM_ACCOUNT, *(cell_account(cell) for cell in self.cells)]

    def file(self, account: str) -> str:
        """Return the name of the file with the credentials of an account."""
        return f"{account.replace('/', '-')}.creds"


async def server_configuration(keys: AccountKeys, options: ServerOptions, hub: Hub | None = None) -> str:
    """Return the text of the configuration file. Keys that are missing are made. It contains no secret.

    hub: of a leaf server, what it joins.
    """
    operator, system = await keys.operator(), await keys.account(SYSTEM_ACCOUNT)
    known = [await keys.account(name) for name in (hub.accounts if hub else (SYSTEM_ACCOUNT, CONTROL_ACCOUNT))]
    lines = [
        f"# nats-server for Whimbrel, made by `whimbrel bus {'leaf' if hub else 'init'}`. It contains no secret.",
        *([f"# The key of this leaf server: {hub.public_key}"] if hub else []),
        f"listen: {_text(options.listen)}",
        *([f"server_name: {_text(options.name)}"] if options.name else []),
        f"max_payload: {MAX_PAYLOAD}",
        f'ping_interval: "{PING_S}s"',
        f"ping_max: {PINGS}",
        f"operator: {_text(operator.jwt)}",
        f"system_account: {_text(system.public_key)}",
        "resolver: {",
        "  type: full",
        f"  dir: {_text(str(options.directory))}",
        "  allow_delete: false",
        '  interval: "5s"',  # the longest time for which a server that was down admits keys that were revoked
        "}",
        "resolver_preload: {",
        *(f"  {each.public_key}: {_text(each.jwt)}" for each in known),
        "}",
        *_tls(options),
        *_cluster(options),
        *_leaf_servers(options),
        *(_remotes(hub, known) if hub else []),
    ]
    return "\n".join(lines) + "\n"


def _tls(options: ServerOptions) -> list[str]:
    return ["tls: {", *_certificate(options), "}"] if options.certificate else []


def _certificate(options: ServerOptions) -> list[str]:
    return [f"  cert_file: {_text(str(options.certificate))}", f"  key_file: {_text(str(options.key))}"]


def _cluster(options: ServerOptions) -> list[str]:
    if not options.cluster_listen:
        return []
    # Servers of a cluster always check each other's certificates.
    tls = ["  tls: {", *_certificate(options), f"  ca_file: {_text(str(options.ca))}", "  }"] if options.ca else []
    return [
        "cluster: {",
        "  name: whimbrel",
        f"  listen: {_text(options.cluster_listen)}",
        f"  routes: [{', '.join(map(_text, options.routes))}]",
        *tls,
        "}",
    ]


def _leaf_servers(options: ServerOptions) -> list[str]:
    if not options.leaf_listen:
        return []
    tls = ["  tls: {", *_certificate(options), "  }"] if options.certificate else []
    return ["leafnodes: {", f"  listen: {_text(options.leaf_listen)}", *tls, "}"]


def _remotes(hub: Hub, accounts: Sequence[BusAccount]) -> list[str]:
    """Join the hub once in each account."""
    scheme = "nats-leaf" if hub.insecure else "tls"
    urls = ", ".join(_text(f"{scheme}://{address}") for address in hub.addresses)
    tls = [f"    tls: {{ ca_file: {_text(str(hub.ca))} }}"] if hub.ca else []
    remotes = []
    for each in accounts:
        file = _text(str(hub.credentials / hub.file(each.name)))
        about = [f"    urls: [{urls}]", f"    account: {_text(each.public_key)}", f"    credentials: {file}"]
        remotes += ["  {", *about, *tls, "  }"]
    return ["leafnodes: {", "remotes: [", *remotes, "]", "}"]


def _text(value: str) -> str:
    return msgspec.json.encode(value).decode()
