"""The doctor beside a real Nova: nothing that goes on is called wrong, and what is broken is named.

WHIMBREL_TEST_NOVA is the nova.conf of its API, WHIMBREL_TEST_NOVA_PLACEMENT the placement.conf of its Placement, and
WHIMBREL_TEST_NOVA_CLOUDS a clouds.yaml of it; OS_CLOUD names an administrator there. Its hypervisor may be a fake one.
"""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import openstack
import pytest

from whimbrel.adapters.clock import SystemClock
from whimbrel.adapters.sql.nova_databases.opened_databases import open_nova
from whimbrel.cli.doctor import _urls
from whimbrel.doctor.diagnosis import Diagnosis, diagnose
from whimbrel.doctor.stuck_limits import StuckLimits

VARIABLES = ("WHIMBREL_TEST_NOVA", "WHIMBREL_TEST_NOVA_PLACEMENT", "WHIMBREL_TEST_NOVA_CLOUDS")
MISSING = [name for name in VARIABLES if not os.environ.get(name)]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)} name no real Nova")
FLAVOR = {"ram": 512, "disk": 1}


@pytest.fixture(scope="module")
def cloud() -> Any:
    os.environ["OS_CLIENT_CONFIG_FILE"] = os.environ["WHIMBREL_TEST_NOVA_CLOUDS"]
    made = openstack.connect()
    made.compute.default_microversion = "2.90"
    return made


@pytest.fixture(scope="module")
def flavors(cloud: Any) -> Iterator[list[str]]:
    made = [cloud.compute.create_flavor(name=f"doctor-{uuid4()}", vcpus=vcpus, **FLAVOR) for vcpus in (1, 2)]
    yield [each.id for each in made]
    for each in made:
        cloud.compute.delete_flavor(each)


@pytest.fixture
def server(cloud: Any, flavors: list[str]) -> Iterator[str]:
    image = next(cloud.image.images(status="active"))
    made = cloud.compute.create_server(
        name=f"doctor-{uuid4()}", flavor_id=flavors[0], image_id=image.id, networks="none"
    )
    reach(cloud, made.id, "ACTIVE")
    yield made.id
    cloud.compute.delete_server(made.id)
    cloud.compute.wait_for_delete(made, interval=0.5, wait=None)


def reach(cloud: Any, server: str, status: str, seen: Any = lambda: None) -> None:
    """Wait for a status. seen: called at each poll."""
    while (found := cloud.compute.get_server(server).status) != status:
        assert found != "ERROR"
        seen()


def look(settle_s: float = 60.0, again_s: float = 0.0) -> Diagnosis:
    files = [Path(os.environ[name]) for name in VARIABLES[:2]]
    urls = _urls(*files, (), any_schema=False)
    clock = SystemClock()
    return diagnose(
        partial(open_nova, urls), clock.now, lambda seconds: None, again_s, StuckLimits(settle_s=settle_s),
        lambda *_: None,
    )  # fmt: skip


def kinds_of(server: str, **how: float) -> list[str]:
    return [each.kind for each in look(**how).findings if server in each.text]


def test_moves_that_go_on_are_not_called_wrong(cloud: Any, server: str, flavors: list[str]) -> None:
    def seen() -> None:
        assert kinds_of(server) == []

    for verdict, target in ((cloud.compute.revert_server_resize, 1), (cloud.compute.confirm_server_resize, 1)):
        cloud.compute.resize_server(server, flavors[target])
        reach(cloud, server, "VERIFY_RESIZE", seen)
        seen()
        verdict(server)
        reach(cloud, server, "ACTIVE", seen)


def test_an_allocation_that_is_gone_is_named(cloud: Any, server: str) -> None:
    assert kinds_of(server, settle_s=0.0) == []
    placement = cloud.session.get_endpoint(service_type="placement")
    assert cloud.session.delete(f"{placement}/allocations/{server}").status_code == 204
    assert kinds_of(server, settle_s=0.0) == ["no_allocation"]


def test_an_allocation_of_nobody_is_named(cloud: Any, server: str) -> None:
    placement = cloud.session.get_endpoint(service_type="placement")
    version, nobody = {"OpenStack-API-Version": "placement 1.28"}, str(uuid4())
    held = cloud.session.get(f"{placement}/allocations/{server}", headers=version).json()
    for each in held["allocations"].values():
        del each["generation"]
    body = {**held, "consumer_generation": None}
    assert cloud.session.put(f"{placement}/allocations/{nobody}", json=body, headers=version).status_code == 204
    try:
        assert kinds_of(nobody, settle_s=0.0) == ["allocation_of_nobody"]
    finally:
        cloud.session.delete(f"{placement}/allocations/{nobody}")
