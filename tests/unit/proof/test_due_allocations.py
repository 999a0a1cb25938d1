"""What is due is what is held, no more and no less; who of a tree serves a group does not matter."""

import pytest

from whimbrel.domain.flavor import Flavor
from whimbrel.ports.services.network import Port, PortRequest
from whimbrel.proof.due_allocations import NOTHING, Claims, due

ROOTS = {"h": "h", "card1": "h", "card2": "h", "other": "other"}
PORT = Port(
    id="p",
    network_id="n",
    project_id="x",
    mac="m",
    requests=(PortRequest(id="r", resources={"BW": 5}),),
    profile={"allocation": {"r": "card1"}},
)
OWN = {"VCPU": 2, "MEMORY_MB": 512}


def is_due(claims: Claims, *ports: Port, **specs: str) -> bool:
    flavor = Flavor(
        flavor_id="f",
        name="f",
        vcpus=2,
        memory_mib=512,
        root_gib=1,
        extra_specs={key.replace("__", ":"): value for key, value in specs.items()},
    )
    return due(flavor, {}, "h", ports, ROOTS, has_local_root=False).is_held(claims, ROOTS)


@pytest.mark.parametrize(
    ("claims", "is_right"),
    [
        ([("h", OWN)], True),
        ([("other", OWN)], False),
        ([("h", {**OWN, "VCPU": 1})], False),
        ([("h", OWN), ("other", {"VCPU": 1})], False),
        ([], False),
    ],
)
def test_a_plain_flavor(claims: Claims, is_right: bool) -> None:
    assert is_due(claims) is is_right


def test_a_port_is_served_by_whom_its_profile_names() -> None:
    assert is_due([("h", OWN), ("card1", {"BW": 5})], PORT)
    assert not is_due([("h", OWN), ("card2", {"BW": 5})], PORT)


def test_shared_cpus_may_stand_for_dedicated_ones() -> None:
    assert is_due([("h", OWN)], hw__cpu_policy="dedicated")
    assert is_due([("h", {"PCPU": 2, "MEMORY_MB": 512})], hw__cpu_policy="dedicated")
    assert not is_due([("h", {**OWN, "PCPU": 2})], hw__cpu_policy="dedicated")


def test_a_group_is_served_by_anybody_of_the_tree() -> None:
    for card in ("card1", "card2"):
        assert is_due([("h", OWN), (card, {"VGPU": 1})], resources1__VGPU="1")
    assert not is_due([("h", OWN), ("other", {"VGPU": 1})], resources1__VGPU="1")
    assert not is_due([("h", OWN), ("card1", {"VGPU": 2})], resources1__VGPU="1")
    assert not is_due([("h", OWN)], resources1__VGPU="1")


def test_who_is_nowhere_holds_nothing() -> None:
    assert NOTHING.is_held([], ROOTS)
    assert not NOTHING.is_held([("h", OWN)], ROOTS)
