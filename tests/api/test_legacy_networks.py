"""The proxies to the network service: floating IPs, fixed IPs, security groups, networks."""

from typing import Any

import httpx
import pytest

from tests.api.devices import network
from tests.api.front import OTHER_PROJECT, PROJECT, Front, fault
from whimbrel.domain.ids import ServerId
from whimbrel.domain.server_devices import FixedIp

ID = "11111111-0000-4000-8000-000000000000"


class OldFront(Front):
    """A client that asks at 2.1 unless a request names another microversion."""

    async def ask(
        self, method: str, path: str, json: Any = None, *, who: str = "member", minor: int | None = 1, **more: Any
    ) -> httpx.Response:
        return await super().ask(method, path, json, who=who, minor=minor, **more)


@pytest.fixture
def front(front: Front) -> Front:
    return OldFront(front.world, front.engine, front._client)


async def addresses(front: Front, server_id: str) -> list[tuple[str, str]]:
    shown = (await front.show(server_id))["addresses"].get("private", [])
    return [(each["addr"], each["OS-EXT-IPS:type"]) for each in shown]


async def test_a_floating_ip_is_allocated_given_to_a_server_and_released(front: Front) -> None:
    pool = network(front, "public", "192.0.2.0/24", project_id=OTHER_PROJECT, is_external=True)
    server_id = await front.boot(networks=[{"uuid": network(front)}])
    assert await front.get("/os-floating-ip-pools") == {"floating_ip_pools": [{"name": "public"}]}
    made = (await front.ask("POST", "/os-floating-ips", {"pool": "public"})).json()["floating_ip"]
    assert made == {"id": made["id"], "ip": "192.0.2.1", "fixed_ip": None, "instance_id": None, "pool": "public"}
    [[fixed, _]] = await addresses(front, server_id)
    act = {"addFloatingIp": {"address": "192.0.2.1", "fixed_address": fixed}}
    for _ in range(2):  # again is fine
        assert (await front.act(server_id, act)).status_code == 202
    assert await addresses(front, server_id) == [(fixed, "fixed"), ("192.0.2.1", "floating")]
    [shown] = (await front.get("/os-floating-ips"))["floating_ips"]
    assert (shown["fixed_ip"], shown["instance_id"]) == (fixed, server_id)
    other = await front.boot("other", networks=[{"uuid": network(front, "private2", "10.1.0.0/24")}])
    assert (await front.act(other, {"addFloatingIp": {"address": "192.0.2.1"}})).status_code == 202
    assert await addresses(front, server_id) == [(fixed, "fixed")]
    await front.act(server_id, act)
    fault(await front.act(other, {"removeFloatingIp": {"address": "192.0.2.1"}}), "conflictingRequest", 409)
    assert (await front.act(server_id, {"removeFloatingIp": {"address": "192.0.2.1"}})).status_code == 202
    assert await addresses(front, server_id) == [(fixed, "fixed")]
    await front.act(server_id, act)
    assert (await front.ask("DELETE", f"/os-floating-ips/{made['id']}")).status_code == 202
    assert await addresses(front, server_id) == [(fixed, "fixed")]
    fault(await front.ask("GET", f"/os-floating-ips/{made['id']}"), "itemNotFound", 404)
    by_id = (await front.ask("POST", "/os-floating-ips", {"pool": pool})).json()["floating_ip"]
    fault(await front.ask("GET", f"/os-floating-ips/{by_id['id']}", who=f"member@{OTHER_PROJECT}"), "itemNotFound", 404)


async def test_nonsense_about_floating_ips(front: Front) -> None:
    server_id, bare = await front.boot(networks=[{"uuid": network(front)}]), await front.boot("bare")
    fault(await front.ask("POST", "/os-floating-ips", {"pool": "nowhere"}), "itemNotFound", 404)
    fault(await front.ask("POST", "/os-floating-ips", {"pool": 1}), "badRequest", 400)
    add: dict[str, Any] = {"address": "192.0.2.1"}
    fault(await front.act(server_id, {"addFloatingIp": add}), "itemNotFound", 404)
    fault(await front.act(server_id, {"removeFloatingIp": add}), "itemNotFound", 404)
    fault(await front.act(bare, {"addFloatingIp": add}), "badRequest", 400)
    fault(await front.act(server_id, {"addFloatingIp": {"address": "near"}}), "badRequest", 400)
    fault(await front.act(server_id, {"addFloatingIp": {**add, "fixed_address": "10.9.9.9"}}), "badRequest", 400)


async def test_a_fixed_ip_is_added_and_removed(front: Front) -> None:
    mine = network(front)
    server_id = await front.boot(networks=[{"uuid": mine}])
    assert (await front.act(server_id, {"addFixedIp": {"networkId": mine}})).status_code == 202
    [[first, _], [second, kind]] = await addresses(front, server_id)
    assert kind == "fixed"
    assert (await front.act(server_id, {"removeFixedIp": {"address": first}})).status_code == 202
    assert await addresses(front, server_id) == [(second, "fixed")]
    fault(await front.act(server_id, {"removeFixedIp": {"address": first}}), "badRequest", 400)
    fault(await front.act(server_id, {"addFixedIp": {"networkId": ID}}), "itemNotFound", 404)
    [port] = await front.world.cloud.network.ports_of([ServerId(server_id)])
    full = [FixedIp(f"10.0.0.{last}", port.addresses[0].subnet_id) for last in range(2, 255)]
    await front.world.cloud.network.set_fixed_ips(port, full)
    fault(await front.act(server_id, {"addFixedIp": {"networkId": mine}}), "badRequest", 400)
    assert (await front.act(server_id, {"lock": None}, who="admin")).status_code == 202
    fault(await front.act(server_id, {"removeFixedIp": {"address": second}}), "conflictingRequest", 409)
    assert (await front.act(server_id, {"injectNetworkInfo": None}, who="admin")).status_code == 202
    fault(await front.act(server_id, {"injectNetworkInfo": None}), "forbidden", 403)


async def test_security_groups_and_rules(front: Front) -> None:
    sent = {"security_group": {"name": "web", "description": "of the web", "color": "red"}}
    group = (await front.ask("POST", "/os-security-groups", sent)).json()["security_group"]
    assert group == {"id": group["id"], "name": "web", "description": "of the web", "tenant_id": PROJECT, "rules": []}
    rule: dict[str, Any] = {"parent_group_id": group["id"], "ip_protocol": "TCP", "from_port": "80", "to_port": 81}
    made = (await front.ask("POST", "/os-security-group-rules", {"security_group_rule": rule})).json()
    shown = made["security_group_rule"]
    assert (shown["ip_protocol"], shown["from_port"], shown["to_port"]) == ("tcp", 80, 81)
    assert (shown["ip_range"], shown["group"]) == ({"cidr": "0.0.0.0/0"}, {})
    fault(await front.ask("POST", "/os-security-group-rules", {"security_group_rule": rule}), "badRequest", 400)
    own = {"parent_group_id": group["id"], "group_id": group["id"]}
    made = (await front.ask("POST", "/os-security-group-rules", {"security_group_rule": own})).json()
    assert made["security_group_rule"]["group"] == {"name": "web", "tenant_id": PROJECT}
    near = {"security_group_rule": {**rule, "cidr": "10.2.3.124/24"}}
    made_near = (await front.ask("POST", "/os-security-group-rules", near)).json()["security_group_rule"]
    assert made_near["ip_range"] == {"cidr": "10.2.3.124/24"}
    assert (await front.ask("DELETE", f"/os-security-group-rules/{made_near['id']}")).status_code == 202
    path = f"/os-security-groups/{group['id']}"
    assert len((await front.get(path))["security_group"]["rules"]) == 2
    assert [one["name"] for one in (await front.get("/os-security-groups"))["security_groups"]] == ["default", "web"]
    assert [one["name"] for one in (await front.get("/os-security-groups?limit=1"))["security_groups"]] == ["default"]
    server_id = await front.boot(networks=[{"uuid": network(front)}], security_groups=[{"name": "web"}])
    [of_server] = (await front.get(f"/servers/{server_id}/os-security-groups"))["security_groups"]
    assert (of_server["description"], len(of_server["rules"])) == ("of the web", 2)
    assert (await front.ask("DELETE", f"/os-security-group-rules/{shown['id']}")).status_code == 202
    changed = await front.ask("PUT", path, {"security_group": {"name": "new", "description": ""}})
    assert (changed.json()["security_group"]["name"], len(changed.json()["security_group"]["rules"])) == ("new", 1)
    assert (await front.ask("DELETE", path)).status_code == 202
    fault(await front.ask("GET", path), "itemNotFound", 404)
    fault(await front.ask("GET", "/os-security-groups/web"), "badRequest", 400)


async def test_the_default_security_group_is_deleted_by_administrators_only(front: Front) -> None:
    [group] = (await front.get("/os-security-groups"))["security_groups"]
    path = f"/os-security-groups/{group['id']}"
    message = fault(await front.ask("DELETE", path), "badRequest", 400)
    assert message == "Insufficient rights for removing default security group."
    assert (await front.ask("DELETE", path, who="admin")).status_code == 202


@pytest.mark.parametrize(
    "fields",
    [
        {"ip_protocol": "gre", "from_port": 1, "to_port": 2},
        {"ip_protocol": "tcp", "from_port": 3, "to_port": 2},
        {"ip_protocol": "tcp", "from_port": 0, "to_port": 2},
        {"ip_protocol": "icmp", "from_port": 0, "to_port": 256},
        {"ip_protocol": "tcp", "from_port": [1], "to_port": {}},
        {"ip_protocol": "tcp", "from_port": 1, "to_port": 2, "cidr": "10.0.0.0/99"},
        {"ip_protocol": "tcp", "from_port": 1, "to_port": 2, "cidr": "10.0.0.0/0"},
        {"ip_protocol": "tcp"},
        {"group_id": "web"},
        {},
    ],
)
async def test_nonsense_about_a_rule(front: Front, fields: dict[str, Any]) -> None:
    [group] = (await front.get("/os-security-groups"))["security_groups"]
    sent = {"security_group_rule": {"parent_group_id": group["id"], **fields}}
    fault(await front.ask("POST", "/os-security-group-rules", sent), "badRequest", 400)


async def test_networks_of_a_project(front: Front) -> None:
    mine = network(front)
    assert await front.get("/os-tenant-networks") == {"networks": [{"id": mine, "cidr": "None", "label": "private"}]}
    assert (await front.get(f"/os-tenant-networks/{mine}"))["network"]["label"] == "private"
    fault(await front.ask("GET", f"/os-tenant-networks/{ID}"), "itemNotFound", 404)


async def test_the_proxies_end_at_2_36_and_the_actions_at_2_44(front: Front) -> None:
    server_id = await front.boot()
    for path in ("os-tenant-networks", "os-floating-ip-pools", "os-floating-ips", "os-security-groups"):
        fault(await front.ask("GET", f"/{path}", minor=36), "itemNotFound", 404)
    for name in ("addFixedIp", "removeFixedIp", "addFloatingIp", "removeFloatingIp"):
        fault(await front.act(server_id, {name: {"address": "192.0.2.1"}}, minor=44), "itemNotFound", 404)
    for method, path in (("POST", "os-networks"), ("DELETE", f"os-networks/{ID}"), ("POST", "os-tenant-networks")):
        assert (await front.ask(method, f"/{path}", {})).status_code == 410
