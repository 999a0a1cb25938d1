"""`whimbrel prove` and `whimbrel repair` in a running cloud: hands break it by its own APIs, and it is mended."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest

from tests.live.running_cloud import RunningCloud, running_cloud
from tests.processes import HANG_S
from whimbrel.adapters.bus.agent_client import HttpAgents
from whimbrel.domain.guest import GuestKey, GuestSpec, Order
from whimbrel.domain.ids import HostName, ProjectId, RunId, ServerId, Slot

STRANGER = "99999999-9999-4999-8999-999999999999"

SET_UP = """
import json
import openstack

cloud = openstack.connect(cloud="whimbrel-admin")
network = cloud.network.create_network(name="n")
cloud.network.create_subnet(network_id=network.id, ip_version=4, cidr="10.9.0.0/24")
image = cloud.image.find_image("tick")
servers = [
    cloud.compute.wait_for_server(
        cloud.compute.create_server(
            name=name, image_id=image.id, flavor_id="1", networks=[{"uuid": network.id}]
        ), wait=None
    )
    for name in ("one", "two")
]
print(json.dumps([[one.id, image.id, one.project_id, one.compute_host] for one in servers]))
"""

BREAK = """
import openstack

cloud = openstack.connect(cloud="whimbrel-admin")
server, other = "{server}", "{other}"
placement = cloud.placement
held = placement.get(f"/allocations/{{server}}", microversion="1.28").json()["allocations"]
assert placement.delete(f"/allocations/{{server}}").status_code == 204
parts = {{one: {{"resources": {{"VCPU": 1}}}} for one in held}}
body = {{"allocations": parts, "project_id": "p", "user_id": "u", "consumer_generation": None}}
assert placement.put("/allocations/{stranger}", json=body, microversion="1.28").status_code == 204
[port] = cloud.network.ports(device_id=server)
body = {{"binding": {{"host": other}}}}
assert cloud.network.post(f"/ports/{{port.id}}/bindings", json=body).status_code == 201
"""


@pytest.fixture
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCloud]:
    with running_cloud(tmp_path_factory.mktemp("cloud")) as running:
        yield running


def whimbrel(cloud: RunningCloud, code: int, *words: str) -> str:
    done = cloud.run("whimbrel", *words)
    assert done.returncode == code, f"whimbrel {' '.join(words)}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def creation(cloud: RunningCloud, server: str) -> RunId:
    """Return the run that made a server: hosts that obey a run without a row would tell of a restored journal."""
    with closing(sqlite3.connect(cloud.home.path / "db" / "global.sqlite")) as journal:
        [(run,)] = journal.execute("SELECT id FROM runs WHERE subject = ? AND saga = 'create'", (server,))
    return RunId(run)


async def start_twice(cloud: RunningCloud, server: str, image: str, project: str, host: str) -> None:
    """Start a second guest of a server, over the bus by which conductors ask hosts, under the run of its creation."""
    key, order = GuestKey(ServerId(server), Slot("by-hand")), Order(creation(cloud, server), 1)
    spec = GuestSpec(
        key=key, name="x", vcpus=1, memory_mib=512, root_gib=1, image_id=image, project_id=ProjectId(project)
    )
    async with httpx.AsyncClient(timeout=HANG_S) as client:
        agents = HttpAgents(cloud.home.running().agents_url("one"), cloud.home.agents_secret(), client)
        agent = agents.at(HostName(host))
        await agent.prepare(order, spec)
        while not (await agent.build_disk(order, spec)).finished:
            pass
        await agent.define(order, spec)
        await agent.start(order, key)


@pytest.mark.long
async def test_what_hands_break_is_named_and_mended(cloud: RunningCloud) -> None:
    servers: list[list[str]] = json.loads(cloud.python(SET_UP))
    assert "Every invariant holds" in whimbrel(cloud, 0, "prove")
    assert "nothing to repair" in whimbrel(cloud, 0, "repair", "--dry-run")
    (one, image, project, host), *_ = servers
    elsewhere = next(name for name in ("n1", "n2", "s1", "s2") if name != host)
    cloud.python(BREAK.format(server=one, other=elsewhere, stranger=STRANGER))
    await start_twice(cloud, one, image, project, elsewhere)

    proof: Any = json.loads(whimbrel(cloud, 1, "prove", "--json"))["proof"]
    kinds = {(each["kind"], each["subject"]) for each in proof["violations"]}
    wrong = {(kind, one) for kind in ("missing_claim", "stray_binding", "runs_twice", "stray_guest")}
    assert kinds == wrong | {("leaked_claim", STRANGER)}

    told = whimbrel(cloud, 1, "repair", "--dry-run")
    assert f"destroy the guest of server {one} on {elsewhere}: its guest on {host} is as recorded" in told
    refused = cloud.run("whimbrel", "repair")
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    assert whimbrel(cloud, 1, "prove").count("I1") > 1  # nothing was done yet

    done = whimbrel(cloud, 0, "repair", "--yes")
    assert done.count("repaired ") == 2
    assert "Every invariant holds" in done
    assert "Every invariant holds" in whimbrel(cloud, 0, "prove")
