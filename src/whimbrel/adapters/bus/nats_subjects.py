"""The subjects of the bus, and the clients that may use each: the whole of its access control.

In a cell's account, orders go to `host.HOST.SESSION.VERB`, and what agents ask to `register.HOST` and the like. In the
account `control`, wake-ups go to `wake.TOPIC`. An answer goes to the inbox of the client that asked.
Invariant: a host's key admits it for subjects of this host only, whatever it sends in a message.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

from whimbrel.adapters.bus.nats_keys import Permissions
from whimbrel.domain.ids import CellName, HostName

CONTROL_GROUP: Final = "control"
"""The queue group of the processes that answer agents: each question reaches one of them."""

CONTROL_SUBJECTS: Final = {
    "register": "register",
    "beat": "beat",
    "describe": "describe",
    "image_grant": "grant",
    "guest_metadata": "metadata",
    "network_state": "networks",
}
"""Method of the port ControlPlane -> first word of its subjects."""

ANSWER_S: Final = 3600.0
"""How long an agent may answer an order: longer than any order takes."""

WAKE: Final = "wake"
CONTROL_ACCOUNT: Final = "control"
SYSTEM_ACCOUNT: Final = "SYS"


def cell_account(cell: CellName) -> str:
    return f"cell/{cell}"


def token(host: HostName) -> str:
    """Return a host's name as one word of a subject: dots, wildcards and spaces are written as %XX."""
    return quote(host, safe="").replace(".", "%2E")


def host_of(subject: str) -> HostName:
    """Return the host of `register.HOST` and the like."""
    return HostName(unquote(subject.split(".")[1]))


def order_subject(host: HostName, session: int, verb: str) -> str:
    return f"host.{token(host)}.{session}.{verb}"


def agent_inbox(host: HostName) -> str:
    return f"_INBOX_{token(host)}"


def process_inbox(public_key: str) -> str:
    return f"_INBOX.{public_key}"


def of_agent(host: HostName) -> Permissions:
    """The agent of a host: it asks as this host, hears this host's orders, and answers them."""
    asks = [f"{first}.{token(host)}" for first in CONTROL_SUBJECTS.values()]
    return Permissions(asks, [f"host.{token(host)}.>", f"{agent_inbox(host)}.>"], ANSWER_S)


def admits_agent(nats: Mapping[str, Any], host: HostName) -> bool:
    """Check whether claims admit an agent for all that it asks. Those of an older release lack what was added since.

    nats: of the claims.
    """
    allowed = nats.get("pub", {}).get("allow", ())
    return set(of_agent(host).publish) <= set(allowed)


def of_cell_process(public_key: str) -> Permissions:
    """A process of the control plane, in a cell's account: it orders all hosts and answers them."""
    hears = [f"{first}.*" for first in CONTROL_SUBJECTS.values()]
    return Permissions(["host.>"], [*hears, f"{process_inbox(public_key)}.>"], ANSWER_S)


def of_control_process(public_key: str) -> Permissions:
    """A process of the control plane, in the account `control`."""
    return Permissions([f"{WAKE}.*"], [f"{WAKE}.*", f"{process_inbox(public_key)}.>"])


def of_system_user(public_key: str) -> Permissions:
    """A process of the control plane, in the system account: it stores accounts and asks servers for their state."""
    return Permissions(["$SYS.REQ.>"], [f"{process_inbox(public_key)}.>"])


def of_leaf_in_cell() -> Permissions:
    """A leaf server, in the account of a cell whose hosts connect to it: it relays for all of them."""
    return Permissions([">"], [">"])


def of_leaf_in_system() -> Permissions:
    """A leaf server, in the system account: it hears accounts that change, and asks for those that it lacks.

    It answers nothing there: it cannot pretend that a server has stored an account or has other claims of it.
    """
    changes = ("$SYS.REQ.CLAIMS.UPDATE", "$SYS.REQ.ACCOUNT.*.CLAIMS.UPDATE", "$SYS.ACCOUNT.*.CLAIMS.UPDATE")
    return Permissions(["$SYS.REQ.CLAIMS.PACK"], [*changes, "$SYS._INBOX.>"])
