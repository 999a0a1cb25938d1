"""The address translation of a router, as text."""

from msgspec.structs import replace

from whimbrel.adapters.host_network.router_rules import router_ruleset
from whimbrel.domain.host_networks import HostRouter, RouterLeg

GATEWAY = RouterLeg(
    port="aaaaaaaa-bbbb", network="x", mac="fa:16:3e:00:00:01", addresses=("fd00::9/64", "192.0.2.9/24")
)
ROUTER = HostRouter(id="r", gateway=GATEWAY, translates=True, floating=(("192.0.2.50", "10.0.0.5"),))


def test_floating_ips_come_before_the_gateways_address() -> None:
    lines = [line.strip() for line in router_ruleset(ROUTER).splitlines()]
    assert "ip daddr 192.0.2.50 dnat to 10.0.0.5" in lines
    own = lines.index('oifname "wlaaaaaaaa-bb" ip saddr 10.0.0.5 snat to 192.0.2.50')
    assert lines[own + 1] == 'oifname "wlaaaaaaaa-bb" ip saddr != { 192.0.2.9 } snat to 192.0.2.9'


def test_a_router_that_does_not_translate_has_floating_ips_only() -> None:
    text = router_ruleset(replace(ROUTER, translates=False))
    assert "snat to 192.0.2.50" in text
    assert "saddr != { 192.0.2.9 }" not in text


def test_a_router_without_gateway_translates_nothing() -> None:
    assert "nat" not in router_ruleset(replace(ROUTER, gateway=None))
