"""What is answered when something cannot be done: one table from errors to status and code, one shape of body.

Law: nothing of our insides goes to a client; an error that is in no table is a bug, logged and answered as 500.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import escape
from http import HTTPStatus
from typing import Any

from whimbrel.domain import errors
from whimbrel.placement import errors as placement

UNDEFINED = "placement.undefined_code"
CONCURRENT_UPDATE = "placement.concurrent_update"
DUPLICATE_KEY = "placement.query.duplicate_key"
PROVIDER_NOT_FOUND = "placement.resource_provider.not_found"
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
    (placement.ProviderNotFound, 404, UNDEFINED),
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


@contextmanager
def introducing(opening: str, *kinds: type[errors.WorldError]) -> Iterator[None]:
    """Put an opening before what these errors say, with which clients look for it."""
    try:
        yield
    except kinds as error:
        problem = of(error)
        raise Problem(problem.status, opening + problem.detail, problem.code) from None


@contextmanager
def said_as_placement_does() -> Iterator[None]:
    """Say of a generation of the past, of marks of a provider, what clients look for."""
    try:
        yield
    except placement.Stale:
        reason = "Resource provider's generation already changed. Please update the generation and try again."
        raise Problem(409, reason, CONCURRENT_UPDATE) from None


def unexpected(request_id: str) -> Problem:
    """Give what a client sees of a bug of ours: enough to find it in the log."""
    return Problem(500, f"Something went wrong that should not have. The log tells more under {request_id}.")


def text(body: Any, kind: str) -> str:
    """Say it to a client that takes no JSON. body: what others get. kind: text/html, or text/plain."""
    [error] = body["errors"]
    title, detail = f"{error['status']} {error['title']}", str(error["detail"])
    if kind == "text/html":
        title, detail = escape(title), escape(detail)
        return f"<html><head><title>{title}</title></head><body><h1>{title}</h1><p>{detail}</p></body></html>\n"
    return f"{title}\n\n{detail}\n"


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
