"""A port with guaranteed bandwidth beside a real Neutron, whose agents report to Whimbrel's Placement."""

# ruff: noqa: F811  (fixtures of another module)

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from tests.live.test_external_services import (  # noqa: F401
    FLAVORS,
    IMAGE,
    ExternalCloud,
    _server,
    cloud,
    ending,
    resize,
    until,
)
from tests.openstack.seed import MINIMUM_KBPS
from tests.openstack_services import ALONE, killed

pytestmark = ALONE

ASKED = {"NET_BW_EGR_KILOBIT_PER_SEC": MINIMUM_KBPS, "NET_BW_IGR_KILOBIT_PER_SEC": MINIMUM_KBPS}


@pytest.fixture
def reporting_cloud(cloud: ExternalCloud, ending: ExitStack) -> ExternalCloud:
    """The cloud, with its Placement in the catalog; Neutron's processes read that at their start."""
    endpoints = cloud.openstack("endpoint", "list", "--service", "placement", cloud="admin")
    ending.callback(point_to, cloud, {each["ID"]: each["URL"] for each in endpoints})
    point_to(cloud, {each["ID"]: cloud.placement for each in endpoints})
    return cloud


def point_to(cloud: ExternalCloud, urls: dict[str, str]) -> None:
    """Set the URLs of endpoints, by id, and start Neutron and its agents anew."""
    neutron = cloud.services.cloud("service").url("network")
    with killed("neutron-agents", None), killed("neutron-rpc", None), killed("neutron", neutron):
        for endpoint, url in urls.items():
            cloud.say("endpoint", "set", "--url", url, endpoint, cloud="admin")


def names_of_providers(cloud: ExternalCloud) -> dict[str, str]:
    """Return the name of each provider of Whimbrel's Placement by its UUID."""
    with cloud.services.cloud("admin").client("compute") as client:
        found = client.get(f"{cloud.placement}/resource_providers").raise_for_status().json()["resource_providers"]
    return {each["uuid"]: each["name"] for each in found}


@pytest.fixture
def fast_port(reporting_cloud: ExternalCloud) -> Iterator[str]:
    cloud = reporting_cloud
    hosts = set(cloud.services.hosts()[:3])

    def have_reported(names: dict[str, str]) -> bool:
        return {name.split(":")[0] for name in names.values() if name.count(":") == 2} >= hosts

    until(partial(names_of_providers, cloud), have_reported)
    made = cloud.openstack("port", "create", "--network", "private", "--qos-policy", "fast", f"fast-{cloud.suffix}")
    yield made["id"]
    cloud.say("port", "delete", made["id"])


def check_bandwidth(cloud: ExternalCloud, server: str, port: str) -> None:
    """Check that the bandwidth is allocated at the server's host alone, where Neutron has the port bound."""
    host, names = cloud.host(server), names_of_providers(cloud)
    allocated: dict[str, Any] = {names[uuid]: each["resources"] for uuid, each in cloud.allocations(server).items()}
    assert len(allocated) == 2, allocated
    [device] = set(allocated) - {host}
    assert device.startswith(f"{host}:Open vSwitch agent:")
    assert allocated[device] == ASKED
    bound = until(lambda: cloud.port(port), lambda seen: seen["bindings"] == {host: "ACTIVE"})
    assert [names[uuid] for uuid in bound["binding:profile"]["allocation"].values()] == [device]
    assert bound["binding:vif_type"] == "ovs"


def test_the_bandwidth_moves_with_the_server(reporting_cloud: ExternalCloud, fast_port: str) -> None:
    cloud = reporting_cloud
    for server in _server(cloud, "--flavor", FLAVORS[0], "--image", IMAGE, "--port", fast_port):
        check_bandwidth(cloud, server, fast_port)
        for flavor, verdict in ((FLAVORS[1], "confirm"), (FLAVORS[2], "revert")):
            resize(cloud, server, flavor, verdict)
            check_bandwidth(cloud, server, fast_port)
        cloud.prove()
