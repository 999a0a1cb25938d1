"""Domains: read and change. Tokens and roles are for projects only."""

from whimbrel.domain.errors import Refused
from whimbrel.embedded.identity.accounts import changes_of, unique_name
from whimbrel.embedded.identity.bodies import ChangedProject, NewDomain
from whimbrel.embedded.identity.initial_accounts import DEFAULT_DOMAIN, new_id
from whimbrel.embedded.identity.record_replies import in_path, listed, shown
from whimbrel.embedded.identity.request import Call
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.ports.services.identity import Domain


async def index(call: Call) -> Reply:
    found = await call.store.records(Domain, **call.filters("name", "enabled"))
    return listed(call, Domain, found)


async def create(call: Call) -> Reply:
    given = await call.inside("domain", NewDomain)
    domain = Domain(
        id=given.explicit_domain_id or new_id(call.context.ids),
        name=given.name.strip(),
        description=given.description or "",
        enabled=given.enabled is not False,
    )
    with unique_name("domain", domain.name, None):
        await call.store.add(domain)
    return shown(call, domain, 201)


async def update(call: Call) -> Reply:
    domain_id, changes = call.path("domain_id"), changes_of(await call.inside("domain", ChangedProject))
    if domain_id == DEFAULT_DOMAIN.id and changes.get("enabled") is False:
        raise Refused("The default domain cannot be disabled: the cloud's own accounts are in it.")
    with unique_name("domain", changes.get("name"), None):
        domain = await call.store.change(Domain, domain_id, changes)
    return shown(call, domain)


async def delete(call: Call) -> Reply:
    """Delete a disabled domain with its users, groups and projects."""
    domain = await in_path(call, Domain)
    if domain.enabled:
        raise Refused(f"Cannot delete a domain that is enabled, please disable it first: {domain.id}.")
    await call.store.remove(Domain, domain.id)
    return NO_CONTENT
