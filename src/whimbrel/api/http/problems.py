"""What is answered when something cannot be done: a table from errors of the domain to HTTP, one from HTTP to the body.

Law: nothing of our insides goes to a client; an error that is in no table is a bug, logged and answered as 500.
"""

from typing import Any

from whimbrel.domain import errors


class Problem(Exception):
    """An answer that only HTTP knows (405, 406, 413, 415 ...), raised anywhere in the API."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers or {}


# The first line that fits is taken: what is more special stands above.
STATUS_OF_ERROR: tuple[tuple[type[errors.WorldError], int], ...] = (
    (errors.Invalid, 400),
    (errors.OverQuota, 403),
    (errors.Forbidden, 403),
    (errors.Refused, 400),
    (errors.NotFound, 404),
    (errors.Conflict, 409),
    (errors.Unavailable, 503),
)

NAME_OF_STATUS: dict[int, str] = {
    400: "badRequest",
    401: "unauthorized",
    403: "forbidden",
    404: "itemNotFound",
    405: "badMethod",
    409: "conflictingRequest",
    413: "overLimit",
    415: "badMediaType",
    429: "overLimit",
    501: "notImplemented",
    503: "serviceUnavailable",
}

LONGEST_MESSAGE = 1000


def of(error: errors.WorldError) -> Problem:
    """Translate what the domain said."""
    status = next((status for kind, status in STATUS_OF_ERROR if isinstance(error, kind)), 500)
    return Problem(status, error.reason)


def unexpected(request_id: str) -> Problem:
    """Give what a client sees of a bug of ours: enough to find it in the log."""
    return Problem(500, f"Something went wrong that should not have. The log tells more under {request_id}.")


def body(problem: Problem) -> dict[str, Any]:
    """Give the body that Nova's clients expect."""
    name = NAME_OF_STATUS.get(problem.status, "computeFault")
    return {name: {"code": problem.status, "message": problem.message[:LONGEST_MESSAGE]}}
