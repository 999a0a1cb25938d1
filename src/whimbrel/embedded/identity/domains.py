"""Domains: read and change. Tokens and roles are for projects only."""

from whimbrel.domain.errors import Refused
from whimbrel.embedded.identity.accounts import changes_of, unique_name
from whimbrel.embedded.identity.bodies import ChangedProject, NewDomain
from whimbrel.embedded.identity.initial_accounts import DEFAULT_DOMAIN, new_id
from whimbrel.embedded.identity.record_replies import in_path, listed, shown
from whimbrel.embedded.identity.request import Ask
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.ports.services.identity import Domain


async def index(ask: Ask) -> Reply:
    found = await ask.store.records(Domain, **ask.filters("name", "enabled"))
    return listed(ask, Domain, found)


async def create(ask: Ask) -> Reply:
    given = await ask.inside("domain", NewDomain)
    domain = Domain(
        id=given.explicit_domain_id or new_id(ask.context.ids),
        name=given.name.strip(),
        description=given.description or "",
        enabled=given.enabled is not False,
    )
    with unique_name("domain", domain.name, None):
        await ask.store.add(domain)
    return shown(ask, domain, 201)


async def update(ask: Ask) -> Reply:
    domain_id, changes = ask.path("domain_id"), changes_of(await ask.inside("domain", ChangedProject))
    if domain_id == DEFAULT_DOMAIN.id and changes.get("enabled") is False:
        raise Refused("The default domain cannot be disabled: the cloud's own accounts are in it.")
    with unique_name("domain", changes.get("name"), None):
        domain = await ask.store.change(Domain, domain_id, changes)
    return shown(ask, domain)


async def delete(ask: Ask) -> Reply:
    """Delete a disabled domain with its users, groups and projects."""
    domain = await in_path(ask, Domain)
    if domain.enabled:
        raise Refused(f"Cannot delete a domain that is enabled, please disable it first: {domain.id}.")
    await ask.store.remove(Domain, domain.id)
    return NO_CONTENT
