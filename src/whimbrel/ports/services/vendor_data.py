"""What services of the operator say about a guest: Nova's dynamic vendor data."""

from typing import Any, Protocol

from whimbrel.domain.server import Server


class VendorData(Protocol):
    async def of_server(self, server: Server) -> dict[str, Any]:
        """Return the answers by the services' names, any JSON values. One without an answer gives {}.

        Raises: Unavailable: a service gave no answer, and the rules say that its guests need one.
        """


class NoVendorData:
    """Implements VendorData for a cloud without such services."""

    async def of_server(self, server: Server) -> dict[str, Any]:
        return {}
