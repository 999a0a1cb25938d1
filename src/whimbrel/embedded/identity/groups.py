"""Groups of users: read and change, with their members."""

from whimbrel.embedded.identity import views
from whimbrel.embedded.identity.accounts import changes_of, domain_of, unique_name
from whimbrel.embedded.identity.bodies import ChangedNamed, NewNamed
from whimbrel.embedded.identity.initial_accounts import new_id
from whimbrel.embedded.identity.request import Ask
from whimbrel.http.problem import Problem
from whimbrel.http.reply import NO_CONTENT, Reply
from whimbrel.ports.services.identity import Group, User


async def index(ask: Ask) -> Reply:
    return _listed(ask, await ask.store.records(Group, **ask.filters("name", "domain_id")))


async def of_user(ask: Ask) -> Reply:
    user = await ask.store.record(User, ask.path("user_id"))
    return _listed(ask, await ask.store.groups_of(user.id))


async def show(ask: Ask) -> Reply:
    return Reply({"group": views.group(ask.root_url, await ask.store.record(Group, ask.path("group_id")))})


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
    return Reply({"group": views.group(ask.root_url, group)}, 201)


async def update(ask: Ask) -> Reply:
    changes = changes_of(await ask.inside("group", ChangedNamed))
    group = await ask.store.record(Group, ask.path("group_id"))
    with unique_name("group", changes.get("name"), group.domain_id):
        group = await ask.store.change(Group, group.id, changes)
    return Reply({"group": views.group(ask.root_url, group)})


async def delete(ask: Ask) -> Reply:
    await ask.store.remove(Group, ask.path("group_id"))
    return NO_CONTENT


# Members


async def list_members(ask: Ask) -> Reply:
    found = await ask.store.members(ask.path("group_id"))
    return Reply(views.listing(ask.root_url, "users", [views.user(ask.root_url, user) for user in found]))


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


def _listed(ask: Ask, found: list[Group]) -> Reply:
    return Reply(views.listing(ask.root_url, "groups", [views.group(ask.root_url, group) for group in found]))
