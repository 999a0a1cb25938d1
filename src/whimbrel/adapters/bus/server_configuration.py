"""The configuration of nats-server for a cloud. It names the operator only: adding cells and hosts never changes it."""

from pathlib import Path

import msgspec

from whimbrel.adapters.bus.account_keys import AccountKeys
from whimbrel.adapters.bus.nats_subjects import CONTROL_ACCOUNT, SYSTEM_ACCOUNT
from whimbrel.domain.errors import Invalid
from whimbrel.domain.ip_addresses import is_loopback

MAX_PAYLOAD = 8 * 1024 * 1024
"""Larger than NATS's default, 1 MiB, for the guests and ledgers of large hosts."""


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

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise Invalid("a certificate needs its key: give --certificate and --key")
        if not (self.certificate or self.insecure or _is_here(self.listen)):
            raise Invalid(
                f"at {self.listen} others on the network could read and change orders: give a certificate and its key"
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


async def server_configuration(keys: AccountKeys, options: ServerOptions) -> str:
    """Return the text of the configuration file. Keys that are missing are made. It contains no secret."""
    operator, system = await keys.operator(), await keys.account(SYSTEM_ACCOUNT)
    known = [system, await keys.account(CONTROL_ACCOUNT)]
    lines = [
        "# nats-server for Whimbrel, made by `whimbrel bus init`. It contains no secret.",
        f"listen: {_text(options.listen)}",
        *([f"server_name: {_text(options.name)}"] if options.name else []),
        f"max_payload: {MAX_PAYLOAD}",
        f"operator: {_text(operator.jwt)}",
        f"system_account: {_text(system.public_key)}",
        "resolver: {",
        "  type: full",
        f"  dir: {_text(str(options.directory))}",
        "  allow_delete: false",
        '  interval: "5s"',  # so long a server that was down may still admit keys that were revoked meanwhile
        "}",
        "resolver_preload: {",
        *(f"  {each.public_key}: {_text(each.jwt)}" for each in known),
        "}",
        *_tls(options),
        *_cluster(options),
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


def _text(value: str) -> str:
    return msgspec.json.encode(value).decode()
