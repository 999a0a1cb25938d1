"""Providers whose compute node is gone, and what is held of them."""

import pytest

from tests.doctor.nova_copy import NOW, NovaCopy, migration, moment, server
from whimbrel.adapters.sql.nova_databases import nova_tables as nova

LOST = 50


@pytest.fixture
def lost(copy: NovaCopy) -> str:
    """Add the provider of n9, whose service was deleted, and one below it. Return its uuid."""
    uuid = copy.add_provider(LOST, "n9")
    copy.add_provider(LOST + 1, "n9:br-ex", root=LOST)
    copy.add("one", nova.compute_nodes, id=9, uuid=uuid, host="n9", hypervisor_hostname="n9", deleted=9,
             deleted_at=moment(NOW - 1000.0))  # fmt: skip
    return uuid


def test_a_provider_whose_compute_node_was_deleted(copy: NovaCopy, lost: str) -> None:
    (found,) = copy.look().findings
    assert found.key == ("provider_left", lost)
    assert [each.line.split()[-1] for each in found.commands] == [uuid_of(LOST + 1), lost]
    assert copy.kinds(now=NOW - 990.0) == []


def uuid_of(id: int) -> str:
    return f"{id:08x}-0000-4000-8000-00000000000b"


def test_the_compute_node_that_is_back_has_its_provider(copy: NovaCopy, lost: str) -> None:
    copy.add("two", nova.compute_nodes, id=10, uuid=lost, host="n9", hypervisor_hostname="n9", deleted=0)
    assert copy.kinds() == []


def test_a_host_that_was_installed_anew_cannot_report(copy: NovaCopy) -> None:
    """Rows as a Nova left them: a compute node with another uuid, and nothing of the old one but its provider."""
    uuid = copy.add_provider(LOST, "n9")
    copy.add("one", nova.compute_nodes, id=9, uuid="new", host="h9", hypervisor_hostname="n9", deleted=0)
    (found,) = copy.look().findings
    assert found.key == ("provider_left", uuid)
    assert "nova-compute of h9 cannot make one" in found.text


def test_providers_of_others_are_left_alone(copy: NovaCopy) -> None:
    copy.add_provider(LOST, "a disk array")
    assert copy.kinds() == []


def test_what_an_ended_migration_holds_of_it_is_named(copy: NovaCopy, lost: str) -> None:
    """Rows as a Nova left them: it deletes a service while an allocation is left there, and leaves the provider."""
    copy.add_migration(1, "confirmed")
    copy.hold_of(migration(1), LOST)
    held, left = copy.look().findings
    assert held.key == ("allocation_of_migration", migration(1))
    assert left.key == ("provider_left", lost)
    assert f"held by {migration(1)}" in left.note


def test_what_a_live_server_holds_of_it_is_named(copy: NovaCopy, lost: str) -> None:
    copy.release(server(1))
    copy.hold_of(server(1), LOST)
    assert ("allocation_elsewhere", server(1)) in copy.kinds()


def test_what_a_deleted_server_holds_of_it_is_named(copy: NovaCopy, lost: str) -> None:
    copy.add_record(3, deleted=3)
    copy.add_mapping(3, "one", queued=True)
    copy.hold_of(server(3), LOST + 1)
    assert copy.kinds() == [("allocation_of_gone_server", server(3)), ("provider_left", lost)]
