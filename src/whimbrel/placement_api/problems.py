"""The error format of Placement's clients: one table from errors to codes, one body."""

from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from http import HTTPStatus
from typing import Any

from whimbrel.domain import errors
from whimbrel.http.problem import Problem, problem_of
from whimbrel.http.reply import Reply
from whimbrel.http.request import Request
from whimbrel.placement import errors as placement
from whimbrel.placement_api import content_types

UNDEFINED = "placement.undefined_code"
CONCURRENT_UPDATE = "placement.concurrent_update"
DUPLICATE_KEY = "placement.query.duplicate_key"
PROVIDER_NOT_FOUND = "placement.resource_provider.not_found"
BAD_VALUE = "placement.query.bad_value"
MISSING_VALUE = "placement.query.missing_value"

CODES_SINCE = 23

# The first match applies: special errors precede general ones.
CODES: tuple[tuple[type[errors.WorldError], str], ...] = (
    (placement.Duplicate, "placement.duplicate_name"),
    (placement.InventoryInUse, "placement.inventory.inuse"),
    (placement.ProviderInUse, "placement.resource_provider.inuse"),
    (placement.HasChildren, "placement.resource_provider.cannot_delete_parent"),
    (placement.NameInUse, UNDEFINED),
    (errors.Conflict, CONCURRENT_UPDATE),
)


def translate(error: errors.WorldError) -> Problem:
    code = next((code for kind, code in CODES if isinstance(error, kind)), UNDEFINED)
    opening = "Unable to allocate inventory: " if isinstance(error, placement.NoRoom) else ""  # clients look for it
    return Problem(problem_of(error, ((placement.NoRoom, 409),)).status, opening + error.reason, code)


@contextmanager
def introducing(opening: str, *kinds: type[errors.WorldError]) -> Iterator[None]:
    """Prefix the reasons of these errors with an opening that clients look for."""
    try:
        yield
    except kinds as error:
        problem = translate(error)
        raise Problem(problem.status, opening + problem.message, problem.code) from None


@contextmanager
def said_as_placement_does() -> Iterator[None]:
    """Replace the reason of a stale generation by the sentence that clients look for."""
    try:
        yield
    except placement.Stale:
        reason = "Resource provider's generation already changed. Please update the generation and try again."
        raise Problem(409, reason, CONCURRENT_UPDATE) from None


def refusal(request: Request, problem: Problem) -> Reply:
    """Return an error as JSON, or as text for a client that does not accept JSON."""
    title = HTTPStatus(problem.status).phrase
    kind = content_types.of_error(request.headers.get("accept"))
    if kind != content_types.JSON:
        text = _text(f"{problem.status} {title}", problem.message, kind)
        return Reply(text.encode(), problem.status, {**problem.headers, "content-type": f"{kind}; charset=utf-8"})
    error: dict[str, Any] = {
        "status": problem.status,
        "title": title,
        "detail": problem.message,
        "request_id": request.id,
        **problem.extra,
    }
    if request.minor is not None and request.minor >= CODES_SINCE:
        error["code"] = problem.code or UNDEFINED
    return Reply({"errors": [error]}, problem.status, problem.headers)


def _text(title: str, detail: str, kind: str) -> str:
    if kind == content_types.HTML:
        title, detail = escape(title), escape(detail)
        return f"<html><head><title>{title}</title></head><body><h1>{title}</h1><p>{detail}</p></body></html>\n"
    return f"{title}\n\n{detail}\n"
