"""Groups of users: read and change, with their members."""

from whimbrel.embedded.identity.accounts import changes_of, domain_of, unique_name
from whimbrel.embedded.identity.bodies import ChangedNamed, NewNamed
from whimbrel.embedded.identity.initial_accounts import new_id
from whimbrel.embedded.identity.record_replies import in_path, listed, shown
from whimbrel.embedded.identity.request import Call
from whimbrel.http.problem import Problem
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.ports.services.identity import Group, User


async def index(call: Call) -> Reply:
    return listed(call, Group, await call.store.records(Group, **call.filters("name", "domain_id")))


async def of_user(call: Call) -> Reply:
    user = await in_path(call, User)
    return listed(call, Group, await call.store.groups_of(user.id))


async def create(call: Call) -> Reply:
    given = await call.inside("group", NewNamed)
    group = Group(
        id=new_id(call.context.ids),
        domain_id=await domain_of(call, given.domain_id),
        name=given.name.strip(),
        description=given.description or "",
    )
    with unique_name("group", group.name, group.domain_id):
        await call.store.add(group)
    return shown(call, group, 201)


async def update(call: Call) -> Reply:
    changes = changes_of(await call.inside("group", ChangedNamed))
    group = await in_path(call, Group)
    with unique_name("group", changes.get("name"), group.domain_id):
        group = await call.store.change(Group, group.id, changes)
    return shown(call, group)


# Members


async def list_members(call: Call) -> Reply:
    found = await call.store.members(call.path("group_id"))
    return listed(call, User, found)


async def check_member(call: Call) -> Reply:
    user_id = call.path("user_id")
    if all(user.id != user_id for user in await call.store.members(call.path("group_id"))):
        raise Problem(404, f"Could not find user {user_id} in group {call.path('group_id')}.")
    return NO_CONTENT


async def add_member(call: Call) -> Reply:
    await call.store.join(call.path("group_id"), call.path("user_id"))
    return NO_CONTENT


async def remove_member(call: Call) -> Reply:
    await call.store.leave(call.path("group_id"), call.path("user_id"))
    return NO_CONTENT
