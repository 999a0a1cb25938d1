"""Whatever is sent to the network service, it answers, and never with an error of its own."""

import asyncio
import json
from typing import Any
from urllib.parse import quote

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.anything import Anything
from tests.api.network_service import SERVER, Service, opened
from tests.depth import examples
from whimbrel.embedded.network.app import BINDINGS, ROUTES

NOBODYS = "00000000-0000-4000-8000-000000000000"
PEOPLE = ["root", "root", "whimbrel", "ann", "ann", "eve", "nobody"]

ANYTHING = Anything(
    *("h1", "p1", "p2", "egress", "any", "tcp", "10.0.0.5", "10.0.0.0/24", "2001:db8::1", "fa:16:3e:00:00:01"),
    *("true", "name", "asc", "None", NOBODYS),
)

# {NAME} stands for the id of the thing of this name that is there.
PORT: dict[str, Any] = {
    "network_id": "{network}",
    "name": "p",
    "mac_address": "fa:16:3e:00:00:07",
    "fixed_ips": [{"subnet_id": "{subnet}", "ip_address": "10.0.0.9"}],
    "device_id": SERVER,
    "device_owner": "compute:nova",
    "binding:host_id": "h1",
    "binding:vnic_type": "normal",
    "binding:profile": {"a": [1]},
    "security_groups": ["{group}"],
    "allowed_address_pairs": [{"ip_address": "10.0.0.0/24", "mac_address": "fa:16:3e:00:00:08"}],
    "qos_policy_id": "{policy}",
    "port_security_enabled": True,
    "admin_state_up": "true",
}
SUBNET: dict[str, Any] = {
    "network_id": "{network}",
    "cidr": "10.7.0.0/24",
    "ip_version": 4,
    "gateway_ip": "10.7.0.1",
    "allocation_pools": [{"start": "10.7.0.5", "end": "10.7.0.9"}],
    "dns_nameservers": ["1.1.1.1"],
    "host_routes": [{"destination": "10.8.0.0/16", "nexthop": "10.7.0.3"}],
    "service_types": ["compute:nova"],
}
VLAN = {
    "provider:network_type": "vlan",
    "provider:physical_network": "physnet0",
    "provider:segmentation_id": 9,
}
RULE: dict[str, Any] = {
    "security_group_id": "{group}",
    "direction": "ingress",
    "ethertype": "IPv4",
    "protocol": "tcp",
    "port_range_min": 1,
    "port_range_max": 2,
    "remote_ip_prefix": "10.0.0.0/8",
}
ROUTER: dict[str, Any] = {
    "name": "r",
    "external_gateway_info": {
        "network_id": "{external}",
        "enable_snat": False,
        "external_fixed_ips": [{"ip_address": "192.0.2.9"}],
    },
}
FLOATING: dict[str, Any] = {
    "floating_network_id": "{external}",
    "floating_ip_address": "192.0.2.7",
    "port_id": "{port}",
    "fixed_ip_address": "10.0.0.2",
}
GOOD: dict[str, list[Any]] = {
    "/v2.0/networks": [
        {"network": {"name": "n", "mtu": 1400, "shared": True, "tags": ["t"], **VLAN}},
        {"networks": [{"name": "n"}, {"segments": [VLAN, {"provider:network_type": "vxlan"}]}]},
    ],
    "/v2.0/networks/{id}": [{"network": {"name": "n", "qos_policy_id": "{policy}", "mtu": 9000}}],
    "/v2.0/subnets": [
        {"subnet": SUBNET},
        {"subnets": [{"network_id": "{network}", "cidr": "2001:db8::/64", "ipv6_address_mode": "slaac"}]},
    ],
    "/v2.0/subnets/{id}": [{"subnet": {key: SUBNET[key] for key in list(SUBNET)[3:]}}],
    "/v2.0/ports": [{"port": PORT}, {"ports": [{"network_id": "{network}"}, PORT]}],
    "/v2.0/ports/{id}": [{"port": {key: PORT[key] for key in list(PORT)[1:]}}],
    "/v2.0/ports/{id}/bindings": [{"binding": {"host": "h2", "vnic_type": "normal", "profile": {"a": 1}}}],
    "/v2.0/ports/{id}/bindings/{host}": [{"binding": {"profile": {"a": 1}, "vnic_type": "direct"}}],
    "/v2.0/security-groups": [{"security_group": {"name": "g", "stateful": False}}],
    "/v2.0/security-groups/{id}": [{"security_group": {"name": "g"}}],
    "/v2.0/security-group-rules": [{"security_group_rule": RULE}, {"security_group_rules": [RULE]}],
    "/v2.0/qos/policies": [{"policy": {"name": "q", "shared": True, "is_default": True}}],
    "/v2.0/qos/policies/{id}": [{"policy": {"name": "q"}}],
    "/v2.0/qos/policies/{id}/bandwidth_limit_rules": [{"bandwidth_limit_rule": {"max_kbps": 1, "max_burst_kbps": 1}}],
    "/v2.0/qos/policies/{id}/minimum_bandwidth_rules": [{"minimum_bandwidth_rule": {"min_kbps": "1"}}],
    "/v2.0/qos/policies/{id}/minimum_packet_rate_rules": [{"minimum_packet_rate_rule": {"min_kpps": 1}}],
    "/v2.0/routers": [{"router": ROUTER}, {"router": {"name": "r", "distributed": False}}],
    "/v2.0/routers/{id}": [{"router": {**ROUTER, "routes": [{"destination": "10.9.0.0/16", "nexthop": "10.0.0.9"}]}}],
    "/v2.0/routers/{id}/add_router_interface": [{"subnet_id": "{subnet}"}, {"port_id": "{port}"}],
    "/v2.0/routers/{id}/remove_router_interface": [{"subnet_id": "{subnet}"}, {"port_id": "{port}"}],
    "/v2.0/floatingips": [{"floatingip": FLOATING}, {"floatingip": {"floating_network_id": "{external}"}}],
    "/v2.0/floatingips/{id}": [{"floatingip": {"port_id": "{port}"}}, {"floatingip": {"port_id": None}}],
    "/v2.0/quotas/{id}": [{"quota": {"network": 100, "router": "5", "force": True}}],
    "/v2.0/segments": [{"segment": {"network_id": "{network}", "network_type": "vxlan", "segmentation_id": 5}}],
}
TAGS: list[Any] = [{"tags": ["a", "b"]}]

KEYS = ["name", "id", "limit", "marker", "sort_key", "sort_dir", "fields", "tags", "not-tags-any", "shared", "mtu"]
KEYS += ["fixed_ips", "binding:host_id", "device_id", "status", "network_id", "page_reverse", "revision_number", "x"]
queries = st.lists(
    st.tuples(st.sampled_from(KEYS), st.sampled_from(["ip_address=10.0.0.2", *ANYTHING.every_word])), max_size=3
)


def good_for(path: str) -> list[Any]:
    """Return bodies that may be sent to a URL, or to what it is a part of."""
    if "/tags" in path:
        return TAGS
    while path not in GOOD and path:
        path = path.rpartition("/")[0]
    return GOOD.get(path, [{}])


@st.composite
def request(draw: st.DrawFn) -> tuple[Any, ...]:
    method, path, _ = draw(st.sampled_from(ROUTES))
    spoilt = draw(ANYTHING.words) if draw(st.integers(0, 5)) == 0 else None
    good = st.sampled_from(good_for(path))
    body = draw(good | good.flatmap(ANYTHING.nearly) | ANYTHING.values)
    return method, path, spoilt, draw(st.sampled_from(PEOPLE)), draw(queries), body


def test_anything() -> None:
    @settings(derandomize=True, database=None, max_examples=examples(100), suppress_health_check=list(HealthCheck))
    @given(st.lists(request(), min_size=8, max_size=16))
    def send(sent: list[Any]) -> None:
        asyncio.run(_send(sent))

    send()


async def _send(sent: list[Any]) -> None:
    async with opened() as service:
        known = await _seed(service)
        for method, path, spoilt, who, query, body in sent:
            url = "/".join(_named(part, path, spoilt, known) for part in path.split("/"))
            text = json.dumps(body)
            for name, value in known.items():
                text = text.replace(f"{{{name}}}", value)
            answer = await service.client.request(
                method,
                f"/network{url}",
                params=query,
                content=None if method in ("GET", "DELETE") else text,
                headers={"X-Auth-Token": who, "If-Match": f"revision_number={len(sent)}"} if len(text) % 7 == 0
                else {"X-Auth-Token": who},
            )  # fmt: skip
            if path.startswith(BINDINGS) and answer.status_code == 500:
                continue  # what Neutron answers for a port that is not there
            assert answer.status_code < 500, (method, url, who, query, text, answer.text)
            if answer.status_code >= 400 and answer.status_code not in (404, 405):
                assert set(answer.json()["NeutronError"]) == {"type", "message", "detail"}


OF_PATH = {
    "networks": "network",
    "subnets": "subnet",
    "ports": "port",
    "security-groups": "group",
    "segments": "segment",
    "routers": "router",
    "floatingips": "floating",
}


def _named(part: str, path: str, spoilt: str | None, known: dict[str, str]) -> str:
    """Fill in a part of a URL: the id of a thing that is there, or something else."""
    if "{" not in part:
        return part
    if spoilt is not None:
        return quote(spoilt, safe="")
    if part != "{id}":
        return {"{host}": "h1", "{tag}": "t", "{rule}": known["rule"]}.get(part, "qos")
    kind = path.split("/")[2]
    return known.get("policy" if kind == "qos" else OF_PATH.get(kind, ""), NOBODYS)


async def _seed(service: Service) -> dict[str, str]:
    """Make one thing of each kind; return their ids."""
    network = await service.net("10.0.0.0/24", shared=False)
    [subnet] = (await service.get("/subnets"))["subnets"]
    [segment] = (await service.get("/segments"))["segments"]
    group, policy = await service.make("security_group", name="g"), await service.make("policy")
    rules = f"/qos/policies/{policy['id']}/minimum_bandwidth_rules"
    rule = await service.ask("ann", "POST", rules, {"minimum_bandwidth_rule": {"min_kbps": 1}})
    port = await service.of_server(network["id"], **{"binding:host_id": "h1"})
    external = await service.net("192.0.2.0/24", "root", **{"router:external": True})
    gateway = {"network_id": external["id"]}
    router = await service.make("router", external_gateway_info=gateway)
    floating = await service.make("floatingip", floating_network_id=external["id"])
    more = {"external": external, "router": router, "floating": floating}
    things = more | {
        "network": network,
        "subnet": subnet,
        "segment": segment,
        "group": group,
        "policy": policy,
        "port": port,
    }
    return {**{name: each["id"] for name, each in things.items()}, "rule": rule.json()["minimum_bandwidth_rule"]["id"]}
