"""For which project and user quotas count a server."""

import pytest

from tests.doctor.nova_copy import NovaCopy, server
from whimbrel.adapters.sql.nova_databases import nova_tables as nova
from whimbrel.adapters.sql.placement_transfer import openstack_tables as placement


@pytest.fixture
def owned(copy: NovaCopy) -> NovaCopy:
    """Return a copy in which server 1 has an owner: project p, user u."""
    for id, (project, user) in enumerate((("p", "u"), ("q", "v")), start=1):
        copy.add("placement", placement.projects, id=id, external_id=project)
        copy.add("placement", placement.users, id=id, external_id=user)
    copy.change("one", nova.instances, {"uuid": server(1)}, project_id="p", user_id="u")
    copy.change("api", nova.instance_mappings, {"instance_uuid": server(1)}, project_id="p", user_id="u")
    assert copy.kinds() == []
    return copy


def test_an_allocation_that_is_counted_for_another_project(owned: NovaCopy) -> None:
    owned.change("placement", placement.consumers, {"uuid": server(1)}, project_id=2)
    (found,) = owned.look().findings
    assert found.key == ("wrong_owner", server(1))
    assert "belongs to project p and user u, and Placement counts what it holds for project q" in found.text
    assert [each.line for each in found.commands] == [f"nova-manage placement heal_allocations --instance {server(1)}"]


def test_a_mapping_that_names_another_owner(owned: NovaCopy) -> None:
    owned.change("api", nova.instance_mappings, {"instance_uuid": server(1)}, user_id="v")
    (found,) = owned.look().findings
    assert found.key == ("wrong_owner", server(1))
    (command,) = found.commands
    assert owned.execute("api", command.line) == 1
    assert owned.kinds() == []


def test_its_sql_changes_nothing_once_the_mapping_has_changed(owned: NovaCopy) -> None:
    owned.change("api", nova.instance_mappings, {"instance_uuid": server(1)}, project_id="q")
    (command,) = owned.look().findings[0].commands
    owned.change("api", nova.instance_mappings, {"instance_uuid": server(1)}, project_id="p")
    assert owned.execute("api", command.line) == 0


def test_a_mapping_from_before_users_were_recorded_is_right(owned: NovaCopy) -> None:
    owned.change("api", nova.instance_mappings, {"instance_uuid": server(1)}, user_id=None)
    assert owned.kinds() == []


def test_an_allocation_without_a_record_of_its_consumer(owned: NovaCopy) -> None:
    """Rows as before Rocky, or as of a partial restore: the API of Placement shows nothing of them."""
    owned.remove("placement", placement.consumers, uuid=server(1))
    (found,) = owned.look().findings
    assert found.key == ("wrong_owner", server(1))
    assert "does not show it" in found.text
