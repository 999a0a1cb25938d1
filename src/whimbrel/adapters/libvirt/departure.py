"""The record of a live transfer in the directory of its source slot.

Invariant: it is written before the transfer begins. A guest is woken at its target only when the record says `left`,
and that is written only when the guest has no memory here any more; so it never runs at both.
"""

from typing import Literal
from urllib.parse import urldefrag

import msgspec

from whimbrel.domain.guest import GuestKey, Power
from whimbrel.domain.ids import ServerId, Slot
from whimbrel.domain.live_transfer import TransferOptions, TransferProgress

DepartureState = Literal["open", "left", "arrived", "failed"]


class Departure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A live transfer.

    open: libvirt copies, or was interrupted. left: the guest is at the target, where it still sleeps. arrived: it is
    awake there. failed: it is here; `trouble` says why.
    """

    target: str  # see address_of
    options: TransferOptions
    power_before: Power  # running, paused
    state: DepartureState = "open"
    asks_post_copy: bool = False  # it may be in post-copy, and is never aborted
    trouble: str = ""
    last: TransferProgress | None = None  # as it ended

    @property
    def is_open(self) -> bool:
        return self.state == "open"

    @property
    def has_left(self) -> bool:
        return self.state in ("left", "arrived")

    @property
    def uri(self) -> str:
        """Return the URI of the target's libvirt."""
        return urldefrag(self.target).url

    @property
    def key(self) -> GuestKey:
        """Return the key of the guest at the target."""
        server, _, slot = urldefrag(self.target).fragment.partition("/")
        return GuestKey(ServerId(server), Slot(slot))

    def encode(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self))


def address_of(uri: str, key: GuestKey) -> str:
    """Return the address of a guest for other hosts. uri: by which they reach its libvirt."""
    return f"{uri}#{key.server}/{key.slot}"
