"""Grants: what a request's user permits a run to do in the user's name, kept with the run until it has been done."""

from typing import Protocol


class UserGrants(Protocol):
    def seal(self, token: str) -> str:
        """Return a grant with the rights of this token; "": none is needed, the cloud may act for its users itself.

        Only processes of this cloud can use it. Raises: Unavailable: it cannot be made now.
        """


class NoGrantsNeeded:
    """Implements UserGrants for a cloud with embedded services, which trust its processes."""

    def seal(self, token: str) -> str:
        return ""
