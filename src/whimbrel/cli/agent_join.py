"""`whimbrel agent join`: make the key of a host on its own machine, and register it with the cloud.

Invariant: the secret of the invitation is sent only to a server whose certificate is trusted, by the system or by the
hash in the token, or with --insecure.
"""

import ssl
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from whimbrel.adapters.bus.bus_servers import BusServers
from whimbrel.adapters.bus.nats_keys import new_key
from whimbrel.api.views.hosts import HostJoin, HostJoinAnswer
from whimbrel.cli.client import NEWEST
from whimbrel.domain import join_token
from whimbrel.domain.errors import Invalid, Refused, Unavailable
from whimbrel.domain.ids import CellName, HostName
from whimbrel.domain.ip_addresses import is_plain_beyond_loopback
from whimbrel.settings.agentdir import DEFAULT, AgentDir, Membership
from whimbrel.settings.named_files import read_text

if TYPE_CHECKING:
    import httpx

TIMEOUT_S = 30.0


def join(
    token: str | None = None,
    /,
    *,
    token_file: Path | None = None,
    dir: Path = DEFAULT,
    bus: tuple[str, ...] = (),
    insecure: bool = False,
) -> None:
    """Join a cloud: make this host's key, and store what its agent needs.

    The private key is made here and stays here. Joining again, with a new invitation, replaces the key.

    Parameters
    ----------
    token
        The token that `whimbrel host invite` printed.
    token_file
        A file with the token: it is not shown to other users of this machine, as one on the command line is.
    dir
        Directory of the agent.
    bus
        URL of the server of NATS to use, such as a leaf server near this host; may be given several times. Default: the
        cloud's.
    insecure
        Send the secret over plain HTTP to another machine.
    """
    invitation = join_token.read(_text(token, token_file))
    if is_plain_beyond_loopback(invitation.url) and not insecure:
        raise Invalid(
            f"the cloud is at {invitation.url}, to which the secret would be sent without TLS: make the cloud serve"
            " HTTPS, or use --insecure if the network is trusted"
        )
    if bus:
        BusServers(urls=bus, insecure=insecure)  # checked before the invitation is used up
    home, key = AgentDir(dir), new_key("user")
    home.keep_new_seed(key.seed.encode())
    joined = _admitted(invitation, key.public)
    home.complete(
        Membership(
            host=HostName(joined.host),
            cell=CellName(joined.cell),
            bus_urls=bus or tuple(joined.bus_urls),
            jwt=joined.jwt,
        ),
        joined.bus_ca,
    )
    print(f"host {joined.host} has joined cell {joined.cell}; start its agent: whimbrel agent --dir {home.path}")


def _text(token: str | None, file: Path | None) -> str:
    if (token is None) == (file is None):
        raise Invalid("give the token that `whimbrel host invite` printed, or a file with it: --token-file FILE")
    if file is None:
        return token or ""
    return read_text(file, "--token-file")


# The cloud


def _admitted(invitation: join_token.JoinToken, public_key: str) -> HostJoin:
    """Send the public key. Raises: Refused: the cloud refuses it, or is another one; Unavailable."""
    body = {"join": {"host": invitation.host, "secret": invitation.secret, "public_key": public_key}}
    answer = _sent(invitation, "POST", "/whimbrel/joins", _trusted(invitation), body)
    return msgspec.convert(answer, HostJoinAnswer).join


def _trusted(invitation: join_token.JoinToken) -> ssl.SSLContext:
    """Return the context that verifies the cloud's certificate. Raises: Refused: it does not match the token."""
    if not invitation.ca_sha256:
        return ssl.create_default_context()
    unchecked = ssl.create_default_context()
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE  # of public data, whose hash is checked
    ca = _sent(invitation, "GET", "/whimbrel/trust", unchecked)["ca"]
    if sha256(ca.encode()).hexdigest() != invitation.ca_sha256:
        raise Refused(
            f"what answers at {invitation.url} is not the cloud of this token, or its certificates have changed: check"
            " the address, and invite the host again"
        )
    return ssl.create_default_context(cadata=ca)


def _sent(invitation: join_token.JoinToken, method: str, path: str, trust: ssl.SSLContext, body: Any = None) -> Any:
    import httpx

    try:
        with httpx.Client(verify=trust, timeout=TIMEOUT_S) as client:
            headers = {"openstack-api-version": f"compute {NEWEST}"}
            answer = client.request(method, invitation.url + path, json=body, headers=headers)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Unavailable(
            f"the cloud at {invitation.url} does not answer ({error}): check the address and its certificate, then run"
            " this again; if the invitation was used up, invite the host again"
        ) from None
    if not answer.is_success:
        raise Refused(_reason(answer))
    try:
        return answer.json()
    except ValueError:
        raise Refused(f"what answers at {invitation.url} is no Whimbrel: check the address") from None


def _reason(answer: "httpx.Response") -> str:
    try:
        [error] = answer.json().values()
        return f"{error['message']} (HTTP {answer.status_code})"
    except (ValueError, LookupError, TypeError, AttributeError):
        return f"{answer.reason_phrase} (HTTP {answer.status_code})"
