"""Networks, subnets and security groups over Neutron's protocol."""

import httpx
import pytest

from tests.api.network_service import Service, refusal
from whimbrel.embedded.network.not_supported import NAMES

ID = "11111111-0000-4000-8000-000000000000"


async def test_versions_are_for_everybody(service: Service) -> None:
    for path, key in (("/network/", "versions"), ("/network/v2.0", "resources"), ("/network/v2.0/", "resources")):
        answer = await service.client.get(path)
        assert answer.status_code == 200
        assert answer.json()[key]
    [version] = (await service.client.get("/network/")).json()["versions"]
    assert version["links"] == [{"rel": "self", "href": "http://cloud/network/v2.0/"}]


@pytest.mark.parametrize("path", NAMES)
async def test_what_is_not_supported_is_refused_by_name(service: Service, path: str) -> None:
    url = "/" + path.replace("{id}", ID)
    for method, at in (("GET", url), ("POST", url), ("GET", f"{url}/x"), ("PUT", f"{url}/x"), ("DELETE", f"{url}/x")):
        answer = await service.ask("ann", method, at, {} if method in ("POST", "PUT") else None)
        refusal(answer, 404, "HTTPNotFound")
        assert answer.json()["NeutronError"]["message"].startswith(f"{NAMES[path]} are not supported")


async def test_networks_and_routers_have_no_zones(service: Service) -> None:
    assert await service.get("/availability_zones", "ann") == {"availability_zones": []}


async def test_administrators_see_how_many_addresses_networks_have(service: Service) -> None:
    pools = [{"start": "10.0.0.10", "end": "10.0.0.19"}, {"start": "10.0.0.30", "end": "10.0.0.30"}]
    network = await service.make("network", name="net")
    v4 = await service.make("subnet", network_id=network["id"], cidr="10.0.0.0/24", allocation_pools=pools, name="four")
    await service.make("subnet", network_id=network["id"], cidr="fd00::/64", ip_version=6)
    other = await service.make("network", "bob", name="other")
    for _ in range(2):
        await service.make("port", network_id=network["id"])
    path = "/network-ip-availabilities"
    refusal(await service.ask("ann", "GET", path), 403, "PolicyNotAuthorized")
    shown = (await service.get(f"{path}/{network['id']}"))["network_ip_availability"]
    assert (shown["network_name"], shown["project_id"], shown["used_ips"]) == ("net", network["project_id"], 4)
    four, six = sorted(shown["subnet_ip_availability"], key=lambda subnet: str(subnet["ip_version"]))
    assert four == {
        "subnet_id": v4["id"],
        "subnet_name": "four",
        "cidr": "10.0.0.0/24",
        "ip_version": 4,
        "total_ips": 11,
        "used_ips": 2,
    }
    assert shown["total_ips"] == 11 + six["total_ips"] > 2**63
    empty = {**dict.fromkeys(("total_ips", "used_ips"), 0), "subnet_ip_availability": []}
    (listed,) = (await service.get(f"{path}?network_name=other"))["network_ip_availabilities"]
    assert {**listed, **empty, "network_id": other["id"]} == listed
    for query, found in (("", {"net", "other"}), ("?ip_version=4", {"net"}), (f"?network_id={other['id']}", {"other"})):
        views = (await service.get(path + query))["network_ip_availabilities"]
        assert {view["network_name"] for view in views} == found
    (only,) = (await service.get(f"{path}?ip_version=4"))["network_ip_availabilities"]
    assert (only["total_ips"], only["used_ips"]) == (11, 2)


async def test_extensions_are_what_there_is(service: Service) -> None:
    aliases = {each["alias"] for each in (await service.get("/extensions", "ann"))["extensions"]}
    assert aliases >= {"binding", "binding-extended", "port-resource-request-groups", "segment", "qos-pps-minimum"}
    assert aliases >= {"router", "ext-gw-mode", "external-net", "extraroute", "quota_details", "tag-creation"}
    assert not aliases & {"dvr", "l3-ha", "dns-integration", "dhcp_agent_scheduler"}
    assert (await service.get("/extensions/qos", "ann"))["extension"]["alias"] == "qos"
    refusal(await service.ask("ann", "GET", "/extensions/dvr"), 404, "ExtensionNotFound")
    assert await service.get("/service-providers?service_type=VPN", "ann") == {"service_providers": []}


async def test_a_network_is_made_shown_changed_and_deleted(service: Service) -> None:
    made = await service.make("network", name="net", description="mine", tags=["b", "a"], mtu="1400")
    assert made["tags"] == ["a", "b"]
    assert (made["mtu"], made["shared"], made["status"], made["subnets"]) == (1400, False, "ACTIVE", [])
    assert made["project_id"] == made["tenant_id"] == "p1"
    assert "provider:network_type" not in made
    path = f"/networks/{made['id']}"
    assert (await service.get(path, "ann"))["network"] == made
    whole = (await service.get(path))["network"]
    assert (whole["provider:network_type"], whole["provider:segmentation_id"]) == ("vxlan", 1)
    changed = await service.put(path, "network", "ann", name="new", admin_state_up=False)
    assert (changed["name"], changed["admin_state_up"], changed["revision_number"]) == ("new", False, 1)
    assert (await service.ask("ann", "DELETE", path)).status_code == 204
    refusal(await service.ask("ann", "GET", path), 404, "NetworkNotFound")


async def test_several_are_made_at_once_or_none(service: Service) -> None:
    sent = {"networks": [{"name": "a"}, {"network": {"name": "b"}}]}
    answer = await service.ask("ann", "POST", "/networks", sent)
    assert [each["name"] for each in answer.json()["networks"]] == ["a", "b"]
    flat = {"provider:network_type": "flat", "provider:physical_network": "physnet0"}
    answer = await service.ask("root", "POST", "/networks", {"networks": [flat, flat]})
    refusal(answer, 409, "NoNetworkAvailable")
    assert len((await service.get("/networks"))["networks"]) == 2


async def test_people_see_what_is_theirs_or_shared(service: Service) -> None:
    mine = await service.make("network", name="mine")
    shared = await service.make("network", "root", name="shared", shared=True)
    subnet = await service.make("subnet", "root", network_id=shared["id"], cidr="10.0.0.0/24")
    assert [each["name"] for each in (await service.get("/networks", "bob"))["networks"]] == ["shared"]
    assert {each["name"] for each in (await service.get("/networks", "ann"))["networks"]} == {"mine", "shared"}
    assert [each["id"] for each in (await service.get("/subnets", "bob"))["subnets"]] == [subnet["id"]]
    for method in ("GET", "PUT", "DELETE"):
        answer = await service.ask("bob", method, f"/networks/{mine['id']}", {"network": {}})
        refusal(answer, 404, "NetworkNotFound")
    for method in ("PUT", "DELETE"):
        answer = await service.ask("bob", method, f"/networks/{shared['id']}", {"network": {"name": "x"}})
        refusal(answer, 403, "PolicyNotAuthorized")
    answer = await service.ask(
        "bob", "POST", "/subnets", {"subnet": {"network_id": shared["id"], "cidr": "10.1.0.0/24"}}
    )
    refusal(answer, 403, "PolicyNotAuthorized")


@pytest.mark.parametrize(
    "fields",
    [
        {"shared": True},
        {"provider:network_type": "vlan", "provider:physical_network": "physnet0"},
        {"segments": [{"provider:network_type": "vxlan"}]},
        {"project_id": "p2"},
    ],
)
async def test_some_things_are_for_administrators(service: Service, fields: dict[str, object]) -> None:
    refusal(await service.ask("ann", "POST", "/networks", {"network": fields}), 403, "PolicyNotAuthorized")
    refusal(await service.ask("eve", "POST", "/networks", {"network": {}}), 403, "PolicyNotAuthorized")
    assert (await service.ask("ann", "POST", "/networks", {"network": {"shared": False}})).status_code == 201
    assert (await service.ask("root", "POST", "/networks", {"network": fields})).status_code == 201


async def test_who_has_no_token_gets_nothing(service: Service) -> None:
    assert (await service.client.get("/network/v2.0/networks")).status_code == 401
    assert (await service.ask("nobody", "GET", "/networks")).status_code == 401


BAD_NETWORKS = [
    ({"name": "n" * 300}, 400),
    ({"name": None}, 400),
    ({"mtu": 10}, 400),
    ({"mtu": "large"}, 400),
    ({"color": "red"}, 400),
    ({"qos_policy_id": ID}, 404),
    ({"tags": ["a,b"]}, 400),
    ({"provider:network_type": "gre"}, 400),
    ({"provider:network_type": "vlan", "provider:physical_network": "physnet9"}, 400),
    ({"provider:network_type": "vlan", "provider:physical_network": "physnet0", "provider:segmentation_id": 5000}, 400),
    ({"provider:network_type": "vxlan", "provider:physical_network": "physnet0"}, 400),
    ({"provider:physical_network": "physnet0"}, 400),
]


@pytest.mark.parametrize(("fields", "status"), BAD_NETWORKS)
async def test_nonsense_about_a_network(service: Service, fields: dict[str, object], status: int) -> None:
    answer = await service.ask("root", "POST", "/networks", {"network": fields})
    assert answer.status_code == status, answer.text
    assert set(answer.json()["NeutronError"]) == {"type", "message", "detail"}
    assert (await service.get("/networks"))["networks"] == []


async def test_any_name_is_a_name(service: Service) -> None:
    for name in ("", "ünïcödé 🦀", "n" * 255, "'; DROP TABLE networks; --", "%"):
        made = await service.make("network", name=name)
        [found] = (await service.client.get(
            "/network/v2.0/networks", params={"name": name, "id": made["id"]}, headers={"X-Auth-Token": "ann"}
        )).json()["networks"]  # fmt: skip
        assert found["name"] == name


async def test_vlans_are_given_out_once(service: Service) -> None:
    vlan = {"provider:network_type": "vlan", "provider:physical_network": "physnet0"}
    first = await service.make("network", "root", **vlan)
    second = await service.make("network", "root", **vlan)
    assert [each["provider:segmentation_id"] for each in (first, second)] == [1, 2]
    again = await service.ask("root", "POST", "/networks", {"network": {**vlan, "provider:segmentation_id": 2}})
    refusal(again, 409, "VlanIdInUse")
    [found] = (await service.get("/networks?provider:segmentation_id=2&provider:physical_network=physnet0"))["networks"]
    assert found["id"] == second["id"]


async def test_segments(service: Service) -> None:
    network = await service.make("network", "root", name="net")
    path = f"/segments?network_id={network['id']}"
    [first] = (await service.get(path))["segments"]
    assert (first["network_type"], first["physical_network"], first["segmentation_id"]) == ("vxlan", None, 1)
    refusal(await service.ask("root", "DELETE", f"/segments/{first['id']}"), 409, "SegmentInUse")
    requested = {"network_id": network["id"], "network_type": "vlan", "physical_network": "physnet1", "name": "s"}
    second = await service.make("segment", "root", **requested)
    shown = (await service.get(f"/networks/{network['id']}"))["network"]
    assert [each["provider:network_type"] for each in shown["segments"]] == ["vxlan", "vlan"]
    assert "provider:network_type" not in shown
    await service.make("subnet", "root", network_id=network["id"], cidr="10.0.0.0/24", segment_id=second["id"])
    refusal(await service.ask("root", "DELETE", f"/segments/{second['id']}"), 409, "SegmentInUse")
    refusal(await service.ask("ann", "GET", "/segments"), 403, "PolicyNotAuthorized")


async def test_lists_come_in_pages(service: Service) -> None:
    for number in range(5):
        await service.make("network", name=f"n{number}")
    names: list[str] = []
    url = "http://cloud/network/v2.0/networks?limit=2&sort_key=name&sort_dir=desc&fields=name"
    while url:
        page = (await service.client.get(url, headers={"X-Auth-Token": "ann"})).json()
        assert all(list(each) == ["name"] for each in page["networks"])
        names += [each["name"] for each in page["networks"]]
        url = page.get("networks_links", [{"href": ""}])[0]["href"]
    assert names == ["n4", "n3", "n2", "n1", "n0"]


@pytest.mark.parametrize(
    "query", ["limit=-1", "limit=x", "marker=nothing", "sort_key=color", "sort_key=name&sort_dir=up", "color=red",
              "mtu=x", "sort_dir=asc", "mtu=99999999999999"],
)  # fmt: skip
async def test_nonsense_in_a_list(service: Service, query: str) -> None:
    answer = await service.ask("ann", "GET", f"/networks?{query}")
    assert answer.status_code == 400, answer.text
    assert answer.json()["NeutronError"]["message"]


async def test_filters(service: Service) -> None:
    one = await service.make("network", name="one", tags=["x", "y"])
    await service.make("network", name="two", admin_state_up=False, tags=["x"])
    for query, names in (
        ("name=one", ["one"]),
        ("name=one&name=two", ["one", "two"]),
        (f"id={one['id']}", ["one"]),
        ("admin_state_up=false", ["two"]),
        ("admin_state_up=True", ["one"]),
        ("router:external=True", []),
        ("router:external=False", ["one", "two"]),
        ("shared=false&tenant_id=p1", ["one", "two"]),
        ("tags=x,y", ["one"]),
        ("not-tags-any=y", ["two"]),
        ("revision_number=7", []),
        ("qos_policy_id=", []),
    ):
        found = (await service.get(f"/networks?{query}&sort_key=name&sort_dir=asc", "ann"))["networks"]
        assert [each["name"] for each in found] == names, query


async def test_tags(service: Service) -> None:
    network = await service.make("network")
    path = f"/networks/{network['id']}/tags"

    async def send(method: str, tail: str = "", body: object = None) -> httpx.Response:
        return await service.ask("ann", method, path + tail, body)

    assert (await send("PUT", "", {"tags": ["b", "a", "a"]})).json() == {"tags": ["a", "b"]}
    assert (await send("POST", "", {"tags": ["d", "b"]})).json() == {"tags": ["a", "b", "d"]}
    assert (await send("DELETE", "/d")).status_code == 204
    assert (await send("PUT", "/c")).status_code == 201
    assert (await send("GET", "/c")).status_code == 204
    assert (await send("DELETE", "/a")).status_code == 204
    refusal(await send("GET", "/a"), 404, "TagNotFound")
    refusal(await send("DELETE", "/a"), 404, "TagNotFound")
    assert (await send("GET")).json() == {"tags": ["b", "c"]}
    assert (await send("DELETE")).status_code == 204
    assert (await service.get(f"/networks/{network['id']}", "ann"))["network"]["tags"] == []
    assert (await send("PUT", "", {"tags": [f"t{n}" for n in range(60)]})).status_code == 400


async def test_a_change_of_what_was_seen_only(service: Service) -> None:
    network = await service.make("network")
    path, body = f"/networks/{network['id']}", {"network": {"name": "x"}}
    assert (await service.ask("ann", "PUT", path, body, If_Match="revision_number=0")).status_code == 200
    answer = await service.ask("ann", "PUT", path, body, If_Match="revision_number=0")
    refusal(answer, 412, "RevisionNumberConstraintFailed")


# Subnets


async def test_a_subnet_fills_in_what_is_usual(service: Service) -> None:
    network = await service.make("network")
    four = await service.make("subnet", network_id=network["id"], cidr="10.0.0.77/24", ip_version=4)
    assert (four["cidr"], four["gateway_ip"]) == ("10.0.0.0/24", "10.0.0.1")
    assert four["allocation_pools"] == [{"start": "10.0.0.2", "end": "10.0.0.254"}]
    six = await service.make("subnet", network_id=network["id"], cidr="2001:DB8::/64", gateway_ip=None)
    assert (six["cidr"], six["ip_version"], six["gateway_ip"]) == ("2001:db8::/64", 6, None)
    assert six["allocation_pools"] == [{"start": "2001:db8::1", "end": "2001:db8::ffff:ffff:ffff:ffff"}]
    shown = (await service.get(f"/networks/{network['id']}"))["network"]
    assert set(shown["subnets"]) == {four["id"], six["id"]}
    middle = await service.make("subnet", network_id=network["id"], cidr="10.1.0.0/29", gateway_ip="10.1.0.3")
    assert middle["allocation_pools"] == [
        {"start": "10.1.0.1", "end": "10.1.0.2"},
        {"start": "10.1.0.4", "end": "10.1.0.6"},
    ]
    outside = await service.make("subnet", network_id=network["id"], cidr="10.2.0.0/24", gateway_ip="192.0.2.1")
    assert outside["gateway_ip"] == "192.0.2.1"
    assert outside["allocation_pools"] == [{"start": "10.2.0.1", "end": "10.2.0.254"}]
    moved = await service.put(f"/subnets/{outside['id']}", "subnet", "ann", gateway_ip="203.0.113.1")
    assert moved["gateway_ip"] == "203.0.113.1"
    router = await service.make("router")
    path = f"/routers/{router['id']}/add_router_interface"
    assert (await service.ask("ann", "PUT", path, {"subnet_id": outside["id"]})).status_code == 400


BAD_SUBNETS: list[tuple[dict[str, object], int]] = [
    ({"cidr": "10.0.0.0/33"}, 400),
    ({"cidr": "banana"}, 400),
    ({"cidr": "0.0.0.0/0"}, 400),
    ({"cidr": "10.0.0.0/24", "ip_version": 6}, 400),
    ({"cidr": "10.0.0.0/24", "ip_version": 5}, 400),
    ({"cidr": "10.0.0.0/24", "gateway_ip": "10.0.0.0"}, 400),
    ({"cidr": "10.0.0.0/24", "gateway_ip": "10.0.0.255"}, 400),
    ({"cidr": "10.0.0.0/24", "gateway_ip": "2001:db8::1"}, 400),
    ({"cidr": "10.0.0.0/24", "gateway_ip": "here"}, 400),
    ({"cidr": "10.0.0.0/24", "allocation_pools": [{"start": "10.0.0.9", "end": "10.0.0.3"}]}, 400),
    ({"cidr": "10.0.0.0/24", "allocation_pools": [{"start": "10.0.0.9", "end": "10.0.1.3"}]}, 400),
    ({"cidr": "10.0.0.0/24", "allocation_pools": [{"start": "10.0.0.9"}]}, 400),
    ({"cidr": "10.0.0.0/24", "allocation_pools": [{"start": "10.0.0.1", "end": "10.0.0.9"}]}, 409),
    (
        {
            "cidr": "10.0.0.0/24",
            "allocation_pools": [{"start": "10.0.0.2", "end": "10.0.0.9"}, {"start": "10.0.0.9", "end": "10.0.0.12"}],
        },
        400,
    ),
    ({"cidr": "10.0.0.0/24", "dns_nameservers": ["x"]}, 400),
    ({"cidr": "10.0.0.0/24", "dns_nameservers": ["1.1.1.1", "1.1.1.1"]}, 400),
    ({"cidr": "10.0.0.0/24", "host_routes": [{"destination": "10.9.0.0/99", "nexthop": "10.0.0.3"}]}, 400),
    ({"cidr": "10.0.0.0/24", "host_routes": [{"destination": "2001:db8::/64", "nexthop": "10.0.0.3"}]}, 400),
    ({"cidr": "10.0.0.0/24", "ipv6_ra_mode": "slaac"}, 400),
    ({"cidr": "2001:db8::/65", "ipv6_address_mode": "slaac"}, 400),
    ({"cidr": "2001:db8::/65", "ipv6_ra_mode": "dhcpv6-stateless"}, 400),
    ({"cidr": "2001:db8::/64", "ipv6_ra_mode": "slaac", "ipv6_address_mode": "dhcpv6-stateful"}, 400),
    ({"cidr": "2001:db8::/64", "ipv6_ra_mode": "slaac", "enable_dhcp": False}, 400),
    ({"cidr": "2001:db8::/64", "ipv6_address_mode": "dhcpv6-stateful", "enable_dhcp": False}, 400),
    ({"cidr": "2001:db8::/64", "ipv6_address_mode": "other"}, 400),
    ({"cidr": "10.0.0.0/24", "segment_id": ID}, 404),
    ({"cidr": "10.0.0.0/24", "subnetpool_id": ID}, 400),
    ({}, 400),
]


@pytest.mark.parametrize(("fields", "status"), BAD_SUBNETS)
async def test_nonsense_about_a_subnet(service: Service, fields: dict[str, object], status: int) -> None:
    network = await service.make("network")
    answer = await service.ask("ann", "POST", "/subnets", {"subnet": {"network_id": network["id"], **fields}})
    assert answer.status_code == status, answer.text
    assert set(answer.json()["NeutronError"]) == {"type", "message", "detail"}
    assert (await service.get("/subnets"))["subnets"] == []


async def test_subnets_change_and_go(service: Service) -> None:
    network = await service.net("10.0.0.0/29")
    [subnet] = (await service.get("/subnets"))["subnets"]
    path = f"/subnets/{subnet['id']}"
    overlap = {"subnet": {"network_id": network["id"], "cidr": "10.0.0.0/28"}}
    refusal(await service.ask("ann", "POST", "/subnets", overlap), 400, "InvalidInput")
    pools = [{"start": "10.0.0.4", "end": "10.0.0.5"}]
    changed = await service.put(path, "subnet", "ann", allocation_pools=pools, gateway_ip=None, name="s")
    assert (changed["allocation_pools"], changed["gateway_ip"], changed["name"]) == (pools, None, "s")
    answer = await service.ask("ann", "PUT", path, {"subnet": {"gateway_ip": "10.0.0.5"}})
    refusal(answer, 409, "GatewayConflictWithAllocationPools")
    port = await service.make("port", network_id=network["id"])
    refusal(await service.ask("ann", "DELETE", path), 409, "SubnetInUse")
    refusal(await service.ask("ann", "DELETE", f"/networks/{network['id']}"), 409, "NetworkInUse")
    await service.ask("ann", "DELETE", f"/ports/{port['id']}")
    assert (await service.ask("ann", "DELETE", path)).status_code == 204


# Security groups


async def test_every_project_has_a_default_group(service: Service) -> None:
    [group] = (await service.get("/security-groups", "ann"))["security_groups"]
    assert (group["name"], group["project_id"]) == ("default", "p1")
    assert sorted((rule["direction"], rule["ethertype"]) for rule in group["security_group_rules"]) == [
        ("egress", "IPv4"), ("egress", "IPv6"), ("ingress", "IPv4"), ("ingress", "IPv6"),
    ]  # fmt: skip
    assert len((await service.get("/security-groups", "ann"))["security_groups"]) == 1
    path = f"/security-groups/{group['id']}"
    refusal(await service.ask("ann", "DELETE", path), 409, "SecurityGroupCannotRemoveDefault")
    renamed = await service.ask("ann", "PUT", path, {"security_group": {"name": "mine"}})
    refusal(renamed, 409, "SecurityGroupCannotRemoveDefault")
    second = await service.ask("ann", "POST", "/security-groups", {"security_group": {"name": "default"}})
    refusal(second, 409, "SecurityGroupDefaultAlreadyExists")


async def test_groups_and_rules(service: Service) -> None:
    group = await service.make("security_group", name="web")
    assert [rule["direction"] for rule in group["security_group_rules"]] == ["egress", "egress"]
    requested = {"security_group_id": group["id"], "direction": "ingress", "protocol": "TCP"}
    rule = await service.make("security_group_rule", **requested, port_range_min=80, port_range_max=443)
    assert (rule["protocol"], rule["ethertype"], rule["remote_ip_prefix"]) == ("tcp", "IPv4", None)
    again = {"security_group_rule": {**requested, "port_range_min": 80, "port_range_max": 443}}
    refusal(await service.ask("ann", "POST", "/security-group-rules", again), 409, "SecurityGroupRuleExists")
    shown = (await service.get(f"/security-groups/{group['id']}", "ann"))["security_group"]
    assert rule["id"] in [each["id"] for each in shown["security_group_rules"]]
    near = await service.make("security_group_rule", **{**requested, "remote_ip_prefix": "10.2.3.124/24"})
    assert (near["remote_ip_prefix"], near["normalized_cidr"]) == ("10.2.3.124/24", "10.2.3.0/24")
    assert (await service.ask("ann", "DELETE", f"/security-group-rules/{near['id']}")).status_code == 204
    found = await service.get(f"/security-group-rules?security_group_id={group['id']}&protocol=tcp", "ann")
    assert [each["id"] for each in found["security_group_rules"]] == [rule["id"]]
    refusal(await service.ask("bob", "GET", f"/security-groups/{group['id']}"), 404, "SecurityGroupNotFound")
    assert (await service.ask("ann", "DELETE", f"/security-group-rules/{rule['id']}")).status_code == 204
    network = await service.make("network")
    port = await service.make("port", network_id=network["id"], security_groups=[group["id"]])
    refusal(await service.ask("ann", "DELETE", f"/security-groups/{group['id']}"), 409, "SecurityGroupInUse")
    await service.put(f"/ports/{port['id']}", "port", "ann", security_groups=[])
    assert (await service.ask("ann", "DELETE", f"/security-groups/{group['id']}")).status_code == 204


@pytest.mark.parametrize(
    "fields",
    [
        {"protocol": "banana"},
        {"protocol": "00099999"},
        {"ethertype": "IPv6", "remote_ip_prefix": "2001:db8::%x } accept/64"},
        {"protocol": 256},
        {"port_range_min": 80, "port_range_max": 80},
        {"protocol": "tcp", "port_range_min": 80},
        {"protocol": "tcp", "port_range_min": 443, "port_range_max": 80},
        {"protocol": "icmp", "port_range_max": 3},
        {"remote_ip_prefix": "10.0.0.0/99"},
        {"remote_ip_prefix": "10.0.0.0/8", "ethertype": "IPv6"},
        {"direction": "sideways"},
    ],
)
async def test_nonsense_about_a_rule(service: Service, fields: dict[str, object]) -> None:
    group = await service.make("security_group", name="web")
    requested = {"security_group_id": group["id"], "direction": "ingress", **fields}
    answer = await service.ask("ann", "POST", "/security-group-rules", {"security_group_rule": requested})
    assert answer.status_code == 400, answer.text


@pytest.mark.parametrize(
    ("protocol", "low", "high", "text"),
    [
        ("tcp", -16, 80, "Invalid value for port -16"),
        ("tcp", 0, 80, "Invalid value for port 0"),
        ("udp", 80, 65536, "Invalid value for port 65536"),
        ("tcp", 80, 79, "port_range_min must be <= port_range_max"),
        ("icmp", 1, 256, "Invalid value for ICMP code"),
        ("icmp", -1, 25, "Invalid value for ICMP type"),
        ("icmp", None, 6, "ICMP type (port-range-min) is missing"),
    ],
)
async def test_bad_ports_of_a_rule_are_named(
    service: Service, protocol: str, low: int | None, high: int, text: str
) -> None:
    group = await service.make("security_group", name="web")
    requested = {"security_group_id": group["id"], "direction": "ingress", "protocol": protocol}
    body = {"security_group_rule": {**requested, "port_range_min": low, "port_range_max": high}}
    answer = await service.ask("ann", "POST", "/security-group-rules", body)
    assert (answer.status_code, text in answer.text) == (400, True), answer.text


async def test_no_other_group_is_named_default(service: Service) -> None:
    group = await service.make("security_group", name="web")
    body = {"security_group": {"name": "default"}}
    answer = await service.ask("ann", "PUT", f"/security-groups/{group['id']}", body)
    refusal(answer, 409, "SecurityGroupDefaultAlreadyExists")


async def test_agents(service: Service) -> None:
    agents = (await service.get("/agents"))["agents"]
    assert sorted((each["host"], each["agent_type"]) for each in agents) == [
        ("bare", "Open vSwitch agent"),
        ("h1", "NIC Switch agent"), ("h1", "Open vSwitch agent"),
        ("h2", "NIC Switch agent"), ("h2", "Open vSwitch agent"),
    ]  # fmt: skip
    [one] = (await service.get("/agents?host=h1&agent_type=NIC Switch agent"))["agents"]
    assert one["configurations"] == {"device_mappings": {"physnet1": "ens6"}}
    assert (await service.get(f"/agents/{one['id']}"))["agent"]["alive"] is True
    assert await service.get("/agents", "ann") == {"agents": []}
    refusal(await service.ask("ann", "GET", f"/agents/{one['id']}"), 404, "AgentNotFound")


async def test_of_an_agent_the_description_and_the_state_are_set(service: Service) -> None:
    [one] = (await service.get("/agents?host=h1&agent_type=NIC Switch agent"))["agents"]
    path = f"/agents/{one['id']}"
    for sent in ({"description": "the fast one"}, {"admin_state_up": False}):
        changed = await service.put(path, "agent", "root", **sent)
        assert changed | sent == changed
    shown = (await service.get(path))["agent"]
    assert (shown["description"], shown["admin_state_up"], shown["host"]) == ("the fast one", False, "h1")
    assert [each["id"] for each in (await service.get("/agents?admin_state_up=False"))["agents"]] == [one["id"]]
    refusal(await service.ask("ann", "PUT", path, {"agent": {"description": "x"}}), 403, "PolicyNotAuthorized")
    for wrong in ({"host": "h2"}, {"description": "d" * 256}, {"admin_state_up": 7}):
        assert (await service.ask("root", "PUT", path, {"agent": wrong})).status_code == 400
    refusal(await service.ask("root", "PUT", "/agents/x", {"agent": {}}), 404, "AgentNotFound")


async def test_nothing_is_limited_at_first(service: Service) -> None:
    for path in ("/quotas/p1", "/quotas/p1/default"):
        assert set((await service.get(path, "ann"))["quota"].values()) == {-1}
    for path in ("/quotas/p1", "/quotas/p1/details"):
        refusal(await service.ask("bob", "GET", path), 403, "PolicyNotAuthorized")


async def test_a_quota_limits_a_project_until_it_is_deleted(service: Service) -> None:
    await service.make("network")
    changed = await service.put("/quotas/p1", "quota", network=2, router="0")
    assert (changed["network"], changed["router"], changed["port"]) == (2, 0, -1)
    details = (await service.get("/quotas/p1/details", "ann"))["quota"]
    assert details["network"] == {"limit": 2, "used": 1, "reserved": 0}
    assert [each["project_id"] for each in (await service.get("/quotas"))["quotas"]] == ["p1"]
    await service.make("network")
    answer = await service.ask("ann", "POST", "/networks", {"network": {}})
    assert refusal(answer, 409, "OverQuota") == "Quota exceeded for resources: ['network']."
    refusal(await service.ask("ann", "POST", "/routers", {"router": {}}), 409, "OverQuota")
    for sent in ({"network": 1}, {"network": -2}, {"color": 1}):
        assert (await service.ask("root", "PUT", "/quotas/p1", {"quota": sent})).status_code == 400
    assert (await service.put("/quotas/p1", "quota", network=1, force=True))["network"] == 1
    for method, path in (("GET", "/quotas"), ("PUT", "/quotas/p1"), ("DELETE", "/quotas/p1")):
        refusal(await service.ask("ann", method, path, {"quota": {}}), 403, "PolicyNotAuthorized")
    assert (await service.ask("root", "DELETE", "/quotas/p1")).status_code == 204
    await service.make("network")
