"""Ports that Neutron has otherwise than Nova's servers."""

import re

import pytest

from tests.doctor.nova_copy import OLD, YOUNG, NovaCopy, moment, server
from tests.doctor.services_copy import PortsCopy
from whimbrel.adapters.sql.nova_databases import nova_tables as nova
from whimbrel.adapters.sql.placement_transfer import openstack_tables as placement
from whimbrel.doctor.port_checks import PortChecks


@pytest.fixture
def ports() -> PortsCopy:
    return PortsCopy()


def kinds(copy: NovaCopy, ports: PortsCopy, **how: object) -> list[tuple[str, str]]:
    return copy.kinds(services=[PortChecks(ports)], **how)


def test_ports_where_their_servers_are(copy: NovaCopy, ports: PortsCopy) -> None:
    for number, (host, of) in enumerate((("n1", 1), ("n1", 1), ("s1", 2))):
        ports.add(f"p{number}", server(of), host)
    assert kinds(copy, ports) == []


def test_a_port_of_a_server_that_is_gone(copy: NovaCopy, ports: PortsCopy) -> None:
    copy.add_record(3, deleted=3)
    ports.add("p", server(3), "n1")
    ports.add("q", server(4), "n1")
    assert kinds(copy, ports) == [("port_of_gone_server", "p"), ("port_of_gone_server", "q")]


def test_a_port_on_another_host(copy: NovaCopy, ports: PortsCopy) -> None:
    ports.add("p", server(1), "n2")
    ports.add("q", server(2), "")
    first, second = copy.look(services=[PortChecks(ports)]).findings
    assert (first.kind, second.kind) == ("port_on_other_host", "port_on_other_host")
    assert "n2/system domstate" in first.commands[0].line  # the port follows the guest
    assert first.commands[1].line == "openstack port set --host n1 p"
    assert second.commands[0].line == "openstack port set --host s1 q"


def test_a_port_that_an_offload_released_before_it_ended(copy: NovaCopy, ports: PortsCopy) -> None:
    """Rows as a Nova left them that could not reach Cinder in the offload. It refuses to reboot a shelved server."""
    copy.change("one", nova.instances, {"uuid": server(1)}, vm_state="shelved")
    ports.add("p", server(1), "")
    (found,) = copy.look(services=[PortChecks(ports)]).findings
    (offload,) = found.commands  # openstack server shelve --offload passes over a server that is shelved
    assert '{"shelveOffload": null}' in offload.line
    assert offload.line.endswith(f'/servers/{server(1)}/action"')


@pytest.mark.parametrize(("launched", "found"), [(moment(OLD), [("port_on_other_host", "p")]), (None, [])])
def test_a_port_of_a_server_in_error(copy: NovaCopy, ports: PortsCopy, launched: object, found: object) -> None:
    """One that has run uses its ports again after a reboot; one whose create failed never did."""
    copy.change("one", nova.instances, {"uuid": server(1)}, vm_state="error", launched_at=launched)
    ports.add("p", server(1), "n2")
    assert kinds(copy, ports) == found


@pytest.mark.parametrize("vif_type", ["ovs", "binding_failed"])
def test_a_server_that_waits_for_its_verdict_is_not_rebooted(copy: NovaCopy, ports: PortsCopy, vif_type: str) -> None:
    copy.add_server(3, "n2", vm_state="resized")
    copy.hold(copy.add_migration(3, "finished"), "n1")
    ports.add("p", server(3), "n2" if vif_type == "binding_failed" else "n1", vif_type=vif_type)
    (found,) = copy.look(services=[PortChecks(ports)]).findings
    assert found.commands[-1].line == "openstack port set --host n2 p"
    assert "no server that is resized" in found.note


def test_a_port_whose_active_binding_is_that_of_another_host(copy: NovaCopy, ports: PortsCopy) -> None:
    ports.add("p", server(1), "n2")
    ports.others["p"] = ["n1"]
    (found,) = copy.look(services=[PortChecks(ports)]).findings
    assert (found.kind, found.evidence["bindings"]) == ("port_on_other_host", [["n1", "INACTIVE"], ["n2", "ACTIVE"]])
    _, activate, delete, _ = found.commands
    assert "/p/bindings/n1/activate" in activate.line
    assert "DELETE" in delete.line
    assert "/p/bindings/n2" in delete.line


@pytest.mark.parametrize(
    ("inactive", "verbs"),
    [
        (["n1"], ["DELETE /n1", "POST "]),
        (["n2"], ["POST ", "DELETE /n2"]),
        (["n1", "n2"], ["DELETE /n1", "POST ", "DELETE /n2"]),
    ],
)
def test_a_port_without_an_active_binding(
    copy: NovaCopy, ports: PortsCopy, inactive: list[str], verbs: list[str]
) -> None:
    """A Neutron answered 500 when a binding of it was made active, and 404 when its host was set."""
    ports.add("p", server(1), "")
    ports.without_active.add("p")
    ports.others["p"] = inactive
    (found,) = copy.look(services=[PortChecks(ports)]).findings
    assert (found.kind, "between cells failed" in found.cause) == ("port_on_other_host", True)
    *rebind, reboot = [each.line for each in found.commands]
    assert [" ".join(*re.findall(r"-X (\w+).*/p/bindings([^\"]*)", line)) for line in rebind] == verbs
    assert '{"binding": {"host": "n1"}}' in next(line for line in rebind if "POST" in line)
    assert "reboot --hard" in reboot


def test_a_port_whose_active_binding_has_no_host(copy: NovaCopy, ports: PortsCopy) -> None:
    ports.add("p", server(1), "")
    ports.others["p"] = ["n1"]
    (found,) = copy.look(services=[PortChecks(ports)]).findings
    activate, reboot = [each.line for each in found.commands]
    assert ("/p/bindings/n1/activate" in activate, "reboot --hard" in reboot) == (True, True)


def test_a_port_that_could_not_be_bound(copy: NovaCopy, ports: PortsCopy) -> None:
    ports.add("p", server(1), "n1", vif_type="binding_failed")
    assert kinds(copy, ports) == [("port_binding_failed", "p")]


def test_a_binding_that_a_live_migration_left(copy: NovaCopy, ports: PortsCopy) -> None:
    ports.add("p", server(1), "n1")
    ports.others["p"] = ["n2"]
    (found,) = copy.look(services=[PortChecks(ports)]).findings
    assert (found.kind, found.evidence["bindings"]) == ("port_bound_twice", [["n1", "ACTIVE"], ["n2", "INACTIVE"]])


@pytest.mark.parametrize("task", ["migrating", "resize_finish"])
def test_a_move_has_its_ports_anywhere(copy: NovaCopy, ports: PortsCopy, task: str) -> None:
    copy.change("one", nova.instances, {"uuid": server(1)}, at=YOUNG, task_state=task)
    ports.add("p", server(1), "n2")
    ports.others["p"] = ["n1"]
    assert kinds(copy, ports) == []


def test_a_move_between_cells_that_waits_has_two_bindings(copy: NovaCopy, ports: PortsCopy) -> None:
    copy.change("two", nova.instances, {"uuid": server(2)}, vm_state="resized")
    copy.hold(copy.add_migration(2, "finished", source="n1", target="s1", cell="two", cross_cell_move=True), "n1")
    ports.add("p", server(2), "s1")
    ports.others["p"] = ["n1"]
    assert kinds(copy, ports) == []


def test_a_server_that_is_being_created(copy: NovaCopy, ports: PortsCopy) -> None:
    copy.add_mapping(3, None, YOUNG)
    copy.add("api", nova.build_requests, YOUNG, instance_uuid=server(3))
    ports.add("p", server(3), "")
    assert kinds(copy, ports) == []


def test_what_changes_between_the_looks(copy: NovaCopy, ports: PortsCopy) -> None:
    for id in "pqr":
        ports.add(id, server(1), "n2")

    def change(_: float) -> None:
        ports.change("p", host="n1")
        ports.change("q", status="DOWN")
        del ports.rows["r"]

    found = copy.look(wait=change, services=[PortChecks(ports)])
    assert (found.findings, found.passed) == ([], 3)


def test_a_port_that_changed_a_moment_ago(copy: NovaCopy, ports: PortsCopy) -> None:
    ports.add("p", server(1), "n2", at=YOUNG)
    assert kinds(copy, ports) == []


@pytest.mark.parametrize(
    ("held", "wants", "verbs"),
    [
        (5, {"NET_BW_EGR_KILOBIT_PER_SEC": 5}, None),
        (5, {}, ["delete", "unset", "heal"]),
        (0, {"NET_BW_EGR_KILOBIT_PER_SEC": 5}, ["unset", "heal"]),
        (5, {"NET_BW_EGR_KILOBIT_PER_SEC": 6}, ["unset", "heal"]),
    ],
)
def test_bandwidth_that_a_server_holds(
    copy: NovaCopy, ports: PortsCopy, held: int, wants: dict[str, int], verbs: list[str] | None
) -> None:
    """Nova makes the allocation of a port anew only if the port does not name a provider."""
    if held:
        hold_bandwidth(copy, held)
    ports.add("p", server(1), "n1")
    ports.change("p", wants=wants)
    found = copy.look(services=[PortChecks(ports)]).findings
    assert [each.key for each in found] == [("wrong_bandwidth", server(1))] * (verbs is not None)
    words = ("delete", "unset", "heal")
    lines = [each.line for finding in found for each in finding.commands]
    assert [next(word for word in words if word in line) for line in lines] == (verbs or [])


def test_bandwidth_of_a_server_without_ports(copy: NovaCopy, ports: PortsCopy) -> None:
    hold_bandwidth(copy, 5)
    assert kinds(copy, ports) == [("wrong_bandwidth", server(1))]


def hold_bandwidth(copy: NovaCopy, amount: int) -> None:
    copy.add("placement", placement.resource_classes, id=9, name="NET_BW_EGR_KILOBIT_PER_SEC")
    copy.add("placement", placement.allocations, consumer_id=server(1), resource_provider_id=1, resource_class_id=9,
             used=amount)  # fmt: skip
