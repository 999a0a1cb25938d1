"""Routers, external networks and floating IPs over Neutron's protocol."""

from typing import Any

import pytest

from tests.api.network_service import SERVER, Service, refusal

ID = "11111111-0000-4000-8000-000000000000"


async def external(service: Service, cidr: str = "192.0.2.0/24") -> Any:
    return await service.net(cidr, "root", **{"router:external": True})


async def subnet_of(service: Service, network: Any) -> Any:
    [subnet] = (await service.get(f"/subnets?network_id={network['id']}"))["subnets"]
    return subnet


async def routed(service: Service) -> tuple[Any, Any, Any]:
    """Make a router between a private and an external network; return network, external network and router."""
    network, public = await service.net(), await external(service)
    router = await service.make("router", name="r", external_gateway_info={"network_id": public["id"]})
    answer = await interface(service, router, subnet_id=(await subnet_of(service, network))["id"])
    assert answer.status_code == 200, answer.text
    return network, public, router


async def interface(service: Service, router: Any, action: str = "add", who: str = "ann", **fields: str) -> Any:
    return await service.ask(who, "PUT", f"/routers/{router['id']}/{action}_router_interface", fields)


async def test_at_most_one_external_network_is_the_default(service: Service) -> None:
    inner, outer, other = await service.net(), await external(service), await external(service, "198.51.100.0/24")
    assert "is_default" not in inner
    assert (outer["is_default"], other["is_default"]) == (False, False)
    path, body = f"/networks/{outer['id']}", {"network": {"is_default": True}}
    refusal(await service.ask("ann", "PUT", f"/networks/{inner['id']}", body), 403, "PolicyNotAuthorized")
    assert (await service.put(path, "network", "root", is_default=True))["is_default"] is True
    assert [one["id"] for one in (await service.get("/networks?is_default=True"))["networks"]] == [outer["id"]]
    taken = await service.ask("root", "PUT", f"/networks/{other['id']}", body)
    refusal(taken, 409, "DefaultExternalNetworkExists")
    new = {"network": {"router:external": True, "is_default": True}}
    refusal(await service.ask("root", "POST", "/networks", new), 409, "DefaultExternalNetworkExists")
    assert "is_default" not in await service.put(path, "network", "root", **{"router:external": False})
    assert (await service.ask("root", "POST", "/networks", new)).json()["network"]["is_default"] is True


async def test_an_external_network_is_for_everybody_and_of_administrators(service: Service) -> None:
    public = await external(service)
    assert public["router:external"] is True
    found = (await service.get("/networks?router:external=True", "ann"))["networks"]
    assert [each["id"] for each in found] == [public["id"]]
    [subnet] = (await service.get("/subnets", "ann"))["subnets"]
    assert subnet["router:external"] is True
    refusal(
        await service.ask("ann", "POST", "/networks", {"network": {"router:external": True}}),
        403,
        "PolicyNotAuthorized",
    )


async def test_a_router_is_made_shown_changed_and_deleted(service: Service) -> None:
    public = await external(service)
    made = await service.make("router", name="r", external_gateway_info={"network_id": public["id"]})
    path, [address] = f"/routers/{made['id']}", made["external_gateway_info"]["external_fixed_ips"]
    assert made["external_gateway_info"]["enable_snat"] is True
    assert (made["status"], made["routes"], address["ip_address"]) == ("ACTIVE", [], "192.0.2.2")
    assert "ha" not in made
    assert (await service.get(path, "ann"))["router"] == made
    assert (await service.get(path))["router"]["distributed"] is False
    [port] = (await service.get(f"/ports?device_id={made['id']}"))["ports"]
    assert (port["device_owner"], port["status"], port["project_id"]) == ("network:router_gateway", "ACTIVE", "")
    assert (await service.get("/ports", "ann"))["ports"] == []
    changed = await service.put(path, "router", "ann", name="new", external_gateway_info={})
    assert (changed["name"], changed["external_gateway_info"]) == ("new", None)
    gateway = {"network_id": public["id"], "enable_snat": False, "external_fixed_ips": [{"ip_address": "192.0.2.9"}]}
    refusal(
        await service.ask("ann", "PUT", path, {"router": {"external_gateway_info": gateway}}),
        403,
        "PolicyNotAuthorized",
    )
    changed = await service.put(path, "router", external_gateway_info=gateway)
    assert changed["external_gateway_info"]["external_fixed_ips"][0]["ip_address"] == "192.0.2.9"
    gateway["external_fixed_ips"] = [{"ip_address": "192.0.2.8"}]
    changed = await service.put(path, "router", external_gateway_info=gateway)
    assert changed["external_gateway_info"]["external_fixed_ips"][0]["ip_address"] == "192.0.2.8"
    assert changed["external_gateway_info"]["enable_snat"] is False
    assert [each["id"] for each in (await service.get("/routers?name=new", "ann"))["routers"]] == [made["id"]]
    assert (await service.get("/routers", "bob"))["routers"] == []
    refusal(await service.ask("bob", "DELETE", path), 404, "RouterNotFound")
    assert (await service.ask("ann", "DELETE", path)).status_code == 204
    assert (await service.get("/ports"))["ports"] == []


@pytest.mark.parametrize(
    ("fields", "status", "error"),
    [
        ({"distributed": True}, 400, "BadRequest"),
        ({"ha": True}, 400, "BadRequest"),
        ({"external_gateway_info": {"network_id": "{private}"}}, 400, "BadRequest"),
        ({"external_gateway_info": {"network_id": ID}}, 404, "NetworkNotFound"),
        ({"routes": []}, 400, "HTTPBadRequest"),
    ],
)
async def test_nonsense_about_a_router(service: Service, fields: dict[str, Any], status: int, error: str) -> None:
    private = (await service.net())["id"]
    if "external_gateway_info" in fields:
        wanted = fields["external_gateway_info"]["network_id"].replace("{private}", private)
        fields = {"external_gateway_info": {"network_id": wanted}}
    refusal(await service.ask("root", "POST", "/routers", {"router": fields}), status, error)


async def test_interfaces_are_added_by_subnet_and_by_port(service: Service) -> None:
    network, other = await service.net(), await service.net("10.1.0.0/24")
    subnet, router = await subnet_of(service, network), await service.make("router")
    answer = (await interface(service, router, subnet_id=subnet["id"])).json()
    assert (answer["subnet_id"], answer["subnet_ids"], answer["project_id"]) == (subnet["id"], [subnet["id"]], "p1")
    [port] = (await service.get(f"/ports?device_id={router['id']}", "ann"))["ports"]
    assert (port["id"], port["device_owner"], port["status"]) == (
        answer["port_id"],
        "network:router_interface",
        "ACTIVE",
    )
    assert port["fixed_ips"] == [{"subnet_id": subnet["id"], "ip_address": "10.0.0.1"}]
    refusal(await interface(service, router, subnet_id=subnet["id"]), 400, "BadRequest")
    own = await service.make("port", network_id=other["id"])
    assert (await interface(service, router, port_id=own["id"])).json()["port_id"] == own["id"]
    refusal(await interface(service, router, port_id=own["id"]), 409, "PortInUse")
    refusal(await service.ask("ann", "DELETE", f"/routers/{router['id']}"), 409, "RouterInUse")
    refusal(await service.ask("ann", "DELETE", f"/ports/{own['id']}"), 409, "ServicePortInUse")
    refusal(await service.ask("ann", "DELETE", f"/subnets/{subnet['id']}"), 409, "SubnetInUse")
    refusal(
        await service.ask("ann", "PUT", f"/subnets/{subnet['id']}", {"subnet": {"gateway_ip": None}}),
        *(409, "GatewayIpInUse"),
    )
    await service.put(f"/subnets/{subnet['id']}", "subnet", "ann", name="new")
    refusal(await interface(service, router, "remove", port_id=ID), 404, "RouterInterfaceNotFound")
    refusal(
        await interface(service, router, "remove", port_id=own["id"], subnet_id=subnet["id"]),
        *(409, "SubnetMismatchForPort"),
    )
    assert (await interface(service, router, "remove", port_id=own["id"])).status_code == 200
    assert (await interface(service, router, "remove", subnet_id=subnet["id"])).status_code == 200
    refusal(await interface(service, router, "remove", subnet_id=subnet["id"]), 404, "RouterInterfaceNotFoundForSubnet")
    assert (await service.get("/ports"))["ports"] == []
    assert (await service.ask("ann", "DELETE", f"/routers/{router['id']}")).status_code == 204


async def test_an_interface_collects_the_ipv6_subnets_of_a_network(service: Service) -> None:
    network = await service.net("2001:db8::/64")
    more = await service.make("subnet", network_id=network["id"], cidr="2001:db8:1::/64", ip_version=6)
    router = await service.make("router")
    for subnet in (await service.get("/subnets"))["subnets"]:
        assert (await interface(service, router, subnet_id=subnet["id"])).status_code == 200
    [port] = (await service.get("/ports"))["ports"]
    assert len(port["fixed_ips"]) == 2
    assert (await interface(service, router, "remove", subnet_id=more["id"])).json()["subnet_ids"] == [more["id"]]
    [port] = (await service.get("/ports"))["ports"]
    assert [each["ip_address"] for each in port["fixed_ips"]] == ["2001:db8::1"]


@pytest.mark.parametrize("owner", ["network:router_interface", "network:router_gateway", "network:floatingip"])
async def test_a_port_is_of_a_router_only_by_the_router(service: Service, owner: str) -> None:
    theirs, network = await service.make("router", "bob"), await service.net()
    device = {"device_owner": owner, "device_id": theirs["id"]}
    answer = await service.ask("ann", "POST", "/ports", {"port": {"network_id": network["id"], **device}})
    refusal(answer, 403, "PolicyNotAuthorized")
    port = await service.make("port", network_id=network["id"])
    refusal(await service.ask("ann", "PUT", f"/ports/{port['id']}", {"port": device}), 403, "PolicyNotAuthorized")
    _, _, router = await routed(service)
    [own] = (await service.get(f"/ports?device_id={router['id']}&device_owner=network:router_interface"))["ports"]
    for change in ({"device_id": ""}, {"device_owner": ""}):
        answer = await service.ask("ann", "PUT", f"/ports/{own['id']}", {"port": change})
        refusal(answer, 403, "PolicyNotAuthorized")


async def test_nobody_routes_the_subnets_of_others(service: Service) -> None:
    shared = await service.net(who="root", shared=True)
    router = await service.make("router")
    refusal(await interface(service, router, subnet_id=(await subnet_of(service, shared))["id"]), 400, "BadRequest")
    refusal(await interface(service, router, who="bob", subnet_id=ID), 404, "RouterNotFound")
    for fields in ({}, {"subnet_id": ID, "port_id": ID}, {"color": "red"}):
        assert (await interface(service, router, **fields)).status_code == 400


async def test_further_routes_lead_over_the_router_s_networks(service: Service) -> None:
    network, _, router = await routed(service)
    path, route = f"/routers/{router['id']}", {"destination": "10.9.0.0/16", "nexthop": "10.0.0.9"}
    assert (await service.put(path, "router", "ann", routes=[route, route]))["routes"] == [route]
    for nexthop in ("10.5.0.1", "10.0.0.1"):
        answer = await service.ask("ann", "PUT", path, {"router": {"routes": [route | {"nexthop": nexthop}]}})
        refusal(answer, 400, "InvalidRoutes")
    for destination in ("2001:db8::/64", "2001:db8::%x/64"):
        answer = await service.ask("ann", "PUT", path, {"router": {"routes": [route | {"destination": destination}]}})
        assert answer.status_code == 400
    subnet = await subnet_of(service, network)
    refusal(await interface(service, router, "remove", subnet_id=subnet["id"]), 409, "RouterInterfaceInUseByRoute")
    assert (await service.put(path, "router", "ann", routes=None))["routes"] == []


async def test_routes_are_added_and_removed_one_by_one(service: Service) -> None:
    _, _, router = await routed(service)
    path, first = f"/routers/{router['id']}", {"destination": "10.9.0.0/16", "nexthop": "10.0.0.9"}
    second = first | {"destination": "10.8.0.0/16"}

    async def change(word: str, *routes: dict[str, str]) -> Any:
        return await service.ask("ann", "PUT", f"{path}/{word}_extraroutes", {"router": {"routes": list(routes)}})

    for sent, then in (((first,), [first]), ((second, first), [first, second])):
        assert (await change("add", *sent)).json()["router"]["routes"] == then
    refusal(await change("add", first | {"nexthop": "10.5.0.1"}), 400, "InvalidRoutes")
    more = [first | {"destination": f"10.7.{number}.0/24"} for number in range(29)]
    refusal(await change("add", *more), 409, "OverQuota")
    elsewhere = first | {"nexthop": "10.5.0.1"}  # not there
    assert (await change("remove", first, elsewhere)).json()["router"]["routes"] == [second]
    assert (await service.get(path))["router"]["routes"] == [second]


async def test_a_floating_ip_goes_from_server_to_server(service: Service) -> None:
    network, public, router = await routed(service)
    port = await service.of_server(network["id"])
    made = await service.make("floatingip", floating_network_id=public["id"], description="web")
    path = f"/floatingips/{made['id']}"
    assert (made["status"], made["port_id"], made["port_details"], made["router_id"]) == ("DOWN", None, None, None)
    assert made["floating_ip_address"] == "192.0.2.3"
    service.events.clear()
    now = await service.put(path, "floatingip", "ann", port_id=port["id"])
    assert (now["status"], now["router_id"], now["fixed_ip_address"]) == ("ACTIVE", router["id"], "10.0.0.2")
    assert now["port_details"]["device_id"] == SERVER
    assert service.events == [("network-changed", SERVER, port["id"])]
    assert (await service.put(path, "floatingip", "ann"))["port_id"] == port["id"]
    for query in (
        f"port_id={port['id']}",
        "status=ACTIVE",
        "floating_ip_address=192.0.2.3",
        f"router_id={router['id']}",
    ):
        assert len((await service.get(f"/floatingips?{query}", "ann"))["floatingips"]) == 1
    assert (await service.get("/floatingips", "bob"))["floatingips"] == []
    second = {"floating_network_id": public["id"], "port_id": port["id"]}
    refusal(
        await service.ask("ann", "POST", "/floatingips", {"floatingip": second}), 409, "FloatingIPPortAlreadyAssociated"
    )
    [holder] = (await service.get("/ports?device_owner=network:floatingip"))["ports"]
    assert (holder["status"], holder["device_id"]) == ("N/A", made["id"])
    refusal(await service.ask("root", "DELETE", f"/ports/{holder['id']}"), 409, "ServicePortInUse")
    subnet = await subnet_of(service, network)
    refusal(await interface(service, router, "remove", subnet_id=subnet["id"]), 409, "RouterInterfaceInUseByFloatingIP")
    refusal(
        await service.ask("ann", "PUT", f"/routers/{router['id']}", {"router": {"external_gateway_info": None}}),
        *(409, "RouterExternalGatewayInUseByFloatingIp"),
    )
    refusal(
        await service.ask("root", "PUT", f"/networks/{public['id']}", {"network": {"router:external": False}}),
        *(409, "ExternalNetworkInUse"),
    )
    assert (await service.put(path, "floatingip", "ann", port_id=None))["status"] == "DOWN"
    assert (await service.ask("ann", "DELETE", path)).status_code == 204
    refusal(await service.ask("ann", "GET", path), 404, "FloatingIPNotFound")
    assert (await service.get("/ports?device_owner=network:floatingip"))["ports"] == []


@pytest.mark.parametrize(
    ("fields", "status", "error"),
    [
        ({"floating_network_id": "{network}"}, 400, "BadRequest"),
        ({"floating_network_id": ID}, 404, "NetworkNotFound"),
        ({"port_id": ID}, 404, "PortNotFound"),
        ({"port_id": "{far}"}, 404, "ExternalGatewayForFloatingIPNotFound"),
        ({"port_id": "{near}", "fixed_ip_address": "10.0.0.99"}, 400, "BadRequest"),
        ({"port_id": "{near}", "fixed_ip_address": "::1"}, 400, "BadRequest"),
        ({"port_id": "{near}", "fixed_ip_address": "near"}, 400, "InvalidInput"),
        ({"fixed_ip_address": "10.0.0.2"}, 400, "BadRequest"),
        ({"subnet_id": ID}, 400, "InvalidInput"),
        ({"floating_ip_address": "192.0.2.77"}, 403, "PolicyNotAuthorized"),
        ({"color": "red"}, 400, "HTTPBadRequest"),
    ],
)
async def test_nonsense_about_a_floating_ip(service: Service, fields: dict[str, Any], status: int, error: str) -> None:
    network, public, _ = await routed(service)
    near = await service.make("port", network_id=network["id"])
    far = await service.make("port", network_id=(await service.net("10.1.0.0/24"))["id"])
    names = {"{network}": network["id"], "{near}": near["id"], "{far}": far["id"]}
    sent = {"floating_network_id": public["id"], **{name: names.get(each, each) for name, each in fields.items()}}
    refusal(await service.ask("ann", "POST", "/floatingips", {"floatingip": sent}), status, error)
    assert (await service.get("/floatingips"))["floatingips"] == []


async def test_an_exhausted_external_network(service: Service) -> None:
    public = await external(service, "192.0.2.0/30")
    await service.make("floatingip", floating_network_id=public["id"])
    answer = await service.ask("ann", "POST", "/floatingips", {"floatingip": {"floating_network_id": public["id"]}})
    refusal(answer, 409, "IpAddressGenerationFailure")
