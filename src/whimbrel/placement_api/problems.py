"""What is answered when something cannot be done: one table from errors to status and code, one shape of body.

Law: nothing of our insides goes to a client; an error that is in no table is a bug, logged and answered as 500.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from whimbrel.domain import errors
from whimbrel.placement import errors as placement

UNDEFINED = "placement.undefined_code"
CONCURRENT_UPDATE = "placement.concurrent_update"
DUPLICATE_KEY = "placement.query.duplicate_key"
BAD_VALUE = "placement.query.bad_value"
MISSING_VALUE = "placement.query.missing_value"

CODES_SINCE = 23


class Problem(Exception):
    """An answer other than success, raised anywhere in this API."""

    def __init__(
        self,
        status: int,
        detail: str,
        code: str = UNDEFINED,
        *,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.code = code
        self.headers = headers or {}
        self.extra = extra or {}


# The first line that fits is taken: what is more special stands above.
ANSWERS: tuple[tuple[type[errors.WorldError], int, str], ...] = (
    (placement.ProviderNotFound, 404, "placement.resource_provider.not_found"),
    (placement.Stale, 409, CONCURRENT_UPDATE),
    (placement.Duplicate, 409, "placement.duplicate_name"),
    (placement.InventoryInUse, 409, "placement.inventory.inuse"),
    (placement.ProviderInUse, 409, "placement.resource_provider.inuse"),
    (placement.HasChildren, 409, "placement.resource_provider.cannot_delete_parent"),
    (placement.NameInUse, 409, UNDEFINED),
    (placement.NoRoom, 409, UNDEFINED),
    (errors.Forbidden, 403, UNDEFINED),
    (errors.Refused, 400, UNDEFINED),
    (errors.NotFound, 404, UNDEFINED),
    (errors.Conflict, 409, CONCURRENT_UPDATE),
    (errors.Unavailable, 503, UNDEFINED),
)


def of(error: errors.WorldError) -> Problem:
    """Translate what the store said."""
    status, code = next(((status, code) for kind, status, code in ANSWERS if isinstance(error, kind)), (500, UNDEFINED))
    opening = "Unable to allocate inventory: " if isinstance(error, placement.NoRoom) else ""  # its clients look for it
    return Problem(status, opening + error.reason, code)


def unexpected(request_id: str) -> Problem:
    """Give what a client sees of a bug of ours: enough to find it in the log."""
    return Problem(500, f"Something went wrong that should not have. The log tells more under {request_id}.")


def body(problem: Problem, request_id: str, minor: int | None) -> dict[str, Any]:
    """Give the body that Placement's clients expect. minor None: the version was not understood."""
    error: dict[str, Any] = {
        "status": problem.status,
        "title": HTTPStatus(problem.status).phrase,
        "detail": problem.detail,
        "request_id": request_id,
        **problem.extra,
    }
    if minor is not None and minor >= CODES_SINCE:
        error["code"] = problem.code
    return {"errors": [error]}
