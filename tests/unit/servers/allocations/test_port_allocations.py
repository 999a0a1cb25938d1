"""What a server holds for its ports is compared with what they ask for: what is right stays, the rest is told."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import CellName, HostName, ProjectId, ProviderId, ServerId, UserId
from whimbrel.domain.server import RequestSpec, Server
from whimbrel.ports.placement.assignments import Assignment, ResourceRequest
from whimbrel.ports.placement.capacity import ProviderState
from whimbrel.ports.services.network import Port, PortRequest
from whimbrel.servers.allocations.port_allocations import Claim, Situation, compare, missing_resources
from whimbrel.servers.allocations.port_findings import Finding, ProfileChange, finding

EGRESS, INGRESS, RATE = "NET_BW_EGR_KILOBIT_PER_SEC", "NET_BW_IGR_KILOBIT_PER_SEC", "NET_PACKET_RATE_KILOPACKET_PER_SEC"
ROOT, AGENT, ETH0, ETH1, ODD, FAR_ROOT, FAR = map(
    ProviderId, ("root", "agent", "eth0", "eth1", "odd", "far root", "far")
)
PHYSNET0, PHYSNET1 = "CUSTOM_PHYSNET_0", "CUSTOM_PHYSNET_1"
OWN = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}
WANTED = {EGRESS: 1000, INGRESS: 1000}
FREE = {EGRESS: 3000, INGRESS: 3000}
HOME = {ROOT: OWN}

SERVER = Server(
    id=ServerId("s"),
    project_id=ProjectId("p"),
    user_id=UserId("u"),
    name="one",
    flavor=Flavor(flavor_id="1", name="small", vcpus=1, memory_mib=512, root_gib=1),
    image_id=None,
    spec=RequestSpec(),
    created_at=0.0,
    updated_at=0.0,
    vm_state="active",
    cell=CellName("c1"),
    host=HostName("h1"),
)


def provider(
    one: ProviderId, name: str, parent: ProviderId | None, free: Mapping[str, int], *traits: str
) -> ProviderState:
    root = FAR_ROOT if one in (FAR, FAR_ROOT) else ROOT
    return ProviderState(
        id=one,
        name=name,
        root=root,
        parent=parent,
        free=dict(free),
        capacity=dict.fromkeys(free, 4000),
        max_unit=dict.fromkeys(free, 4000),
        traits=frozenset(traits),
    )


PROVIDERS = {
    one.id: one
    for one in (
        provider(ROOT, "h1", None, {}),
        provider(AGENT, "h1:agent", ROOT, {RATE: 10}),
        provider(ETH0, "h1:agent:eth0", AGENT, FREE, PHYSNET0),
        provider(ETH1, "h1:agent:eth1", AGENT, FREE, PHYSNET0),
        provider(ODD, "h1:agent:eth2", AGENT, FREE, PHYSNET1),
        provider(FAR_ROOT, "h2", None, {}),
        provider(FAR, "h2:agent:eth0", FAR_ROOT, FREE, PHYSNET0),
    )
}


def asks(id: str = "r", resources: Mapping[str, int] = WANTED, *required: str) -> PortRequest:
    return PortRequest(id=id, resources=resources, required=required or (PHYSNET0,))


def a_port(allocation: Any, *requests: PortRequest, id: str = "port", **fields: Any) -> Port:
    profile = {"trusted": True} | ({} if allocation is None else {"allocation": allocation})
    return Port(
        **{"id": id, "network_id": "n", "project_id": "p", "mac": "", "host": "h1", "has_groups": True, **fields},
        profile=profile,
        requests=requests or (asks(),),
    )


def found(
    held: Claim,
    *ports: Port,
    way: Assignment | str | None = None,
    providers: Mapping[ProviderId, ProviderState] = PROVIDERS,
    **more: Any,
) -> Finding | None:
    situation = Situation(record=SERVER, ports=ports, held=held, root=ROOT, providers=providers, **more)
    served = compare(situation)
    assert (missing_resources(situation, served) is not None) == (way is not None), (
        "a way is there where one is asked for"
    )
    return finding(situation, served, way)


def to(**served: ProviderId) -> Assignment:
    return Assignment(parts={}, served=served, served_by={})


def said(finding: Finding | None) -> list[str]:
    assert finding, "nothing is found"
    return [problem.sentence for problem in finding.problems]


def test_what_is_right_is_no_finding() -> None:
    assert found({**HOME, ETH0: WANTED}, a_port({"r": ETH0})) is None
    assert found({**HOME, ETH0: WANTED}, a_port(ETH0, asks("port"), has_groups=False)) is None
    assert found(HOME) is None
    assert found(HOME, replace(a_port(None), requests=())) is None


def test_other_things_than_ports_are_left_alone() -> None:
    strange = {ROOT: {**OWN, "VGPU": 1}, FAR_ROOT: {"VCPU": 7}}
    assert found({**strange, ETH0: WANTED}, a_port({"r": ETH0})) is None
    assert found({ETH0: WANTED}, a_port({"r": ETH0})) is None
    one = found({**strange, FAR: WANTED}, a_port({"r": ETH0}))
    assert one
    assert one.due == {**strange, ETH0: WANTED}


def test_what_is_not_held_is_held_where_the_profile_says() -> None:
    one = found(HOME, a_port({"r": ETH1}))
    assert said(one) == [f"1000 {EGRESS}, 1000 {INGRESS} is not claimed where it could be served"]
    assert one
    assert one.due == {**HOME, ETH1: WANTED}
    assert (one.profiles, one.obstacle) == ((), None)
    assert one.names == {ROOT: "h1", ETH1: "h1:agent:eth1"}


def test_what_nobody_names_is_placed_anew() -> None:
    one = found(HOME, a_port(None), way=to(r=ETH1))
    assert one
    assert one.due == {**HOME, ETH1: WANTED}
    assert one.profiles == (ProfileChange(port_id="port", before=None, after={"r": ETH1}),)


def test_what_is_asked_for_anew_is_what_is_missing_and_no_more() -> None:
    ports = a_port({"r": ETH0}), a_port(None, asks("other"), id="second")
    situation = Situation(record=SERVER, ports=ports, held={**HOME, ETH0: WANTED}, root=ROOT, providers=PROVIDERS)
    wanted = missing_resources(situation, compare(situation))
    assert isinstance(wanted, ResourceRequest)
    assert (wanted.own, [group.id for group in wanted.groups], wanted.same_subtree) == ({}, ["other"], ())
    one = found({**HOME, ETH0: WANTED}, *ports, way=to(other=ETH0))
    assert one
    assert one.due == {**HOME, ETH0: {EGRESS: 2000, INGRESS: 2000}}
    assert [change.port_id for change in one.profiles] == ["second"]


def test_what_is_held_twice_is_held_once() -> None:
    one = found({**HOME, ETH0: {EGRESS: 2000, INGRESS: 2000}}, a_port({"r": ETH0}))
    assert said(one) == [f"1000 {EGRESS}, 1000 {INGRESS} of h1:agent:eth0 is claimed for no port"]
    assert one
    assert one.due == {**HOME, ETH0: WANTED}
    one = found({**HOME, ETH0: WANTED, ETH1: WANTED}, a_port({"r": ETH1}))
    assert one
    assert one.due == {**HOME, ETH1: WANTED}
    assert one.profiles == ()


@pytest.mark.parametrize("wrong", [FAR, ODD], ids=["of another host", "of another physical network"])
def test_what_is_held_of_the_wrong_provider_is_given_back(wrong: ProviderId) -> None:
    one = found({**HOME, wrong: WANTED}, a_port({"r": wrong}), way=to(r=ETH0))
    assert one
    assert one.due == {**HOME, ETH0: WANTED}
    assert one.profiles == (ProfileChange(port_id="port", before={"r": wrong}, after={"r": ETH0}),)
    name = PROVIDERS[wrong].name
    assert said(one)[1:] == [
        f"its profile names {name}, which does not serve it",
        f"1000 {EGRESS}, 1000 {INGRESS} of {name} is claimed for no port",
    ]


def test_a_profile_follows_what_is_held() -> None:
    for before, sentence in (
        (None, "its profile names no provider that serves it"),
        ({"r": FAR}, "its profile names h2:agent:eth0, which does not serve it"),
        ({"r": "gone"}, "its profile names an unknown provider (gone), which does not serve it"),
        ({"old": ETH0}, "its profile names h1:agent:eth0, which does not serve it"),
        ({}, "its profile does not name a provider for each of its requests"),
    ):
        one = found({**HOME, ETH0: WANTED}, a_port(before))
        assert said(one) == [sentence]
        assert one
        assert one.due == one.held
        assert one.profiles == (ProfileChange(port_id="port", before=before, after={"r": ETH0}),)


def test_a_profile_has_the_form_in_which_the_port_asks() -> None:
    plain = a_port({"port": ETH0}, asks("port"), has_groups=False)
    one = found({**HOME, ETH0: WANTED}, plain)
    assert one
    assert one.profiles == (ProfileChange(port_id="port", before={"port": ETH0}, after=ETH0),)
    one = found({**HOME, ETH0: WANTED}, a_port(ETH0))
    assert one
    assert one.profiles == (ProfileChange(port_id="port", before=ETH0, after={"r": ETH0}),)


def test_a_port_that_asks_for_nothing_says_nothing() -> None:
    one = found(HOME, replace(a_port({"r": ETH0}), requests=()))
    assert said(one) == ["its profile names a provider, and it requests nothing"]
    assert one
    assert one.profiles == (ProfileChange(port_id="port", before={"r": ETH0}, after=None),)


def test_what_a_port_that_went_has_left_is_given_back() -> None:
    one = found({**HOME, ETH0: WANTED})
    assert one
    assert [(problem.port_id, problem.sentence) for problem in one.problems] == [
        (None, f"1000 {EGRESS}, 1000 {INGRESS} of h1:agent:eth0 is claimed for no port")
    ]
    assert one.due == HOME


def test_two_ports_do_not_share_what_is_held_for_one() -> None:
    ports = a_port({"r": ETH0}), a_port({"other": ETH0}, asks("other"), id="second")
    one = found({**HOME, ETH0: WANTED}, *ports)
    assert one
    assert [problem.port_id for problem in one.problems] == ["second"]
    assert one.due == {**HOME, ETH0: {EGRESS: 2000, INGRESS: 2000}}


def test_what_is_held_in_part_is_completed_there_though_nobody_else_has_room() -> None:
    full = {one: replace(each, free=dict.fromkeys(each.free, 0)) for one, each in PROVIDERS.items()}
    full[ETH1] = replace(full[ETH1], free={EGRESS: 0, INGRESS: 1000})
    one = found({**HOME, ETH1: {EGRESS: 1000}}, a_port(None), providers=full)
    assert one
    assert one.due == {**HOME, ETH1: WANTED}
    assert one.profiles[0].after == {"r": ETH1}


def test_where_there_is_no_room_it_says_so_and_nothing_changes() -> None:
    full = {one: replace(each, free=dict.fromkeys(each.free, 0)) for one, each in PROVIDERS.items()}
    one = found(HOME, a_port({"r": ETH0}), way=f"no room for 1000 {EGRESS}", providers=full)
    assert one
    assert one.obstacle == f"host h1 has no room for 1000 {EGRESS}"
    assert (one.due, one.profiles) == (one.held, ())


def test_one_request_takes_no_more_than_a_provider_gives_at_once() -> None:
    small = {**PROVIDERS, ETH0: replace(PROVIDERS[ETH0], max_unit=dict.fromkeys(FREE, 999))}
    one = found(HOME, a_port({"r": ETH0}), way=to(r=ETH1), providers=small)
    assert one
    assert one.due == {**HOME, ETH1: WANTED}


def test_a_port_that_is_bound_elsewhere_is_not_bound_here() -> None:
    one = found(HOME, a_port({"r": FAR}, host="h2"), way=to(r=ETH0))
    assert one
    assert one.obstacle == "port port is bound to h2, and its server is on h1"
    stale = replace(a_port({"r": FAR}, host=""), requests=())
    one = found(HOME, stale)
    assert one
    assert one.obstacle == "port port is bound to no host, and its server is on h1"


def test_a_virtual_function_is_served_by_its_own_card() -> None:
    port = a_port({"r": ETH0}, vnic_type="direct")
    one = found({**HOME, ETH0: WANTED}, port, physical={"port": "eth1"})
    assert one
    assert one.due == {**HOME, ETH1: WANTED}
    assert one.profiles[0].after == {"r": ETH1}
    full = {**PROVIDERS, ETH1: replace(PROVIDERS[ETH1], free={EGRESS: 0, INGRESS: 0})}
    one = found(HOME, port, way=to(r=ETH0), physical={"port": "eth1"}, providers=full)
    assert one
    assert one.obstacle == "there is no room for port port on eth1, where it is"


def test_groups_of_one_port_are_served_below_one_agent() -> None:
    other = ProviderId("other agent")
    providers = {**PROVIDERS, other: provider(other, "h1:other", ROOT, {RATE: 10})}
    rate = PortRequest(id="rate", resources={RATE: 5})
    port = a_port({"r": ETH0, "rate": AGENT}, asks(), rate, same_subtree=("rate", "r"))
    assert found({**HOME, ETH0: WANTED, AGENT: {RATE: 5}}, port, providers=providers) is None
    wrong = a_port({"r": ETH0, "rate": other}, asks(), rate, same_subtree=("rate", "r"))
    one = found({**HOME, ETH0: WANTED, other: {RATE: 5}}, wrong, providers=providers, way=to(rate=AGENT))
    assert one
    assert one.due == {**HOME, ETH0: WANTED, AGENT: {RATE: 5}}
    one = found({**HOME, ETH0: WANTED}, a_port({"r": ETH0}, asks(), rate, same_subtree=("rate", "r")),
                providers=providers, way=to(rate=other))  # fmt: skip
    assert one
    assert one.obstacle == "no network agent has room for all requests of port port"


def test_a_host_that_placement_does_not_know() -> None:
    situation = Situation(record=SERVER, ports=(a_port(None),), held={}, root=ProviderId(""), providers={})
    one = finding(situation, compare(situation), None)
    assert one
    assert one.obstacle == "Placement does not know host h1"
