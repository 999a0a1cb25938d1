"""Services of a real OpenStack are ended with signal 9 in the middle of moves and snapshots.

A conductor finds a service away, and goes on when it is there again. What is left is what the services themselves say.
"""

# ruff: noqa: F811  (fixtures of another module)

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import partial

import pytest

from tests.live.test_external_services import (  # noqa: F401
    FLAVORS,
    ExternalCloud,
    check_one_binding,
    cloud,
    port,
    server,
    until,
    until_status,
    volume_server,
)
from tests.openstack_services import ALONE, killed

pytestmark = ALONE

Killed = Callable[[], AbstractContextManager[None]]

TYPES = {"keystone": "identity", "glance": "image", "neutron": "network", "cinder": "block-storage"}
"""Service -> its type in the catalog. The others have messages only."""

OPEN_RUNS = "SELECT tries FROM runs WHERE state = 'open'"


@pytest.fixture
def without(request: pytest.FixtureRequest, cloud: ExternalCloud) -> Killed:
    """Return what has a request carried out while the service of the test's parameter is away."""
    kind = TYPES.get(request.param)
    url = cloud.services.cloud("service").url(kind) if kind else None  # the catalog is Keystone's
    return partial(interrupted, cloud, request.param, url)


@contextmanager
def interrupted(cloud: ExternalCloud, service: str, url: str | None) -> Iterator[None]:
    """Accept requests without a conductor, then kill the service and start one; leave when it has called in vain.

    url: of the service; None: do not wait for the conductor's calls.
    """
    with ExitStack() as ending:
        with cloud.without_conductor():
            yield
            ending.enter_context(killed(service, url))
        if url:
            until(lambda: tries_of_open_runs(cloud), lambda tries: all(tries))


def tries_of_open_runs(cloud: ExternalCloud) -> list[int]:
    """Read the journal: requests need Keystone."""
    with closing(sqlite3.connect(cloud.log.parent / "data" / "db" / "global.sqlite")) as journal:
        return [tries for (tries,) in journal.execute(OPEN_RUNS)]


@pytest.mark.parametrize("without", ["keystone", "neutron", "neutron-rpc", "cinder", "cinder-volume"], indirect=True)
def test_a_move_ends_with_its_volume_and_its_port_at_one_host(
    cloud: ExternalCloud,
    volume_server: str,
    port: str,
    without: Killed,
) -> None:
    before = cloud.host(volume_server)
    with without():
        cloud.say("server", "resize", "--flavor", FLAVORS[1], volume_server)
    ends = ("VERIFY_RESIZE", "ACTIVE")
    shown = until(lambda: cloud.openstack("server", "show", volume_server), lambda seen: seen["status"] in ends)
    if shown["status"] == "VERIFY_RESIZE":
        with without():
            cloud.say("server", "resize", "confirm", volume_server)
        until_status(cloud, volume_server, "ACTIVE")
    else:
        assert cloud.host(volume_server) == before, "it is as if it had never begun"
    check_one_binding(cloud, volume_server, port)
    [attachment] = until(lambda: cloud.attachments(volume_server), lambda seen: len(seen) == 1)
    assert attachment["status"] == "attached"
    cloud.prove()


@pytest.mark.parametrize("without", ["keystone", "glance"], indirect=True)
def test_a_snapshot_becomes_a_whole_image(cloud: ExternalCloud, server: str, without: Killed) -> None:
    with without():
        image = cloud.openstack("server", "image", "create", "--name", f"ext-{cloud.suffix}", server)["id"]
    try:
        shown = until(lambda: cloud.openstack("image", "show", image), lambda seen: seen["status"] != "queued")
        assert (shown["status"], shown["disk_format"]) == ("active", "qcow2")
        until(lambda: cloud.openstack("server", "show", server)["OS-EXT-STS:task_state"], lambda state: state is None)
        cloud.prove()
    finally:
        cloud.say("image", "delete", image)
