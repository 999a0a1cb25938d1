"""Server groups whose policy their servers do not follow."""

import pytest

from tests.doctor.nova_copy import YOUNG, NovaCopy, server
from whimbrel.adapters.sql.nova_databases import nova_tables as nova

GROUP = "00000007-0000-4000-8000-000000000007"


def group(copy: NovaCopy, policy: str, *numbers: int, rules: str | None = None) -> None:
    copy.add("api", nova.instance_groups, id=7, uuid=GROUP, name="g")
    copy.add("api", nova.instance_group_policy, group_id=7, policy=policy, rules=rules)
    for number in numbers:
        copy.add("api", nova.instance_group_member, group_id=7, instance_uuid=server(number))


@pytest.mark.parametrize(
    ("policy", "rules", "moved"),
    [
        ("anti-affinity", None, 4),
        ("anti-affinity", '{"max_server_per_host": "2"}', None),
        ("affinity", None, 3),
        ("soft-affinity", None, None),
        ("soft-anti-affinity", None, None),
    ],
)
def test_which_servers_have_to_move(copy: NovaCopy, policy: str, rules: str | None, moved: int | None) -> None:
    """Servers 1 and 4 are on n1, server 3 is on n2; server 5 was deleted."""
    copy.add_server(3, "n2")
    copy.add_server(4)
    copy.add_record(5, deleted=5)
    group(copy, policy, 1, 3, 4, 5, rules=rules)
    found = copy.look().findings
    assert [each.key for each in found] == [("group_violated", GROUP)] * (moved is not None)
    to = " --host n1" if policy == "affinity" else ""
    ends = [f"server migrate --live-migration{to} {server(moved)}"] if moved else []
    assert [line.line.partition("server")[1:] for each in found for line in each.commands] == [
        end.partition("server")[1:] for end in ends
    ]


@pytest.mark.parametrize(
    "values", [{"task_state": "migrating"}, {"vm_state": "shelved_offloaded"}, {"vm_state": "active"}]
)
def test_servers_that_move_or_have_left_their_host(copy: NovaCopy, values: dict[str, str]) -> None:
    copy.add_record(3, None if "shelved_offloaded" in values.values() else "n1", YOUNG, **values)
    copy.add_mapping(3, "one")
    group(copy, "anti-affinity", 1, 3)
    assert "group_violated" not in dict(copy.kinds())


@pytest.mark.parametrize(
    ("state", "commands"),
    [("stopped", [f"openstack server migrate {server(3)}  # and confirm it"]), ("error", []), ("suspended", [])],
)
def test_how_a_server_without_a_running_guest_is_moved(copy: NovaCopy, state: str, commands: list[str]) -> None:
    """Nova moves none that is in error or suspended."""
    copy.add_server(3, vm_state=state)
    group(copy, "anti-affinity", 1, 3)
    (found,) = copy.look().findings
    assert [each.line for each in found.commands] == commands
