"""Groups of users: read and change, with their members."""

from whimbrel.embedded.identity.accounts import changes_of, domain_of, unique_name
from whimbrel.embedded.identity.bodies import ChangedNamed, NewNamed
from whimbrel.embedded.identity.initial_accounts import new_id
from whimbrel.embedded.identity.record_replies import in_path, listed, shown
from whimbrel.embedded.identity.request import Ask
from whimbrel.http.problem import Problem
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.ports.services.identity import Group, User


async def index(ask: Ask) -> Reply:
    return listed(ask, Group, await ask.store.records(Group, **ask.filters("name", "domain_id")))


async def of_user(ask: Ask) -> Reply:
    user = await in_path(ask, User)
    return listed(ask, Group, await ask.store.groups_of(user.id))


async def create(ask: Ask) -> Reply:
    given = await ask.inside("group", NewNamed)
    group = Group(
        id=new_id(ask.context.ids),
        domain_id=await domain_of(ask, given.domain_id),
        name=given.name.strip(),
        description=given.description or "",
    )
    with unique_name("group", group.name, group.domain_id):
        await ask.store.add(group)
    return shown(ask, group, 201)


async def update(ask: Ask) -> Reply:
    changes = changes_of(await ask.inside("group", ChangedNamed))
    group = await in_path(ask, Group)
    with unique_name("group", changes.get("name"), group.domain_id):
        group = await ask.store.change(Group, group.id, changes)
    return shown(ask, group)


# Members


async def list_members(ask: Ask) -> Reply:
    found = await ask.store.members(ask.path("group_id"))
    return listed(ask, User, found)


async def check_member(ask: Ask) -> Reply:
    user_id = ask.path("user_id")
    if all(user.id != user_id for user in await ask.store.members(ask.path("group_id"))):
        raise Problem(404, f"Could not find user {user_id} in group {ask.path('group_id')}.")
    return NO_CONTENT


async def add_member(ask: Ask) -> Reply:
    await ask.store.join(ask.path("group_id"), ask.path("user_id"))
    return NO_CONTENT


async def remove_member(ask: Ask) -> Reply:
    await ask.store.leave(ask.path("group_id"), ask.path("user_id"))
    return NO_CONTENT
