"""Unified limits: what projects may use of the resources of services. The services themselves enforce them.

The model is `flat`: a project's limit is its own or the registered one, whatever its domain has.
"""

from collections.abc import Iterable
from typing import Any

from whimbrel.domain.errors import Conflict, NotFound
from whimbrel.embedded.identity import views
from whimbrel.embedded.identity.accounts import changes_of
from whimbrel.embedded.identity.bodies import (
    ChangedLimit,
    ChangedRegisteredLimit,
    NewLimit,
    NewLimitsBody,
    NewRegisteredLimitsBody,
)
from whimbrel.embedded.identity.initial_accounts import new_id
from whimbrel.embedded.identity.request import FORBIDDEN, Call, admin
from whimbrel.http.call import SERVICE_ROLE
from whimbrel.http.problem import Problem
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.ports.services.identity import (
    CatalogRegion,
    CatalogService,
    Domain,
    Project,
    ProjectLimit,
    RegisteredLimit,
)

View = dict[str, Any]
MODEL = {
    "name": "flat",
    "description": "Limit enforcement and validation does not take project hierarchy into consideration.",
}


async def show_model(call: Call) -> Reply:
    return Reply({"model": MODEL})


# Registered limits


async def list_registered(call: Call) -> Reply:
    wanted = call.filters("service_id", "region_id", "resource_name")
    found = await call.store.records(RegisteredLimit, **wanted)
    return Reply(views.listing(call.root_url, "registered_limits", [_registered_view(call, each) for each in found]))


async def show_registered(call: Call) -> Reply:
    return Reply({"registered_limit": _registered_view(call, await _registered(call))})


async def create_registered(call: Call) -> Reply:
    records = []
    for given in (await call.body(NewRegisteredLimitsBody)).registered_limits:
        await _check_place(call, given.service_id, given.region_id, "registered_limit")
        made = RegisteredLimit(
            id=new_id(call.context.ids),
            service_id=given.service_id,
            region_id=given.region_id or "",
            resource_name=given.resource_name,
            default_limit=given.default_limit,
            description=given.description,
        )
        records.append(made)
    try:
        await call.store.add(*records)
    except Conflict as error:
        raise _duplicate("registered_limit") from error
    return Reply({"registered_limits": [_registered_view(call, each) for each in records]}, 201)


async def update_registered(call: Call) -> Reply:
    changes = changes_of(await call.inside("registered_limit", ChangedRegisteredLimit))
    record = await _registered(call)
    await _check_place(call, changes.get("service_id"), changes.get("region_id"), "registered_limit")
    if await call.store.records(ProjectLimit, registered_limit_id=record.id):
        raise _has_limits(record)
    if "region_id" in changes:
        changes["region_id"] = changes["region_id"] or ""
    try:
        changed = await call.store.change(RegisteredLimit, record.id, changes)
    except Conflict as error:
        raise _duplicate("registered_limit") from error
    return Reply({"registered_limit": _registered_view(call, changed)})


async def delete_registered(call: Call) -> Reply:
    record = await _registered(call)
    try:
        await call.store.remove(RegisteredLimit, record.id)
    except Conflict as error:
        raise _has_limits(record) from error
    return NO_CONTENT


async def _registered(call: Call) -> RegisteredLimit:
    return await call.store.record(RegisteredLimit, call.path("registered_limit_id"))


def _registered_view(call: Call, record: RegisteredLimit) -> View:
    return {
        "id": record.id,
        "service_id": record.service_id,
        "region_id": record.region_id or None,
        "resource_name": record.resource_name,
        "default_limit": record.default_limit,
        "description": record.description,
        "links": {"self": f"{call.root_url}/v3/registered_limits/{record.id}"},
    }


# Limits of projects and domains


async def index(call: Call) -> Reply:
    """List limits: administrators and services see all, others those of their project."""
    wanted = call.filters("project_id", "domain_id")
    if not _sees_all(call):
        if wanted.get("project_id", call.principal.project_id) != call.principal.project_id:
            return Reply(views.listing(call.root_url, "limits", []))
        wanted["project_id"] = call.principal.project_id
    registered = await call.store.records(RegisteredLimit, **call.filters("service_id", "region_id", "resource_name"))
    found = await call.store.records(ProjectLimit, **wanted)
    return Reply(views.listing(call.root_url, "limits", _limit_views(call, found, registered)))


async def show(call: Call) -> Reply:
    record = await call.store.record(ProjectLimit, call.path("limit_id"))
    if not (_sees_all(call) or record.project_id == call.principal.project_id):
        raise Problem(403, FORBIDDEN)
    return await _shown(call, record)


async def create(call: Call) -> Reply:
    records, registered = [], {}
    for given in (await call.body(NewLimitsBody)).limits:
        reference = await _reference(call, given)
        registered[reference.id] = reference
        made = ProjectLimit(
            id=new_id(call.context.ids),
            registered_limit_id=reference.id,
            project_id=given.project_id,
            domain_id=given.domain_id,
            resource_limit=given.resource_limit,
            description=given.description,
        )
        records.append(made)
    try:
        await call.store.add(*records)
    except Conflict as error:
        raise _duplicate("limit") from error
    return Reply({"limits": _limit_views(call, records, registered.values())}, 201)


async def update(call: Call) -> Reply:
    changes = changes_of(await call.inside("limit", ChangedLimit))
    return await _shown(call, await call.store.change(ProjectLimit, call.path("limit_id"), changes))


async def delete(call: Call) -> Reply:
    await call.store.remove(ProjectLimit, call.path("limit_id"))
    return NO_CONTENT


async def _reference(call: Call, given: NewLimit) -> RegisteredLimit:
    """Return the registered limit of a new limit. Raises: Problem: there is none, or no such holder."""
    if (given.project_id is None) == (given.domain_id is None):
        raise Problem(400, "A limit is that of a project or of a domain: give one of project_id and domain_id.")
    await _check_place(call, given.service_id, given.region_id, "limit")
    try:
        if given.project_id is not None:
            await call.store.record(Project, given.project_id)
        elif given.domain_id is not None:
            await call.store.record(Domain, given.domain_id)
    except NotFound:
        raise _unknown("domain_id" if given.project_id is None else "project_id", "limit") from None
    wanted = {"service_id": given.service_id, "region_id": given.region_id or "", "resource_name": given.resource_name}
    for each in await call.store.records(RegisteredLimit, **wanted):
        return each
    raise Problem(403, "Unable to create a limit that has no corresponding registered limit.")


async def _shown(call: Call, record: ProjectLimit) -> Reply:
    registered = await call.store.record(RegisteredLimit, record.registered_limit_id)
    return Reply({"limit": _limit_views(call, [record], [registered])[0]})


def _limit_views(call: Call, found: Iterable[ProjectLimit], registered: Iterable[RegisteredLimit]) -> list[View]:
    """Return the limits that refer to one of these registered limits."""
    of = {each.id: each for each in registered}
    return [_limit_view(call, each, of[each.registered_limit_id]) for each in found if each.registered_limit_id in of]


def _limit_view(call: Call, record: ProjectLimit, registered: RegisteredLimit) -> View:
    return {
        "id": record.id,
        "project_id": record.project_id,
        "domain_id": record.domain_id,
        "service_id": registered.service_id,
        "region_id": registered.region_id or None,
        "resource_name": registered.resource_name,
        "resource_limit": record.resource_limit,
        "description": record.description,
        "links": {"self": f"{call.root_url}/v3/limits/{record.id}"},
    }


# Common to both


def _sees_all(call: Call) -> bool:
    return admin(call) or SERVICE_ROLE in call.principal.roles


async def _check_place(call: Call, service_id: str | None, region_id: str | None, word: str) -> None:
    """Raises: Problem: there is no such service or region."""
    catalog = call.context.catalog
    services = {line["id"] for line in catalog.service_views()}
    services |= {each.id for each in await call.store.records(CatalogService)}
    regions = {catalog.region} | {each.id for each in await call.store.records(CatalogRegion)}
    if service_id is not None and service_id not in services:
        raise _unknown("service_id", word)
    if region_id is not None and region_id not in regions:
        raise _unknown("region_id", word)


def _unknown(attribute: str, word: str) -> Problem:
    return Problem(400, f"Expecting to find valid {attribute} in {word}.")


def _duplicate(word: str) -> Problem:
    return Problem(409, f"Conflict occurred attempting to store {word} - Duplicate entry.")


def _has_limits(record: RegisteredLimit) -> Problem:
    reason = "because there are project limits associated with it."
    return Problem(403, f"Unable to update or delete registered limit {record.id} {reason}")
