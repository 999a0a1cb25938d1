"""Metadata definitions: namespaces of objects, properties, tags and resource types, which dashboards offer to choose.

Invariant: a namespace is one record, so that each change of it is whole.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from whimbrel.domain.errors import Conflict, NotFound, Refused
from whimbrel.embedded.image.request import Call, Handler, checked
from whimbrel.embedded.image.views import moment
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.ports.embedded.metadefs import Namespace

ROOT = "/v2/metadefs"
NAMESPACES = ROOT + "/namespaces"
NAMESPACE = NAMESPACES + "/{namespace}"

RESOURCE_TYPES = frozenset(
    {
        *("OS::Cinder::Volume", "OS::Glance::Image", "OS::Nova::Aggregate", "OS::Nova::Flavor", "OS::Nova::Server"),
        "OS::Trove::Instance",
    }
)
"""The resource types that every Glance has."""

Name = Annotated[str, Meta(min_length=1, max_length=80)]
Owner = Annotated[str, Meta(max_length=255)]


class Item(msgspec.Struct):
    """An object, a property, a resource type or a tag: its name, and further fields that are kept as they are."""

    name: Name


class NamespaceBody(msgspec.Struct):
    namespace: Name
    display_name: Annotated[str, Meta(max_length=80)] | None = None
    description: Annotated[str, Meta(max_length=500)] | None = None
    visibility: Literal["public", "private"] = "private"
    protected: bool = False
    owner: Owner | None = None
    objects: list[dict[str, Any]] = []
    properties: dict[str, dict[str, Any]] = {}
    resource_type_associations: list[dict[str, Any]] = []
    tags: list[dict[str, Any]] = []


# Namespaces


async def index(call: Call) -> Reply:
    query = call.request.query_params
    wanted = set(filter(None, query.get("resource_types", "").split(",")))
    found = [
        each
        for each in await call.store.namespaces()
        if _sees(call, each)
        and query.get("visibility", each.visibility) == each.visibility
        and (not wanted or wanted & set(each.resource_types))
    ]
    return Reply(
        {
            "namespaces": [_brief(each) for each in found],
            "first": NAMESPACES,
            "schema": "/v2/schemas/metadefs/namespaces",
        }
    )


async def show(call: Call) -> Reply:
    namespace = await _seen(call)
    return Reply(
        {
            **_brief(namespace),
            "objects": list(namespace.objects.values()),
            "properties": namespace.properties,
            "tags": [{"name": tag} for tag in namespace.tags],
        }
    )


async def create(call: Call) -> Reply:
    _check_admin(call)
    given, now = await call.body(NamespaceBody), call.service.clock.now()
    namespace = Namespace(
        namespace=given.namespace,
        owner=given.owner or call.principal.project_id,
        visibility=given.visibility,
        protected=given.protected,
        display_name=given.display_name,
        description=given.description,
        objects=_by_name(given.objects),
        properties=given.properties,
        resource_types=_by_name(given.resource_type_associations),
        tags=sorted(_by_name(given.tags)),
        created_at=now,
        updated_at=now,
    )
    await call.store.add_namespace(namespace)
    return Reply(_brief(namespace), 201, {"Location": f"{NAMESPACES}/{namespace.namespace}"})


async def update(call: Call) -> Reply:
    before, given = await _owned(call), await call.body(NamespaceBody)
    changed = replace(
        before,
        namespace=given.namespace,
        owner=given.owner or before.owner,
        visibility=given.visibility,
        protected=given.protected,
        display_name=given.display_name,
        description=given.description,
        updated_at=call.service.clock.now(),
    )
    return Reply(_brief(await call.store.change_namespace(before.namespace, changed)))


async def delete(call: Call) -> Reply:
    namespace = await _owned(call)
    _check_unprotected(namespace)
    await call.store.remove_namespace(namespace.namespace)
    return NO_CONTENT


# What a namespace contains: objects, properties and resource types by name


class Contents(msgspec.Struct, frozen=True):
    """One kind of what a namespace contains. field: of Namespace; word: in URLs and answers."""

    field: str
    word: str
    key: str  # of the list in an answer

    def routes(self) -> list[tuple[str, str, Handler]]:
        path = f"{NAMESPACE}/{self.word}"
        lines: list[tuple[str, str, Handler]] = [
            ("GET", path, self.index),
            ("POST", path, self.create),
            ("DELETE", path, self.clear),
            ("DELETE", path + "/{name}", self.delete),
        ]
        if self.word != "resource_types":
            lines += [("GET", path + "/{name}", self.show), ("PUT", path + "/{name}", self.update)]
        return lines

    async def index(self, call: Call) -> Reply:
        found = self._of(await _seen(call))
        return Reply({self.key: found if self.word == "properties" else list(found.values())})

    async def show(self, call: Call) -> Reply:
        return Reply(self._item(await _seen(call), call.path("name")))

    async def create(self, call: Call) -> Reply:
        namespace, sent = await _owned(call), await call.body(dict[str, Any])
        name = checked(sent, Item).name
        if name in self._of(namespace) and self.word != "resource_types":
            raise Conflict(f"A definition with the name {name} already exists in {namespace.namespace}.")
        await self._write(call, namespace, {**self._of(namespace), name: sent})
        return Reply(sent, 201)

    async def update(self, call: Call) -> Reply:
        namespace, sent = await _owned(call), await call.body(dict[str, Any])
        self._item(namespace, call.path("name"))
        others = {name: item for name, item in self._of(namespace).items() if name != call.path("name")}
        name = checked(sent, Item).name
        if name in others:
            raise Conflict(f"A definition with the name {name} already exists in {namespace.namespace}.")
        await self._write(call, namespace, {**others, name: sent})
        return Reply(sent)

    async def delete(self, call: Call) -> Reply:
        namespace, name = await _owned(call), call.path("name")
        _check_unprotected(namespace)
        self._item(namespace, name)
        await self._write(call, namespace, {key: item for key, item in self._of(namespace).items() if key != name})
        return NO_CONTENT

    async def clear(self, call: Call) -> Reply:
        namespace = await _owned(call)
        _check_unprotected(namespace)
        await self._write(call, namespace, {})
        return NO_CONTENT

    def _of(self, namespace: Namespace) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = getattr(namespace, self.field)
        return found

    def _item(self, namespace: Namespace, name: str) -> dict[str, Any]:
        if name not in self._of(namespace):
            raise NotFound(f"There is no definition {name} in the namespace {namespace.namespace}.")
        return self._of(namespace)[name]

    async def _write(self, call: Call, namespace: Namespace, items: dict[str, dict[str, Any]]) -> None:
        changed = replace(namespace, updated_at=call.service.clock.now(), **{self.field: items})
        await call.store.change_namespace(namespace.namespace, changed)


CONTENTS = (
    Contents("objects", "objects", "objects"),
    Contents("properties", "properties", "properties"),
    Contents("resource_types", "resource_types", "resource_type_associations"),
)


async def list_resource_types(call: Call) -> Reply:
    """List the usual resource types, and others that are associated with a namespace."""
    found = {name for each in await call.store.namespaces() for name in each.resource_types} | RESOURCE_TYPES
    return Reply({"resource_types": [{"name": name} for name in sorted(found)]})


# Tags


async def list_tags(call: Call) -> Reply:
    return Reply({"tags": [{"name": tag} for tag in (await _seen(call)).tags]})


async def replace_tags(call: Call) -> Reply:
    """Replace the tags, or add these if the header X-OpenStack-Append is true."""
    namespace = await _owned(call)
    sent = sorted(_by_name((await call.body(dict[str, list[dict[str, Any]]])).get("tags", [])))
    kept = namespace.tags if call.request.headers.get("x-openstack-append", "").lower() == "true" else []
    if both := set(sent) & set(kept):
        raise Conflict(f"The namespace {namespace.namespace} has the tags {', '.join(sorted(both))} already.")
    await _retag(call, namespace, lambda _: sorted([*kept, *sent]))
    return Reply({"tags": [{"name": tag} for tag in sent]}, 201)


async def clear_tags(call: Call) -> Reply:
    await _retag(call, await _owned(call), lambda _: [])
    return NO_CONTENT


async def show_tag(call: Call) -> Reply:
    return Reply({"name": _tag(await _seen(call), call.path("name"))})


async def add_tag(call: Call) -> Reply:
    namespace, tag = await _owned(call), checked({"name": call.path("name")}, Item).name
    if tag in namespace.tags:
        raise Conflict(f"The namespace {namespace.namespace} has the tag {tag} already.")
    await _retag(call, namespace, lambda tags: sorted([*tags, tag]))
    return Reply({"name": tag}, 201)


async def rename_tag(call: Call) -> Reply:
    namespace, name = await _owned(call), (await call.body(Item)).name
    before = _tag(namespace, call.path("name"))
    if name != before and name in namespace.tags:
        raise Conflict(f"The namespace {namespace.namespace} has the tag {name} already.")
    await _retag(call, namespace, lambda tags: sorted(name if each == before else each for each in tags))
    return Reply({"name": name})


async def delete_tag(call: Call) -> Reply:
    namespace = await _owned(call)
    tag = _tag(namespace, call.path("name"))
    await _retag(call, namespace, lambda tags: [each for each in tags if each != tag])
    return NO_CONTENT


async def _retag(call: Call, namespace: Namespace, change: Callable[[list[str]], list[str]]) -> None:
    changed = replace(namespace, tags=change(namespace.tags), updated_at=call.service.clock.now())
    await call.store.change_namespace(namespace.namespace, changed)


def _tag(namespace: Namespace, name: str) -> str:
    if name not in namespace.tags:
        raise NotFound(f"There is no tag {name} in the namespace {namespace.namespace}.")
    return name


ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", ROOT + "/resource_types", list_resource_types),
    ("GET", NAMESPACES, index),
    ("POST", NAMESPACES, create),
    ("GET", NAMESPACE, show),
    ("PUT", NAMESPACE, update),
    ("DELETE", NAMESPACE, delete),
    *(route for contents in CONTENTS for route in contents.routes()),
    ("GET", NAMESPACE + "/tags", list_tags),
    ("POST", NAMESPACE + "/tags", replace_tags),
    ("DELETE", NAMESPACE + "/tags", clear_tags),
    ("GET", NAMESPACE + "/tags/{name}", show_tag),
    ("POST", NAMESPACE + "/tags/{name}", add_tag),
    ("PUT", NAMESPACE + "/tags/{name}", rename_tag),
    ("DELETE", NAMESPACE + "/tags/{name}", delete_tag),
)


def _by_name(items: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {checked(item, Item).name: item for item in items}


def _brief(each: Namespace) -> dict[str, Any]:
    path = f"{NAMESPACES}/{each.namespace}"
    return {
        "namespace": each.namespace,
        "display_name": each.display_name,
        "description": each.description,
        "visibility": each.visibility,
        "protected": each.protected,
        "owner": each.owner,
        "created_at": moment(each.created_at),
        "updated_at": moment(each.updated_at),
        "resource_type_associations": list(each.resource_types.values()),
        "self": path,
        "schema": "/v2/schemas/metadefs/namespace",
    }


def _sees(call: Call, each: Namespace) -> bool:
    return call.is_admin or each.visibility == "public" or each.owner == call.principal.project_id


async def _seen(call: Call) -> Namespace:
    found = await call.store.namespace(call.path("namespace"))
    if not _sees(call, found):
        raise NotFound(f"Metadata definition namespace={found.namespace} was not found.")
    return found


async def _owned(call: Call) -> Namespace:
    """Return the namespace in the path, to be changed. Raises: NotFound; Refused: for administrators only."""
    found = await _seen(call)
    _check_admin(call)
    return found


def _check_admin(call: Call) -> None:
    if not call.is_admin:
        raise Refused("You are not authorized to complete this action.")


def _check_unprotected(namespace: Namespace) -> None:
    if namespace.protected:
        raise Refused(f"Metadata definition namespace {namespace.namespace} is protected and cannot be deleted.")
