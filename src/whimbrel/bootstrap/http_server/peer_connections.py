"""Count the open connections of each peer.

Invariant: the count of a peer is the number of its connections that were admitted and have not ended.
"""

import resource
from collections import Counter

from whimbrel.domain.ip_addresses import network_of
from whimbrel.settings.sections import HttpTable


class Peers:
    """The connections of one server."""

    def __init__(self, limits: HttpTable) -> None:
        self._limits = limits
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)  # the databases need some too
        self._most = min(limits.connections, descriptors * 3 // 4)
        self._open = Counter[str]()

    def admit(self, address: str | None) -> str | None:
        """Count a connection and return the name to release it by, or None: there are too many.

        address: None for a socket without addresses.
        """
        name = network_of(address or "")
        if self._open.total() >= self._most:
            return None
        if address not in self._limits.trusted_proxies and self._open[name] >= self._limits.connections_per_peer:
            return None
        self._open[name] += 1
        return name

    def release(self, name: str) -> None:
        self._open[name] -= 1
        if not self._open[name]:
            del self._open[name]
