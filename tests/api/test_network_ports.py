"""Ports over Neutron's protocol: addresses, owners, and where they are bound."""

import asyncio

import pytest

from tests.api.network_service import SERVER, Service, refusal

ID = "11111111-0000-4000-8000-000000000000"


async def test_a_port_gets_what_it_needs(service: Service) -> None:
    network = await service.net("10.0.0.0/24")
    port = await service.make("port", network_id=network["id"], name="p")
    [address] = port["fixed_ips"]
    assert address["ip_address"] == "10.0.0.2"
    assert port["mac_address"].startswith("fa:16:3e:")
    assert (port["status"], port["device_id"], port["binding:vnic_type"]) == ("DOWN", "", "normal")
    [group] = (await service.get("/security-groups", "ann"))["security_groups"]
    assert port["security_groups"] == [group["id"]]
    assert not {"binding:host_id", "binding:profile", "binding:vif_type", "resource_request"} & set(port)
    whole = (await service.get(f"/ports/{port['id']}"))["port"]
    assert (whole["binding:host_id"], whole["binding:vif_type"], whole["binding:profile"]) == ("", "unbound", {})
    assert whole["resource_request"] is None
    assert (await service.get(f"/ports/{port['id']}", "ann"))["port"] == port


async def test_addresses_that_are_asked_for(service: Service) -> None:
    network = await service.net("10.0.0.0/24")
    [subnet] = (await service.get("/subnets"))["subnets"]
    fixed = {"subnet_id": subnet["id"], "ip_address": "10.0.0.77"}
    port = await service.make("port", network_id=network["id"], fixed_ips=[fixed], mac_address="AA-BB-CC-00-00-01")
    assert (port["fixed_ips"], port["mac_address"]) == ([fixed], "aa:bb:cc:00:00:01")
    requested = {"network_id": network["id"], "fixed_ips": [{"ip_address": "10.0.0.77"}]}
    refusal(await service.ask("ann", "POST", "/ports", {"port": requested}), 409, "IpAddressAlreadyAllocated")
    requested = {"network_id": network["id"], "mac_address": "aa:bb:cc:00:00:01"}
    refusal(await service.ask("ann", "POST", "/ports", {"port": requested}), 409, "MacAddressInUse")
    bare = await service.make("port", network_id=network["id"], fixed_ips=[])
    assert bare["fixed_ips"] == []
    two = [{"subnet_id": subnet["id"]}, {"ip_address": "10.0.0.78"}]
    changed = await service.put(f"/ports/{port['id']}", "port", "ann", fixed_ips=two)
    assert [each["ip_address"] for each in changed["fixed_ips"]] == ["10.0.0.77", "10.0.0.78"]


async def test_every_version_that_there_is(service: Service) -> None:
    network = await service.net("10.0.0.0/24")
    modes = {"ipv6_address_mode": "slaac", "ipv6_ra_mode": "slaac"}
    await service.make("subnet", network_id=network["id"], cidr="2001:db8::/64", **modes)
    port = await service.make("port", network_id=network["id"], mac_address="fa:16:3e:00:00:01")
    assert [each["ip_address"] for each in port["fixed_ips"]] == ["10.0.0.2", "2001:db8::f816:3eff:fe00:1"]


async def test_a_port_has_an_address_in_each_subnet_whose_hosts_make_theirs(service: Service) -> None:
    network = await service.net("10.0.0.0/24")
    for cidr, mode in (("2001:db8:0:1::/64", "slaac"), ("2001:db8:2::/80", "dhcpv6-stateful")):
        modes = {"ipv6_address_mode": mode, "ipv6_ra_mode": mode}
        await service.make("subnet", network_id=network["id"], cidr=cidr, **modes)
    only_announced = {"network_id": network["id"], "cidr": "2001:db8:0:3::/64", "ipv6_ra_mode": "dhcpv6-stateless"}
    subnet = await service.make("subnet", **only_announced)
    off = {"subnet": {"enable_dhcp": False}}
    refusal(await service.ask("ann", "PUT", f"/subnets/{subnet['id']}", off), 400, "InvalidInput")
    port = await service.make("port", network_id=network["id"], mac_address="fa:16:3e:00:00:01")
    expected = ["10.0.0.2", "2001:db8:2::2", "2001:db8:0:1:f816:3eff:fe00:1", "2001:db8:0:3:f816:3eff:fe00:1"]
    assert [each["ip_address"] for each in port["fixed_ips"]] == expected
    other = {"network_id": network["id"], "fixed_ips": [{"ip_address": "2001:db8:0:3::5"}]}
    assert "automatic" in refusal(await service.ask("ann", "POST", "/ports", {"port": other}), 400, "InvalidInput")
    path = f"/ports/{port['id']}"
    kept = [{"subnet_id": each["subnet_id"], "ip_address": each["ip_address"]} for each in port["fixed_ips"]]
    assert (await service.put(path, "port", "ann", fixed_ips=kept))["fixed_ips"] == port["fixed_ips"]
    changed = await service.put(path, "port", "root", mac_address="fa:16:3e:00:00:02")
    expected = ["10.0.0.2", "2001:db8:2::2", "2001:db8:0:1:f816:3eff:fe00:2", "2001:db8:0:3:f816:3eff:fe00:2"]
    assert [each["ip_address"] for each in changed["fixed_ips"]] == expected


async def test_a_port_names_any_server_and_only_its_network_has_ports_of_its_own(service: Service) -> None:
    network = await service.net("10.0.0.0/24", "root", shared=True)
    port = await service.make("port", "bob", network_id=network["id"], device_id=SERVER, device_owner="compute:nova")
    assert (port["device_id"], port["project_id"]) == (SERVER, "p2")
    requested = {"network_id": network["id"], "device_owner": "network:dhcp"}
    refusal(await service.ask("bob", "POST", "/ports", {"port": requested}), 403, "PolicyNotAuthorized")
    path, requested = f"/ports/{port['id']}", {"device_owner": "network:router_interface"}
    refusal(await service.ask("bob", "PUT", path, {"port": requested}), 403, "PolicyNotAuthorized")
    assert (await service.make("port", "root", network_id=network["id"], device_owner="network:dhcp"))["id"]
    gateway, [own] = {"ip_address": "10.0.0.1"}, port["fixed_ips"]
    refusal(await service.ask("bob", "PUT", path, {"port": {"fixed_ips": [own, gateway]}}), 403, "PolicyNotAuthorized")
    requested = {"network_id": network["id"], "fixed_ips": [gateway]}
    refusal(await service.ask("bob", "POST", "/ports", {"port": requested}), 403, "PolicyNotAuthorized")
    assert (await service.put(path, "port", "bob", fixed_ips=[own]))["fixed_ips"] == [own]


async def test_a_port_that_is_bound_is_not_given_to_another_server(service: Service) -> None:
    network = await service.net("10.0.0.0/24")
    port = await service.make("port", network_id=network["id"], device_id=SERVER, device_owner="compute:nova")
    path, other = f"/ports/{port['id']}", {"device_id": "another"}
    await service.put(path, "port", "whimbrel", **{"binding:host_id": "h1"})
    refusal(await service.ask("ann", "PUT", path, {"port": other}), 403, "PolicyNotAuthorized")
    assert (await service.put(path, "port", "ann", device_id="", name="free"))["device_id"] == ""
    refusal(await service.ask("ann", "PUT", path, {"port": other}), 403, "PolicyNotAuthorized")
    assert (await service.put(path, "port", "whimbrel", **other))["device_id"] == "another"


async def test_a_pool_runs_out(service: Service) -> None:
    network = await service.net("10.0.0.0/29")  # five for ports
    asked_for = [service.ask("ann", "POST", "/ports", {"port": {"network_id": network["id"]}}) for _ in range(8)]
    answers = await asyncio.gather(*asked_for)
    assert sorted(answer.status_code for answer in answers) == [201] * 5 + [409] * 3
    given = {answer.json()["port"]["fixed_ips"][0]["ip_address"] for answer in answers if answer.status_code == 201}
    assert given == {f"10.0.0.{last}" for last in range(2, 7)}
    for answer in answers:
        if answer.status_code == 409:
            refusal(answer, 409, "IpAddressGenerationFailure")


async def test_ports_are_made_together_or_not_at_all(service: Service) -> None:
    network = await service.net("10.0.0.0/29")
    requested = {"network_id": network["id"]}
    refusal(await service.ask("ann", "POST", "/ports", {"ports": [requested] * 6}), 409, "IpAddressGenerationFailure")
    assert (await service.get("/ports"))["ports"] == []
    answer = await service.ask(
        "ann", "POST", "/ports", {"ports": [{**requested, "name": "a"}, {**requested, "name": "b"}]}
    )
    assert [each["name"] for each in answer.json()["ports"]] == ["a", "b"]


BAD_PORTS: list[tuple[dict[str, object], int]] = [
    ({"network_id": ID}, 404),
    ({"name": "n" * 300}, 400),
    ({"mac_address": "zz:16:3e:00:00:01"}, 400),
    ({"mac_address": "00:00:00:00:00:00"}, 400),
    ({"mac_address": "ff:ff:ff:ff:ff:ff"}, 400),
    ({"allowed_address_pairs": [{"ip_address": "10.0.0.9", "mac_address": "01:00:5e:00:00:01"}]}, 400),
    ({"fixed_ips": [{}]}, 400),
    ({"fixed_ips": [{"ip_address": "10.0.0.300"}]}, 400),
    ({"fixed_ips": [{"ip_address": "10.9.0.1"}]}, 400),
    ({"fixed_ips": [{"ip_address": "10.0.0.255"}]}, 400),
    ({"fixed_ips": [{"subnet_id": ID}]}, 400),
    ({"fixed_ips": [{"ip_address": "10.0.0.5"}, {"ip_address": "10.0.0.5"}]}, 400),
    ({"fixed_ips": "10.0.0.5"}, 400),
    ({"security_groups": [ID]}, 404),
    ({"qos_policy_id": ID}, 404),
    ({"binding:vnic_type": "magic"}, 400),
    ({"allowed_address_pairs": [{"ip_address": "x"}]}, 400),
    ({"allowed_address_pairs": [{"ip_address": "10.0.0.0/999"}]}, 400),
    ({"allowed_address_pairs": [{"ip_address": "10.0.0.0/33"}]}, 400),
    ({"allowed_address_pairs": [{"ip_address": "fe80::1%x } accept"}]}, 400),
    ({"allowed_address_pairs": [{"ip_address": "10.0.0.0/"}]}, 400),
    ({"dns_name": "x"}, 400),
    ({"binding:host_id": "h1"}, 403),
    ({"binding:profile": {"a": 1}}, 403),
    ({"project_id": "p2"}, 403),
    ({"port_security_enabled": False, "security_groups": [ID]}, 400),
]


@pytest.mark.parametrize(("fields", "status"), BAD_PORTS)
async def test_nonsense_about_a_port(service: Service, fields: dict[str, object], status: int) -> None:
    network = await service.net("10.0.0.0/24")
    answer = await service.ask("ann", "POST", "/ports", {"port": {"network_id": network["id"], **fields}})
    assert answer.status_code == status, answer.text
    assert set(answer.json()["NeutronError"]) == {"type", "message", "detail"}
    assert (await service.get("/ports"))["ports"] == []


async def test_on_a_shared_network_the_owner_says_more(service: Service) -> None:
    network = await service.net("10.0.0.0/24", "root", shared=True)
    port = await service.make("port", network_id=network["id"])
    assert port["project_id"] == "p1"
    requested = {"port": {"network_id": network["id"], "mac_address": "fa:16:3e:00:00:09"}}
    refusal(await service.ask("ann", "POST", "/ports", requested), 403, "PolicyNotAuthorized")
    refusal(await service.ask("bob", "GET", f"/ports/{port['id']}"), 404, "PortNotFound")
    assert (await service.get("/ports", "bob"))["ports"] == []
    assert len((await service.get("/ports"))["ports"]) == 1


async def test_filters_of_ports(service: Service) -> None:
    network = await service.net("10.0.0.0/24")
    [subnet] = (await service.get("/subnets"))["subnets"]
    one = await service.of_server(network["id"], **{"binding:host_id": "h1"})
    two = await service.make("port", "root", network_id=network["id"], name="two")
    for query, found in (
        (f"device_id={SERVER}", [one]),
        ("device_owner=compute:nova&status=ACTIVE", [one]),
        ("binding:host_id=h1", [one]),
        ("binding:host_id=h2", []),
        (f"fixed_ips=ip_address={two['fixed_ips'][0]['ip_address']}", [two]),
        (f"fixed_ips=subnet_id={subnet['id']}&name=two", [two]),
        (f"network_id={network['id']}&mac_address={one['mac_address']}", [one]),
        (f"security_groups={one['security_groups'][0]}", [one]),
        (f"network_id={ID}", []),
    ):
        assert [each["id"] for each in (await service.get(f"/ports?{query}"))["ports"]] == [e["id"] for e in found], (
            query
        )


# Bound to hosts


async def test_a_port_is_bound_moved_and_unbound(service: Service) -> None:
    network = await service.net()
    port = await service.of_server(network["id"])
    assert (port["status"], port["binding:vif_type"]) == ("DOWN", "unbound")
    path, profile = f"/ports/{port['id']}", {"pci_slot": "rp"}
    bound = await service.put(path, "port", "whimbrel", **{"binding:host_id": "h1", "binding:profile": profile})
    assert (bound["status"], bound["binding:vif_type"], bound["binding:host_id"]) == ("ACTIVE", "ovs", "h1")
    assert bound["binding:vif_details"]["port_filter"] is True
    assert bound["binding:profile"] == profile
    await service.put(path, "port", **{"binding:host_id": "h1"})  # again: nothing new
    moved = await service.put(path, "port", **{"binding:host_id": "h2"})
    assert (moved["binding:host_id"], moved["binding:profile"]) == ("h2", profile)
    unbound = await service.put(path, "port", **{"binding:host_id": "", "binding:profile": {}, "device_id": ""})
    assert (unbound["status"], unbound["binding:vif_type"], unbound["binding:profile"]) == ("DOWN", "unbound", {})
    assert service.events == [
        ("network-vif-plugged", SERVER, port["id"]),
        ("network-vif-plugged", SERVER, port["id"]),
        ("network-vif-unplugged", SERVER, port["id"]),
    ]


@pytest.mark.parametrize(
    ("provider", "vnic_type", "host", "vif_type"),
    [
        ({}, "normal", "h1", "ovs"),
        ({}, "normal", "bare", "ovs"),
        ({}, "normal", "nowhere", "binding_failed"),
        ({}, "direct", "h1", "binding_failed"),
        ({"provider:network_type": "flat", "provider:physical_network": "physnet0"}, "normal", "h1", "ovs"),
        (
            {"provider:network_type": "flat", "provider:physical_network": "physnet0"},
            "normal",
            "bare",
            "binding_failed",
        ),
        ({"provider:network_type": "vlan", "provider:physical_network": "physnet1"}, "direct", "h1", "hw_veb"),
        ({"provider:network_type": "vlan", "provider:physical_network": "physnet1"}, "normal", "h1", "binding_failed"),
        ({"provider:network_type": "vlan", "provider:physical_network": "physnet1"}, "macvtap", "h1", "binding_failed"),
    ],
)
async def test_how_a_host_connects_a_port(
    service: Service, provider: dict[str, str], vnic_type: str, host: str, vif_type: str
) -> None:
    network = await service.make("network", "root", **provider)
    fields = {"binding:vnic_type": vnic_type, "binding:host_id": host}
    port = await service.of_server(network["id"], **fields)
    assert port["binding:vif_type"] == vif_type
    assert port["status"] == ("DOWN" if vif_type == "binding_failed" else "ACTIVE")
    if vif_type == "hw_veb":
        assert port["binding:vif_details"]["vlan"] == "1"


async def test_a_server_hears_of_its_ports(service: Service) -> None:
    network = await service.net()
    port = await service.of_server(network["id"], **{"binding:host_id": "h1"})
    path = f"/ports/{port['id']}"
    await service.put(path, "port", name="other")
    await service.put(path, "port", fixed_ips=[{"ip_address": "10.0.0.50"}])
    await service.put(path, "port", admin_state_up=False)
    await service.put(path, "port", admin_state_up=True)
    assert (await service.ask("root", "DELETE", path)).status_code == 204
    assert [name for name, _, _ in service.events] == [
        "network-vif-plugged", "network-changed", "network-vif-unplugged", "network-vif-plugged", "network-vif-deleted",
    ]  # fmt: skip
    assert {(server, tag) for _, server, tag in service.events} == {(SERVER, port["id"])}
    await service.make("port", network_id=network["id"])
    assert len(service.events) == 5  # nobody's


async def test_the_mac_of_a_bound_port_stays(service: Service) -> None:
    network = await service.net()
    port = await service.of_server(network["id"], **{"binding:host_id": "h1"})
    body = {"port": {"mac_address": "fa:16:3e:00:00:09"}}
    refusal(await service.ask("root", "PUT", f"/ports/{port['id']}", body), 409, "PortBound")


# Several bindings


async def test_a_binding_waits_is_activated_and_goes_back(service: Service) -> None:
    network = await service.net()
    port = await service.of_server(network["id"], **{"binding:host_id": "h1", "binding:profile": {"pci_slot": "a"}})
    path = f"/ports/{port['id']}/bindings"
    requested = {"binding": {"host": "h2", "vnic_type": "normal", "profile": {"pci_slot": "b"}}}
    answer = await service.ask("whimbrel", "POST", path, requested)
    assert answer.status_code == 201
    made = answer.json()["binding"]
    assert (made["status"], made["vif_type"], made["profile"]) == ("INACTIVE", "ovs", {"pci_slot": "b"})
    refusal(await service.ask("root", "POST", path, requested), 409, "PortBindingAlreadyExists")
    refusal(await service.ask("root", "PUT", f"{path}/h1/activate"), 409, "PortBindingAlreadyActive")
    refusal(await service.ask("root", "PUT", f"{path}/h3/activate"), 404, "PortBindingNotFound")
    del service.events[:]

    active = (await service.ask("root", "PUT", f"{path}/h2/activate")).json()
    assert (active["host"], active["status"], active["vif_type"]) == ("h2", "ACTIVE", "ovs")
    shown = (await service.get(f"/ports/{port['id']}"))["port"]
    assert (shown["binding:host_id"], shown["binding:profile"], shown["status"]) == (
        "h2",
        {"pci_slot": "b"},
        "ACTIVE",
    )
    assert service.events == [("network-vif-plugged", SERVER, port["id"])]
    bindings = (await service.get(path))["bindings"]
    assert [(each["host"], each["status"]) for each in bindings] == [("h1", "INACTIVE"), ("h2", "ACTIVE")]
    assert bindings[0]["profile"] == {"pci_slot": "a"}

    assert (await service.ask("root", "PUT", f"{path}/h1/activate")).json()["vif_type"] == "unbound"
    changed = await service.ask("root", "PUT", f"{path}/h1", {"binding": {"profile": {"c": 1}}})
    assert (changed.json()["binding"]["profile"], changed.json()["binding"]["vif_type"]) == ({"c": 1}, "ovs")
    assert (await service.ask("root", "DELETE", f"{path}/h2")).status_code == 204
    refusal(await service.ask("root", "DELETE", f"{path}/h2"), 404, "PortBindingNotFound")
    refusal(await service.ask("root", "GET", f"{path}/h2"), 404, "PortBindingNotFound")
    assert [each["host"] for each in (await service.get(path))["bindings"]] == ["h1"]


async def test_the_first_binding_is_the_active_one(service: Service) -> None:
    port = await service.of_server((await service.net())["id"])
    answer = await service.ask("root", "POST", f"/ports/{port['id']}/bindings", {"binding": {"host": "h1"}})
    assert answer.json()["binding"]["status"] == "ACTIVE"
    assert (await service.get(f"/ports/{port['id']}"))["port"]["binding:host_id"] == "h1"


async def test_bindings_that_cannot_be(service: Service) -> None:
    network = await service.net()
    port = await service.of_server(network["id"], **{"binding:host_id": "h1"})
    path = f"/ports/{port['id']}/bindings"
    for host in ("nowhere", "h\u00e9", "h" * 255):
        refusal(await service.ask("root", "POST", path, {"binding": {"host": host}}), 500, "PortBindingError")
    assert (await service.ask("root", "POST", path, {"binding": {"host": ""}})).status_code == 400
    refusal(await service.ask("ann", "GET", path), 403, "PolicyNotAuthorized")
    refusal(await service.ask("root", "GET", f"/ports/{ID}/bindings"), 404, "PortNotFound")
    users = await service.make("port", network_id=network["id"])
    refusal(await service.ask("root", "GET", f"/ports/{users['id']}/bindings"), 400, "BadRequest")


async def test_a_plain_change_of_host_fails_where_a_binding_waits(service: Service) -> None:
    port = await service.of_server((await service.net())["id"], **{"binding:host_id": "h1"})
    path = f"/ports/{port['id']}"
    assert (await service.ask("root", "POST", f"{path}/bindings", {"binding": {"host": "h2"}})).status_code == 201
    answer = await service.ask("root", "PUT", path, {"port": {"binding:host_id": "h2"}})
    refusal(answer, 500, "HTTPInternalServerError")
    bindings = (await service.get(f"{path}/bindings"))["bindings"]
    assert [(each["host"], each["status"]) for each in bindings] == [("h1", "ACTIVE"), ("h2", "INACTIVE")]


async def test_a_port_that_was_released_loses_its_bindings(service: Service) -> None:
    port = await service.of_server((await service.net())["id"], **{"binding:host_id": "h1"})
    path = f"/ports/{port['id']}"
    assert (await service.ask("root", "POST", f"{path}/bindings", {"binding": {"host": "h2"}})).status_code == 201
    await service.put(path, "port", **{"binding:host_id": "", "device_owner": "", "device_id": ""})
    refusal(await service.ask("root", "PUT", f"{path}/bindings/h2/activate"), 400, "BadRequest")
    assert (await service.ask("root", "DELETE", f"{path}/bindings/h2")).status_code == 204
    refusal(await service.ask("root", "DELETE", f"{path}/bindings/h2"), 404, "PortBindingNotFound")


async def test_changes_at_once_are_all_made(service: Service) -> None:
    port = await service.of_server((await service.net())["id"], **{"binding:host_id": "h1"})
    path = f"/ports/{port['id']}"
    hosts = [service.ask("root", "POST", f"{path}/bindings", {"binding": {"host": "h2"}}) for _ in range(4)]
    names = [service.ask("root", "PUT", path, {"port": {"name": f"n{number}"}}) for number in range(4)]
    answers = await asyncio.gather(*hosts, *names)
    assert sorted(answer.status_code for answer in answers) == [200] * 4 + [201] + [409] * 3
    assert len((await service.get(f"{path}/bindings"))["bindings"]) == 2
