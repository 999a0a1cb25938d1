"""Refusals as HTTP answers: one exception for all front ends, one table from the domain's errors to HTTP statuses.

Invariant: no internals reach a client. An error that is in no table is a bug: it is logged and answered as 500.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NoReturn

from whimbrel.domain import errors


class Problem(Exception):
    """A refusal, raised anywhere in a front end. code: the service's name of the error."""

    def __init__(
        self,
        status: int,
        message: str,
        code: str = "",
        *,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.headers = headers or {}
        self.extra = extra or {}


def refusing(status: int, message: str) -> Callable[[object], Awaitable[NoReturn]]:
    """Return a handler that refuses all requests."""

    async def refuse(_: object) -> NoReturn:
        raise Problem(status, message)

    return refuse


Statuses = Sequence[tuple[type[errors.WorldError], int]]
"""The first match applies: special errors precede general ones."""

STATUSES: Final[Statuses] = (
    (errors.OverQuota, 403),
    (errors.Forbidden, 403),
    (errors.Unauthenticated, 401),
    (errors.Refused, 400),
    (errors.NotFound, 404),
    (errors.Conflict, 409),
    (errors.Unavailable, 503),
)


def problem_of(error: errors.WorldError, own: Statuses = ()) -> Problem:
    """Translate an error of the domain. own: the service's own lines, which precede the shared ones."""
    status = next((status for kind, status in (*own, *STATUSES) if isinstance(error, kind)), 500)
    return Problem(status, error.reason, type(error).__name__)
