"""Server groups with unmodified clients."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.live.running_cloud import RunningCloud, running_cloud

ADMIN = "whimbrel-admin"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCloud]:
    with running_cloud(tmp_path_factory.mktemp("cloud")) as running:
        yield running


def boot(cloud: RunningCloud, name: str, group: str) -> Any:
    words = ("server", "create", "--flavor", "m1.tiny", "--image", "tick", "--no-network", "--wait")
    return cloud.openstack(*words, "--hint", f"group={group}", name)


def host_of(cloud: RunningCloud, server: str) -> Any:
    return cloud.openstack("server", "show", server, cloud=ADMIN)["OS-EXT-SRV-ATTR:host"]


def test_a_group_is_made_filled_shown_and_deleted(cloud: RunningCloud) -> None:
    words = ("server", "group", "create", "--policy", "anti-affinity", "--rule", "max_server_per_host=1", "apart")
    made = cloud.openstack("--os-compute-api-version", "2.64", *words)
    assert (made["policy"], made["rules"]) == ("anti-affinity", {"max_server_per_host": 1})
    servers = [boot(cloud, name, made["id"])["id"] for name in ("one", "two")]
    assert host_of(cloud, "one") != host_of(cloud, "two")
    shown = cloud.openstack("--os-compute-api-version", "2.64", "server", "group", "show", "apart")
    assert [server in str(shown["members"]) for server in servers] == [True, True]
    [listed] = cloud.openstack("server", "group", "list", "--long")
    assert (listed["Name"], made["id"]) == ("apart", listed["ID"])
    assert "anti-affinity" in str(listed)
    assert [group["Name"] for group in cloud.openstack("server", "group", "list", "--all-projects", cloud=ADMIN)] == [
        "apart"
    ]
    cloud.say("server", "delete", "--wait", *servers)
    assert not cloud.openstack("server", "group", "show", "apart")["members"]
    cloud.say("server", "group", "delete", "apart")
    assert cloud.openstack("server", "group", "list") == []
    assert "apart" in cloud.refusal("server", "group", "show", "apart")
