"""What the agent asks of the program that runs os-brick, one request for each process: a line of JSON each way.

Invariant: a request names a kind and a connection of the volume service, never a command or a path of this host.
"""

import importlib.util
import os
from typing import Any, Literal

import msgspec

from whimbrel.ports.hosts.volume_connector import Abilities, Connected

PROTOCOLS = {"nfs": "NFS", "iscsi": "ISCSI", "iser": "ISER", "fibre_channel": "FIBRE_CHANNEL", "nvmeof": "NVMEOF"}
"""Kind of connection -> os-brick's protocol."""


INSTALL = "pip install 'whimbrel[volumes]'"
NOT_ROOT = "only root can connect volumes: run the agent as root, or set storage_socket"


def general_shortfall() -> str:
    """Return why a program with the rights of this process cannot connect anything; "": it can."""
    if importlib.util.find_spec("os_brick") is None:
        return f"os-brick is not installed: {INSTALL}"
    return NOT_ROOT if os.geteuid() else ""


class BrickRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """device: of a disconnect. The others describe the host, see `whimbrel.settings`."""

    verb: Literal["abilities", "connect", "disconnect", "extend"]
    kind: str = ""
    data: dict[str, Any] = {}
    device: dict[str, Any] = {}
    host: str = ""
    address: str = ""
    multipath: bool = False


class BrickAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """refused: why it failed; "": it was done. size_bytes: of an extended volume."""

    refused: str = ""
    abilities: Abilities | None = None
    connected: Connected | None = None
    size_bytes: int = 0
