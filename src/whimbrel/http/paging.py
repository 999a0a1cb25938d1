"""Links from one page of a list to the next."""

from collections.abc import Collection

from starlette.datastructures import QueryParams

from whimbrel.http.request import Request


def next_query(request: Request, last_id: str, without: Collection[str] = ("marker",)) -> str:
    """Return the query string of the next page: the same without its own position, then the marker."""
    rest = [(name, value) for name, value in request.query_params.multi_items() if name not in without]
    return str(QueryParams([*rest, ("marker", last_id)]))
