"""Lists: filters, order and pages of the query string, and the handlers shared by all resource types."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic

import msgspec
from starlette.datastructures import QueryParams

from whimbrel.domain.errors import NotFound
from whimbrel.embedded.network import policy
from whimbrel.embedded.network.bodies import B, several
from whimbrel.embedded.network.request import Call, Handler, pruned
from whimbrel.http.paging import next_query
from whimbrel.http.problem import Problem
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.ports.embedded.network_store import Query, R

TAG_FILTERS = ("tags", "tags-any", "not-tags", "not-tags-any")
OWN = {"limit", "marker", "sort_key", "sort_dir", "page_reverse", "fields"}
MOST = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class Filter:
    """A filter parameter: its values, as `kind`, are compared with a field, or with a constant."""

    field: str = ""
    kind: type = str
    constant: Any = None


ALWAYS = {
    **{name: Filter(field=name) for name in ("id", "name", "description", "project_id")},
    "tenant_id": Filter(field="project_id"),
    "revision_number": Filter(field="revision", kind=int),
}


@dataclass(frozen=True, kw_only=True)
class Resource(Generic[R]):
    """A resource type of the API."""

    name: str
    plural: str
    kind: type[R]
    views: Callable[[Call, Sequence[R]], Awaitable[list[dict[str, Any]]]]
    filters: Mapping[str, Filter] = field(default_factory=dict)
    sorts: Mapping[str, str] = field(default_factory=dict)  # sort keys besides the filters that are fields

    async def view(self, call: Call, record: R) -> dict[str, Any]:
        [view] = await self.views(call, [record])
        return policy.shown(self.name, call.principal, view)

    async def answer(self, call: Call, records: Sequence[R], *, several: bool = False, status: int = 200) -> Reply:
        """Return records unchanged: one, or a list."""
        return self.said(call, await self.views(call, records), several=several, status=status)

    def said(self, call: Call, views: Sequence[dict[str, Any]], *, several: bool = False, status: int = 200) -> Reply:
        shown = [policy.shown(self.name, call.principal, view) for view in views]
        return Reply({self.plural: shown} if several else {self.name: shown[0]}, status)

    async def create(self, call: Call, body: type[B], new: Callable[[Call, B], Awaitable[R]]) -> Reply:
        """Add what the request describes, one record or several."""
        all_requested, many = await several(call, self.name, self.plural, body)
        made = await call.store.add([await new(call, requested) for requested in all_requested])
        return await self.answer(call, made, several=many, status=201)

    async def change(self, call: Call, edit: Callable[[R], Awaitable[R]]) -> Reply:
        _, now = await call.changed(self.kind, call.path("id"), edit)
        return await self.answer(call, [now])

    async def show(self, call: Call) -> Reply:
        record = await call.seen(self.kind, call.path("id"))
        fields = call.request.query_params.getlist("fields")
        return Reply({self.name: pruned(await self.view(call, record), fields)})

    async def delete(self, call: Call) -> Reply:
        record = await call.owned(self.kind, call.path("id"))
        await call.store.remove(self.kind, record.id)
        return NO_CONTENT

    async def search(self, call: Call) -> Reply:
        params = QueryParams([_opened(name, value) for name, value in call.request.query_params.multi_items()])
        query = await self._query(call, params)
        found = [] if query is None or query.limit == 0 else await call.store.search(self.kind, query)
        fields = params.getlist("fields")
        views = [policy.shown(self.name, call.principal, view) for view in await self.views(call, found)]
        page: dict[str, Any] = {self.plural: [pruned(view, fields) for view in views]}
        if query and query.limit and len(found) == query.limit:
            following = f"{call.request.root_url}{call.request.path}?{next_query(call.request, found[-1].id)}"
            page[f"{self.plural}_links"] = [{"rel": "next", "href": following}]
        return Reply(page)

    async def _query(self, call: Call, params: QueryParams) -> Query | None:
        """Parse the query; None: no record can match. Raises: Problem: malformed."""
        where: dict[str, list[Any]] = {}
        for name in dict.fromkeys(params.keys()):
            if name in OWN or name in TAG_FILTERS:
                continue
            wanted = self._filter(name)
            values = [_parsed(name, value, wanted.kind) for value in params.getlist(name)]
            if not wanted.field:
                if wanted.constant not in values:
                    return None
                continue
            where[wanted.field] = values
        return Query(
            viewer=call.viewer,
            where=where,
            tags={name: _words(params, name) for name in TAG_FILTERS if name in params},
            order=self._order(params),
            after=await self._marker(call, params),
            limit=_limit(params),
        )

    def _filter(self, name: str) -> Filter:
        found = self.filters.get(name) or ALWAYS.get(name)
        if found is None:
            raise Problem(400, f"['{name}'] is invalid attribute for filtering", "HTTPBadRequest")
        return found

    def _order(self, params: QueryParams) -> list[tuple[str, bool]]:
        keys, ways = params.getlist("sort_key"), params.getlist("sort_dir")
        if len(ways) != len(keys):
            raise Problem(400, "The number of sort_keys and sort_dirs must be same")
        order = {self._sorted(key): _descends(way) for key, way in zip(keys, ways, strict=True)}
        if not order:
            order["created_at"] = False
        last = {"id": order.pop("id", False)}  # it makes every order total
        return list((order | last).items())

    def _sorted(self, key: str) -> str:
        known = self.filters.get(key) or ALWAYS.get(key)
        name = self.sorts.get(key) or (known.field if known else "")
        columns = self.kind.__struct_fields__
        if name not in columns and key not in ("created_at", "updated_at"):
            raise Problem(400, f"['{key}'] is invalid attribute for sort_key")
        return name or key

    async def _marker(self, call: Call, params: QueryParams) -> R | None:
        if "marker" not in params:
            return None
        try:
            return await call.seen(self.kind, params["marker"])
        except NotFound as error:
            raise Problem(400, f"Invalid input for marker. Reason: there is no {self.name} of this id.") from error


def routes(path: str, resource: Resource[Any]) -> tuple[tuple[str, str, Handler], ...]:
    """Return the routes that every resource type has: list, show and delete."""
    return (
        ("GET", path, resource.search),
        ("GET", path + "/{id}", resource.show),
        ("DELETE", path + "/{id}", resource.delete),
    )


def _opened(name: str, value: str) -> tuple[str, str]:
    """Split one of the parameters `fixed_ips=ip_address=1.2.3.4`, of which there can be several."""
    part, sign, wanted = value.partition("=")
    return (f"fixed_ips.{part}", wanted) if name == "fixed_ips" and sign else (name, value)


def _parsed(name: str, value: str, kind: type) -> Any:
    """Parse the value of a filter. Raises: Problem."""
    if kind is not str and value == "None":
        return None
    try:
        parsed: Any = msgspec.convert(value.lower() if kind is bool else value, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Problem(
            400, f"Invalid input for {name}. Reason: '{value}' is not of the type {kind.__name__}."
        ) from error
    if kind is int and abs(parsed) > MOST:
        raise Problem(400, f"Invalid input for {name}. Reason: '{value}' is too large.")
    return parsed


def _words(params: QueryParams, name: str) -> list[str]:
    return [word for value in params.getlist(name) for word in value.split(",")]


def _limit(params: QueryParams) -> int | None:
    if "limit" not in params:
        return None
    value = params["limit"]
    if not value.isdecimal() or not value.isascii() or int(value[:20]) > MOST:
        raise Problem(400, f"Invalid input for limit. Reason: '{value}' is not a number that is not negative.")
    return int(value) or None


def _descends(way: str) -> bool:
    if way not in ("asc", "desc"):
        raise Problem(400, f"Invalid input for sort_dir. Reason: '{way}' is neither asc nor desc.")
    return way == "desc"
