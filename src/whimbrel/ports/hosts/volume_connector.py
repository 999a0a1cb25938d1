"""Connects a host to volumes of a storage network: it logs in to their targets, or mounts their shares.

Kinds are those of the volume service's connections ("driver_volume_type"). All methods are repeatable and keep no state
that matters: what is connected is in the kernel. Raises, in all methods: Unavailable: no answer, it may have happened.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec


class Connected(msgspec.Struct, frozen=True, kw_only=True):
    """A connected volume. path: of its block device or file. device: what `disconnect` needs to find it again."""

    path: str
    device: dict[str, Any] = {}


class Abilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a host can connect. connector: its addresses for the volume service, such as "initiator" and "nqn".

    kinds: each kind that is known, with the reason why this host lacks it; "": it can.
    """

    connector: dict[str, Any] = {}
    kinds: dict[str, str] = {}


class VolumeConnector(Protocol):
    async def abilities(self) -> Abilities: ...

    async def connect(self, kind: str, data: Mapping[str, Any]) -> Connected:
        """Ensure that the volume is connected. data: of its connection. Raises: Refused: it failed, with the reason."""

    async def extend(self, kind: str, data: Mapping[str, Any]) -> int:
        """Make the kernel read the new size of a connected volume that was extended, and return it in bytes.

        Raises: Refused: it failed, with the reason, or volumes of this kind are files, of which the kernel keeps none.
        """

    async def disconnect(self, kind: str, data: Mapping[str, Any], device: Mapping[str, Any]) -> None:
        """Ensure that the volume is not connected; it is used by nothing. device: of `connect`; empty: unknown.

        A share is unmounted. Raises: Refused: it failed, with the reason, or the share is in use.
        """
