"""The configuration of nats-server for a cloud. It names the operator only: adding cells and hosts never changes it."""

from pathlib import Path

import msgspec

from whimbrel.adapters.bus.account_keys import AccountKeys
from whimbrel.adapters.bus.nats_subjects import CONTROL_ACCOUNT, SYSTEM_ACCOUNT

MAX_PAYLOAD = 8 * 1024 * 1024
"""Larger than NATS's default, 1 MiB, for the guests and ledgers of large hosts."""


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    listen: str = "127.0.0.1:4222"
    directory: Path = Path("/var/lib/nats/jwt")  # where the server stores accounts; it must be writable for it
    certificate: Path | None = None  # None: without TLS
    key: Path | None = None
    name: str = ""
    cluster_listen: str = ""  # empty: a server alone
    routes: tuple[str, ...] = ()  # the other servers of the cluster, nats-route://HOST:PORT


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
        '  interval: "1m"',
        "}",
        "resolver_preload: {",
        *(f"  {each.public_key}: {_text(each.jwt)}" for each in known),
        "}",
        *_tls(options),
        *_cluster(options),
    ]
    return "\n".join(lines) + "\n"


def _tls(options: ServerOptions) -> list[str]:
    if not (options.certificate and options.key):
        return []
    return [
        "tls: {",
        f"  cert_file: {_text(str(options.certificate))}",
        f"  key_file: {_text(str(options.key))}",
        "}",
    ]


def _cluster(options: ServerOptions) -> list[str]:
    if not options.cluster_listen:
        return []
    return [
        "cluster: {",
        "  name: whimbrel",
        f"  listen: {_text(options.cluster_listen)}",
        f"  routes: [{', '.join(map(_text, options.routes))}]",
        "}",
    ]


def _text(value: str) -> str:
    return msgspec.json.encode(value).decode()
