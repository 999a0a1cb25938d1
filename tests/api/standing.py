"""A cloud with one of everything, of which each test has a copy: servers in many states, and ids that exist."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import cache
from typing import Any

import httpx

from tests.api.devices import network, port, volume
from tests.api.front import POLICY, PROJECT, Front, Tokens, mounted
from tests.api.test_remote_consoles import token_of
from whimbrel.api.app import compute_app
from whimbrel.api.http.context import Context
from whimbrel.ports.cloud import Rules
from whimbrel.ports.services.images import Image
from whimbrel.sim.checks.invariants import Invariants
from whimbrel.sim.cloud.cloud import IMAGE, World

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJGp3ThOBYOgXBMdMfBGfxgmrmCxWTnLHgdD6jd2JZnS me@home"
OTHER_IMAGE = "33333333-3333-4333-8333-333333333336"
ROOMY = Rules(cpu_allocation_ratio=16.0, ram_allocation_ratio=16.0, disk_allocation_ratio=16.0)
UNLIMITED = {"quota_set": dict.fromkeys(("instances", "cores", "ram"), -1)}
BROUGHT_BY: dict[str, dict[str, Any]] = {
    "resized": {"resize": {"flavorRef": "2"}},
    "broken": {"os-resetState": {"state": "error"}},
    "stopped": {"os-stop": None},
    "paused": {"pause": None},
    "suspended": {"suspend": None},
    "shelved": {"shelve": None},
    "rescued": {"rescue": None},
    "locked": {"lock": None},
}
"""The servers beside those that run, and the action that brings each into its state."""


async def _contents() -> AsyncIterator[bytes]:
    yield b"image"


class Standing:
    """A copy of such a cloud, or the first.

    known: ids by the name of the parameter of a path, or by the part before it and its name.
    """

    def __init__(self, world: World, known: dict[str, list[str]]) -> None:
        self.loop = asyncio.new_event_loop()
        self.known = known
        self.world = world
        self.engine = world.engine("api")
        context = Context(cloud=world.cloud, engine=self.engine, identity=Tokens(), policy=POLICY)
        transport = httpx.ASGITransport(mounted(compute_app(context)))
        self.client = httpx.AsyncClient(transport=transport, base_url="http://cloud:8774")
        self.front = Front(world, self.engine, self.client)

    async def furnish(self) -> None:
        front = self.front
        await front.ask("PUT", f"/os-quota-sets/{PROJECT}", UNLIMITED, who="admin")
        image = Image(id=OTHER_IMAGE, name="i", status="queued", disk_format="raw", size_bytes=0, checksum=None,
                      visibility="private", owner=PROJECT)  # fmt: skip
        await self.world.images.create(image)
        await self.world.images.write(OTHER_IMAGE, _contents())
        a = network(front)
        network(front, "public", "192.0.2.0/24", is_external=True)
        attached, free, bootable = volume(front), volume(front), volume(front, is_bootable=True)
        group = {"server_group": {"name": "g", "policy": "soft-affinity"}}
        group_id = (await front.ask("POST", "/os-server-groups", group)).json()["server_group"]["id"]
        root = {"uuid": bootable, "source_type": "volume", "destination_type": "volume", "boot_index": 0}
        runs = await front.boot("runs", networks=[{"uuid": a}])
        on_volume = await front.boot("on a volume", imageRef="", block_device_mapping_v2=[root])
        servers = [runs, on_volume, *[await self._brought(name) for name in BROUGHT_BY]]
        body = {"volumeAttachment": {"volumeId": attached}}
        await front.ask("POST", f"/servers/{runs}/os-volume_attachments", body)
        await front.ask("POST", f"/servers/{runs}/metadata", {"metadata": {"k": "v"}})
        await front.ask("PUT", f"/servers/{runs}/tags", {"tags": ["t"]})
        for who in ("member", "admin"):
            await front.ask("POST", "/os-keypairs", {"keypair": {"name": "k", "public_key": KEY}}, who=who)
        maintenance = await self._made("/whimbrel/maintenances", {"maintenance": {"hosts": ["h3"]}}, minor=104)
        snapshot = await self._made("/os-snapshots", {"snapshot": {"volume_id": free}})
        floating_ip = await self._made("/os-floating-ips", {"pool": "public"})
        security_group = await self._made("/os-security-groups", {"security_group": {"name": "s", "description": ""}})
        consoles = {"remote_console": {"protocol": "vnc", "type": "novnc"}}
        console = (await front.ask("POST", f"/servers/{runs}/remote-consoles", consoles)).json()["remote_console"]
        await front.ask("POST", "/flavors/1/os-extra_specs", {"extra_specs": {"k": "v"}}, who="admin")
        await front.ask("POST", "/os-aggregates", {"aggregate": {"name": "a"}}, who="admin")
        await front.settle()
        [nic] = (await front.get(f"/servers/{runs}/os-interface"))["interfaceAttachments"]
        actions = (await front.get(f"/servers/{servers[2]}/os-instance-actions"))["instanceActions"]
        self.known = {
            "server_id": servers,
            "flavor_id": ["1", "2"],
            "image_id": [IMAGE, OTHER_IMAGE],
            "volume_id": [attached, free],
            "network_id": [a],
            "port_id": [nic["port_id"], port(front, a).id],
            "group_id": [group_id],
            "aggregate_id": ["1"],
            "migration_id": ["1"],
            "project_id": [PROJECT],
            "host": ["h1", "h2", "h3"],
            "zone_id": ["nova"],
            "name": ["k", "default", "h1", "c1", "s"],
            "key": ["k"],
            "label": ["private"],
            "alias": ["os-keypairs"],
            "before": ["2026-01-01 00:00:00"],
            "binary": ["nova-compute"],
            "token": [token_of(console["url"])],
            "maintenance_id": [maintenance],
            "snapshot_id": [snapshot],
            "os-floating-ips/id": [floating_ip],
            "os-security-groups/id": [security_group],
            "tag": ["t"],
            "hypervisor_id": await self._ids("/os-hypervisors"),
            "service_id": await self._ids("/os-services"),
            "move_id": await self._ids("/whimbrel/moves"),
            "request_id": [each["request_id"] for each in actions],
        }

    async def _made(self, path: str, body: Any, minor: int = 1) -> str:
        answer = await self.front.ask("POST", path, body, who="admin", minor=minor)
        [shown] = answer.json().values()
        return str(shown["id"])

    async def _brought(self, name: str) -> str:
        """Boot a server and bring it into a state."""
        server = await self.front.boot(name)
        await self.front.act(server, BROUGHT_BY[name], who="admin")
        await self.front.settle()
        return server

    async def _ids(self, path: str) -> list[str]:
        [found] = (await self.front.get(path, who="admin")).values()
        return [str(each["id"]) for each in found]

    async def close(self) -> None:
        """Finish all open runs, and check all invariants."""
        await self.world.settle(self.engine)
        await Invariants(self.world).check()
        await self.client.aclose()
        await self.world.close()


@cache
def furnished() -> Standing:
    """Return the one of which each test has a copy."""
    standing = Standing(asyncio.run(World.build(rules=ROOMY)), {})
    standing.loop.run_until_complete(standing.furnish())
    return standing


def copied() -> Iterator[Standing]:
    """Yield a copy, and close it afterwards."""
    first = furnished()
    standing = Standing(asyncio.run(first.world.copy()), first.known)
    yield standing
    standing.loop.run_until_complete(standing.close())
    standing.loop.close()
