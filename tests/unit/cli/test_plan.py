"""How plans look on a terminal, besides their hosts."""

from whimbrel.api.views.plans import Plan, PlannedServer
from whimbrel.cli import plan


def of_group(*servers: PlannedServer) -> Plan:
    return Plan(found=True, summary="", action="migrate", servers=list(servers))


def member(name: str, source: str | None, reason: str | None = None) -> PlannedServer:
    return PlannedServer(name=name, source=source, reason=reason)


def test_a_group_is_said_to_be_where_its_servers_are() -> None:
    requested = of_group(member("a", "h2"), member("b", "h1"), member("c", None), member("d", "h1"))
    assert plan.head(requested, "db").plain == "migrate of db on h1 and h2; nothing is moved"


def test_a_server_whose_host_is_not_told() -> None:
    requested = Plan(found=True, summary="", action="resize", flavor="large", source=None)
    assert plan.head(requested, "web").plain == "resize of web to large; nothing is moved"


def test_who_would_not_move_is_named_with_the_reason() -> None:
    requested = of_group(member("a", "h1"), member("b", "h1", "it is locked"))
    assert plan.not_moving(requested) == ["b would not move: it is locked"]
    assert plan.not_moving(Plan(found=True, summary="", action="resize", source="h1")) == []


def test_a_live_move_is_said_to_be_one() -> None:
    requested = Plan(found=True, summary="", action="migrate", live=True, source="h1")
    assert plan.head(requested, "web").plain == "live migrate of web on h1; nothing is moved"
