"""What every store of the identity service does: names once, and tokens that are true at every instant."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from tests.contracts.databases import Opener
from tests.contracts.lock_waits import ON_POSTGRESQL, wait_until_blocked
from tests.embedded.opened import population
from whimbrel.adapters.sql.identity.store import SqlIdentity
from whimbrel.adapters.sql.tables.identity import tokens, users
from whimbrel.domain.errors import Conflict, NotFound, Refused
from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.ports.services.identity import (
    ApplicationCredential,
    Assignment,
    Domain,
    Group,
    GroupAssignment,
    NewToken,
    Project,
    Role,
    SystemAssignment,
    SystemGroupAssignment,
    User,
    with_implied,
)
from whimbrel.sim.world.clock import JumpingClock

MEMBER_IN_P1 = Assignment(user_id=UserId("ann"), project_id=ProjectId("p1"), role_id="r-member")
MANAGER_IN_P1 = Assignment(user_id=UserId("ann"), project_id=ProjectId("p1"), role_id="r-manager")

Story = Callable[[SqlIdentity, JumpingClock], Awaitable[None]]
Teller = Callable[[Story], None]


@pytest.fixture
def clock() -> JumpingClock:
    return JumpingClock()


@pytest.fixture
async def store(open_store: Opener, clock: JumpingClock) -> AsyncIterator[SqlIdentity]:
    """A store with users; ann has a token for p1 and one without a scope."""
    async with open_store("identity") as db:
        store = SqlIdentity(db, clock)
        assert await store.is_empty()
        await store.populate(population())
        await store.issue(token("ann", "p1", clock))
        await store.issue(token("ann", None, clock))
        yield store


def token(user: str, project: str | None, clock: JumpingClock, lifetime_s: float = 100) -> NewToken:
    return NewToken(
        text=f"{user} in {project}",
        user_id=user,
        project_id=project,
        methods=["password"],
        audit_ids=["a", "b"],
        expires_at=clock.now() + lifetime_s,
    )


async def holders(store: SqlIdentity) -> tuple[bool, bool]:
    """Return which of ann's tokens are good: scoped, unscoped."""
    return (await store.principal("ann in p1") is not None, await store.principal("ann in None") is not None)


async def test_it_is_populated_once(store: SqlIdentity, clock: JumpingClock) -> None:
    assert not await store.is_empty()
    with pytest.raises(Conflict):
        await store.populate(population())


async def test_a_token_says_who_holds_it(store: SqlIdentity, clock: JumpingClock) -> None:
    principal = await store.principal("ann in p1")
    assert principal is not None
    assert (principal.user_id, principal.user_name, principal.project_id) == ("ann", "ann", "p1")
    assert (principal.project_name, principal.user_domain_id) == ("name of p1", "default")
    assert (set(principal.roles), principal.expires_at) == ({"member", "reader"}, clock.now() + 100)
    grant = await store.grant("ann in p1")
    assert (grant.principal, grant.methods, grant.audit_ids) == (principal, ["password"], ["a", "b"])
    unscoped = await store.principal("ann in None")
    assert unscoped is not None
    assert (unscoped.project_id, unscoped.roles) == ("", frozenset())


@pytest.mark.parametrize("text", ["", "made up", "ann in p1 ", "\udce4\udcff", "ä"])
async def test_a_made_up_token_is_nobodys(store: SqlIdentity, clock: JumpingClock, text: str) -> None:
    assert await store.principal(text) is None
    with pytest.raises(NotFound):
        await store.grant(text)
    with pytest.raises(NotFound):
        await store.revoke(text)


async def test_tokens_end_by_time_and_by_revocation(store: SqlIdentity, clock: JumpingClock) -> None:
    await store.revoke("ann in None")
    assert await holders(store) == (True, False)
    clock.advance(100)
    assert await holders(store) == (False, False)
    with pytest.raises(NotFound):
        await store.revoke("ann in p1")


async def test_expired_tokens_are_swept_out(store: SqlIdentity, clock: JumpingClock) -> None:
    clock.advance(100)
    await store.issue(token("bob", "p2", clock))
    clock.advance(-100)  # would be good again, were it still there
    assert await holders(store) == (False, False)


async def test_no_token_for_who_has_no_role(store: SqlIdentity, clock: JumpingClock) -> None:
    for wanted, error in (
        (token("ann", "p2", clock), Refused),
        (token("ann", "nothing", clock), NotFound),
        (token("nobody", None, clock), NotFound),
    ):
        with pytest.raises(error):
            await store.issue(wanted)
        assert await store.principal(wanted.text) is None


async def test_a_token_follows_the_roles(store: SqlIdentity, clock: JumpingClock) -> None:
    await store.assign(MANAGER_IN_P1)
    await store.assign(MANAGER_IN_P1)
    principal = await store.principal("ann in p1")
    assert principal is not None
    assert principal.roles == {"manager", "member", "reader"}
    await store.unassign(MANAGER_IN_P1)
    principal = await store.principal("ann in p1")
    assert principal is not None
    assert principal.roles == {"member", "reader"}
    await store.unassign(MEMBER_IN_P1)
    assert await holders(store) == (False, True)
    with pytest.raises(NotFound):
        await store.unassign(MEMBER_IN_P1)


async def test_nobody_gets_a_token_while_the_role_is_taken_from_him(store: SqlIdentity, clock: JumpingClock) -> None:
    for round_ in range(20):
        wanted = replace(token("ann", "p1", clock), text=f"round {round_}")
        await asyncio.gather(store.issue(wanted), store.unassign(MEMBER_IN_P1), return_exceptions=True)
        assert await store.principal(wanted.text) is None
        await store.assign(MEMBER_IN_P1)


async def test_a_new_password_or_a_locked_account_ends_tokens(store: SqlIdentity, clock: JumpingClock) -> None:
    await store.change(User, "ann", {"password_hash": "x"})
    assert await holders(store) == (False, False)
    await store.issue(token("ann", "p1", clock))
    assert not (await store.change(User, "ann", {"enabled": False})).enabled
    assert await holders(store) == (False, False)
    with pytest.raises(Refused):
        await store.issue(token("ann", "p1", clock))


async def test_a_locked_project_ends_its_tokens(store: SqlIdentity, clock: JumpingClock) -> None:
    await store.change(Project, "p1", {"enabled": False})
    assert await holders(store) == (False, True)
    with pytest.raises(Refused):
        await store.issue(token("ann", "p1", clock))


async def test_tokens_follow_new_names(store: SqlIdentity, clock: JumpingClock) -> None:
    await store.change(User, "ann", {"name": "anna"})
    await store.change(Project, "p1", {"name": "first"})
    principal = await store.principal("ann in p1")
    assert principal is not None
    assert (principal.user_name, principal.project_name) == ("anna", "first")


async def test_what_is_removed_takes_its_tokens_along(store: SqlIdentity, clock: JumpingClock) -> None:
    await store.remove(Project, "p1")
    assert await holders(store) == (False, True)
    assert await store.projects_of("ann") == []
    await store.remove(User, "ann")
    assert await holders(store) == (False, False)
    assert await store.assignments(Assignment, user_id="ann") == []
    for remove in (store.remove(Project, "p1"), store.remove(User, "ann"), store.remove(Role, "nothing")):
        with pytest.raises(NotFound):
            await remove


async def test_names_are_taken_once_in_a_domain(store: SqlIdentity, clock: JumpingClock) -> None:
    with pytest.raises(Conflict):
        await store.add(User(id=UserId("new"), domain_id="default", name="ann"))
    with pytest.raises(Conflict):
        await store.add(Project(id=ProjectId("new"), domain_id="default", name="name of p1"))
    with pytest.raises(Conflict):
        await store.change(User, "ann", {"name": "bob"})
    assert (await store.record(User, "ann")).name == "ann"


async def test_a_removed_role_is_taken_from_its_holders(store: SqlIdentity, clock: JumpingClock) -> None:
    await store.assign(MANAGER_IN_P1)
    await store.remove(Role, "r-manager")
    assert await roles_of(store, "ann in p1") == {"member", "reader"}
    with pytest.raises(NotFound):
        await store.assign(MANAGER_IN_P1)
    await store.remove(Role, "r-member")
    assert await store.principal("ann in p1") is None  # no role is left
    assert await store.assignments(Assignment, role_id="r-member") == []


async def test_a_renamed_role_has_its_new_name_in_tokens(store: SqlIdentity, clock: JumpingClock) -> None:
    await store.assign(MANAGER_IN_P1)
    await store.add(TEAM)
    await store.join(TEAM.id, "ann")
    await store.assign(replace(TEAM_IN_P2, role_id="r-manager"))
    await store.issue(token("ann", "p2", clock))
    assert (await store.change(Role, "r-manager", {"name": "chief"})).name == "chief"
    for text in ("ann in p1", "ann in p2"):
        assert "chief" in await roles_of(store, text)
        assert "manager" not in await roles_of(store, text)
    with pytest.raises(Conflict):
        await store.change(Role, "r-manager", {"name": "member"})
    with pytest.raises(NotFound):
        await store.change(Role, "nothing", {"name": "new"})


@pytest.mark.parametrize("ends", [False, True], ids=["renamed", "removed"])
async def test_a_role_changes_while_it_is_assigned(store: SqlIdentity, clock: JumpingClock, ends: bool) -> None:
    for number in range(12):
        role = Role(id=f"r-{number}", name=f"before-{number}")
        await store.add(role)
        assignment = replace(MANAGER_IN_P1, role_id=role.id)
        change = store.remove(Role, role.id) if ends else store.change(Role, role.id, {"name": f"after-{number}"})
        _, assigned = await asyncio.gather(change, store.assign(assignment), return_exceptions=True)
        assert assigned is None or (ends and isinstance(assigned, NotFound))
        has = await roles_of(store, "ann in p1")
        assert role.name not in has
        assert ends or f"after-{number}" in has


@ON_POSTGRESQL
@pytest.mark.parametrize("ends", [False, True], ids=["renamed", "removed"])
async def test_a_role_changes_while_a_group_gets_it_and_then_its_first_member(
    open_store: Opener, store: SqlIdentity, clock: JumpingClock, ends: bool
) -> None:
    await store.add(TEAM)
    await store.assign(MANAGER_IN_P1)
    await store.issue(token("bob", "p2", clock))
    role_id = MANAGER_IN_P1.role_id
    async with open_store("identity") as one, open_store("identity") as two:
        async with one.write() as late:  # blocks the change before its end, at the tokens of the role's only holder
            await late.rows(sa.select(tokens).where(tokens.c.user_id == "ann").with_for_update())
            async with two.write() as early:  # blocks it once it has read which groups and users have the role
                await early.rows(sa.select(users).where(users.c.id == "ann").with_for_update())
                change = asyncio.create_task(change_of(store, role_id, ends))
                await wait_until_blocked(early, change)
                await store.assign(replace(TEAM_IN_P2, role_id=role_id))
            await wait_until_blocked(late, change)
            join = asyncio.create_task(store.join(TEAM.id, "bob"))
            await wait_until_blocked(late, change, join)
        await asyncio.gather(change, join)
    assert await roles_of(store, "bob in p2") == {"member", "reader"} | (set() if ends else {"chief"})


async def change_of(store: SqlIdentity, role_id: str, ends: bool) -> None:
    if ends:
        await store.remove(Role, role_id)
    else:
        await store.change(Role, role_id, {"name": "chief"})


def test_admins_are_everything_below() -> None:
    assert with_implied(["Admin"]) == {"admin", "manager", "member", "reader"}
    assert with_implied(["service", "reader"]) == {"service", "reader"}
    assert with_implied([]) == frozenset()


PROGRAM = ApplicationCredential(
    id="c1", user_id=UserId("ann"), project_id=ProjectId("p1"), name="program", secret_hash="x", roles=["reader"]
)
TEAM = Group(id="g1", domain_id="default", name="team")
TEAM_IN_P2 = GroupAssignment(group_id="g1", project_id=ProjectId("p2"), role_id="r-member")


async def issue_to_program(store: SqlIdentity, clock: JumpingClock) -> frozenset[str]:
    await store.add(PROGRAM)
    wanted = replace(token("ann", "p1", clock), text="token of a program", application_credential_id=PROGRAM.id)
    return (await store.issue(wanted)).principal.roles


async def roles_of(store: SqlIdentity, text: str) -> frozenset[str] | None:
    principal = await store.principal(text)
    return principal and principal.roles


async def test_a_program_has_the_roles_of_its_credential(store: SqlIdentity, clock: JumpingClock) -> None:
    assert await issue_to_program(store, clock) == {"reader"}
    await store.assign(MANAGER_IN_P1)
    assert await roles_of(store, "token of a program") == {"reader"}
    assert await roles_of(store, "ann in p1") == {"manager", "member", "reader"}
    assert (await store.grant("token of a program")).application_credential_id == PROGRAM.id


async def test_roles_of_a_credential_imply_others(store: SqlIdentity, clock: JumpingClock) -> None:
    await store.add(replace(PROGRAM, id="c2", name="writer", roles=["member"]))
    wanted = replace(token("ann", "p1", clock), text="token of a writer", application_credential_id="c2")
    assert (await store.issue(wanted)).principal.roles == {"member", "reader"}


async def test_a_credential_ends_with_its_tokens(store: SqlIdentity, clock: JumpingClock) -> None:
    await issue_to_program(store, clock)
    await store.remove(ApplicationCredential, PROGRAM.id)
    assert await store.principal("token of a program") is None
    assert await store.principal("ann in p1") is not None


async def test_no_program_gets_a_token_while_its_credential_is_removed(store: SqlIdentity, clock: JumpingClock) -> None:
    for round_ in range(20):
        await store.add(PROGRAM)
        wanted = replace(token("ann", "p1", clock), text=f"round {round_}", application_credential_id=PROGRAM.id)
        work = (store.issue(wanted), store.remove(ApplicationCredential, PROGRAM.id))
        await asyncio.gather(*work, return_exceptions=True)
        assert await store.principal(wanted.text) is None


async def test_nobody_gets_a_token_while_his_domain_is_disabled(store: SqlIdentity, clock: JumpingClock) -> None:
    for round_ in range(20):
        wanted = replace(token("ann", None, clock), text=f"round {round_}")
        work = (store.issue(wanted), store.change(Domain, "default", {"enabled": False}))
        await asyncio.gather(*work, return_exceptions=True)
        assert await store.principal(wanted.text) is None
        await store.change(Domain, "default", {"enabled": True})


async def test_a_lost_role_ends_application_credentials(store: SqlIdentity, clock: JumpingClock) -> None:
    await store.assign(MANAGER_IN_P1)
    await issue_to_program(store, clock)
    await store.unassign(MANAGER_IN_P1)
    assert await store.records(ApplicationCredential) == []
    assert await store.principal("token of a program") is None
    assert await roles_of(store, "ann in p1") == {"member", "reader"}


async def test_members_have_the_roles_of_their_group(store: SqlIdentity, clock: JumpingClock) -> None:
    await store.add(TEAM)
    await store.join(TEAM.id, "ann")
    with pytest.raises(Refused):
        await store.issue(token("ann", "p2", clock))
    await store.assign(TEAM_IN_P2)
    assert (await store.issue(token("ann", "p2", clock))).principal.roles == {"member", "reader"}
    assert [project.id for project in await store.projects_of("ann")] == ["p1", "p2"]
    await store.assign(replace(TEAM_IN_P2, role_id="r-manager"))
    assert await roles_of(store, "ann in p2") == {"manager", "member", "reader"}
    await store.remove(Role, "r-manager")
    assert await roles_of(store, "ann in p2") == {"member", "reader"}


@pytest.mark.parametrize("end", ["leave", "unassign", "remove"])
async def test_the_end_of_a_group_takes_its_roles(store: SqlIdentity, clock: JumpingClock, end: str) -> None:
    await store.add(TEAM)
    await store.assign(TEAM_IN_P2)
    for user in ("ann", "eve"):
        await store.join(TEAM.id, user)
        await store.issue(token(user, "p2", clock))
    match end:
        case "leave":
            await store.leave(TEAM.id, "ann")
        case "unassign":
            await store.unassign(TEAM_IN_P2)
        case _:
            await store.remove(Group, TEAM.id)
    assert await store.principal("ann in p2") is None
    assert (await store.principal("eve in p2") is not None) is (end == "leave")
    assert await store.principal("ann in p1") is not None


def system_token(user: str, clock: JumpingClock) -> NewToken:
    return replace(token(user, None, clock), text=f"{user} in the system", system_scope="all")


READER = SystemAssignment(user_id=UserId("ann"), role_id="r-reader")
TEAM_MEMBER = SystemGroupAssignment(group_id=TEAM.id, role_id="r-member")


async def test_a_token_for_the_system_follows_the_roles_there(store: SqlIdentity, clock: JumpingClock) -> None:
    with pytest.raises(Refused):
        await store.issue(system_token("ann", clock))
    for _ in range(2):
        await store.assign(READER)
    issued = (await store.issue(system_token("ann", clock))).principal
    assert (issued.roles, issued.project_id, issued.system_scope) == ({"reader"}, "", "all")
    assert await store.principal("ann in the system") == issued
    assert (await store.grant("ann in the system")).principal == issued
    await store.add(TEAM)
    await store.assign(TEAM_MEMBER)
    await store.join(TEAM.id, "ann")
    assert await roles_of(store, "ann in the system") == {"member", "reader"}
    await store.unassign(READER)
    with pytest.raises(NotFound):
        await store.unassign(READER)
    await store.change(Role, "r-member", {"name": "follower"})
    assert await roles_of(store, "ann in the system") == {"follower"}
    await store.remove(Role, "r-member")
    assert await store.principal("ann in the system") is None
    with pytest.raises(NotFound):
        await store.grant("ann in the system")
    assert await store.assignments(SystemGroupAssignment) == []


@pytest.mark.parametrize("end", ["leave", "unassign", "remove", "disable"])
async def test_a_token_for_the_system_ends(store: SqlIdentity, clock: JumpingClock, end: str) -> None:
    await store.add(TEAM)
    await store.assign(TEAM_MEMBER)
    await store.join(TEAM.id, "ann")
    await store.issue(system_token("ann", clock))
    match end:
        case "leave":
            await store.leave(TEAM.id, "ann")
        case "unassign":
            await store.unassign(TEAM_MEMBER)
        case "remove":
            await store.remove(Group, TEAM.id)
        case _:
            await store.change(User, "ann", {"enabled": False})
    assert await store.principal("ann in the system") is None


async def test_nobody_of_a_disabled_domain_has_a_token(store: SqlIdentity, clock: JumpingClock) -> None:
    await store.change(Domain, "default", {"enabled": False})
    assert await holders(store) == (False, False)
    with pytest.raises(Refused):
        await store.issue(token("ann", None, clock))


async def test_a_domain_is_removed_with_what_is_in_it(store: SqlIdentity, clock: JumpingClock) -> None:
    await store.add(Domain(id="d2", name="two"))
    await store.add(Project(id=ProjectId("p9"), domain_id="d2", name="nine"))
    await store.add(User(id=UserId("una"), domain_id="d2", name="una"))
    await store.assign(Assignment(user_id=UserId("una"), project_id=ProjectId("p1"), role_id="r-member"))
    await store.issue(token("una", "p1", clock))
    await store.add(replace(TEAM, domain_id="d2"))
    await store.assign(TEAM_IN_P2)
    await store.join(TEAM.id, "ann")
    await store.issue(token("ann", "p2", clock))
    await store.remove(Domain, "d2")
    for text in ("una in p1", "ann in p2"):
        assert await store.principal(text) is None
    assert await holders(store) == (True, True)
    assert [project.id for project in await store.records(Project)] == ["p0", "p1", "p2"]
    assert await store.records(Group) == []


async def test_tags_added_at_once_are_all_kept(store: SqlIdentity, clock: JumpingClock) -> None:
    def adding(tag: str) -> Callable[[list[str]], list[str]]:
        return lambda tags: sorted([*tags, tag])

    await asyncio.gather(*(store.tag_project("p1", adding(tag)) for tag in "abcd"))
    assert (await store.record(Project, "p1")).tags == ["a", "b", "c", "d"]
    with pytest.raises(NotFound):
        await store.tag_project("nothing", adding("a"))
