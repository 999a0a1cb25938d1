"""The contract of guest metadata for every control plane: a host learns about the guests on it, and about no other."""

import json
from typing import Any

import msgspec
import pytest

from tests.booting import boot_server
from tests.contracts.control_planes import CELL, Agents, Open, join, open_control
from tests.unit.hosts.descriptions import NEW
from whimbrel.domain.errors import Refused
from whimbrel.domain.ids import ServerId
from whimbrel.domain.server import Server

__all__ = ["open_control"]

PASSWORD = "openstack/latest/password"


async def a_guest(agents: Agents, **fields: Any) -> Server:
    """Return a server with a guest on the host NEW."""
    world = agents.world
    await join(world)
    engine = world.engine("conductor")
    server = msgspec.structs.replace(world.new_server("web"), **fields)
    await boot_server(world, engine, server)
    servers = world.cloud.cell(CELL).servers
    return await servers.change(await servers.get(server.id), {"host": NEW})


async def test_a_guest_reads_its_metadata(open_control: Open) -> None:
    async with open_control() as agents:
        server = await a_guest(agents, metadata={"role": "web"}, user_data="IyEvYmluL3NoCg==")
        told = await agents.control.guest_metadata(NEW, server.id, "/openstack/latest/meta_data.json")
        assert (told.status, told.content_type) == (200, "application/json")
        shown = json.loads(told.body)
        assert (shown["uuid"], shown["meta"], shown["hostname"]) == (server.id, {"role": "web"}, "web.novalocal")
        assert "admin_pass" not in shown
        user_data = await agents.control.guest_metadata(NEW, server.id, "2009-04-04/user-data")
        assert user_data.body == b"#!/bin/sh\n"
        assert (await agents.control.guest_metadata(NEW, server.id, "/openstack/latest/other")).status == 404


async def test_changed_metadata_is_seen_at_once(open_control: Open) -> None:
    async with open_control() as agents:
        server = await a_guest(agents)
        await agents.world.cloud.cell(CELL).servers.change(server, {"metadata": {"role": "db"}})
        told = await agents.control.guest_metadata(NEW, server.id, "/openstack/latest/meta_data.json")
        assert json.loads(told.body)["meta"] == {"role": "db"}


async def test_a_guest_posts_its_password_once(open_control: Open) -> None:
    async with open_control() as agents:
        control, server = agents.control, await a_guest(agents)
        assert (await control.guest_metadata(NEW, server.id, PASSWORD)).body == b""
        assert (await control.guest_metadata(NEW, server.id, PASSWORD, "POST", b"x" * 1021)).status == 400
        assert (await control.guest_metadata(NEW, server.id, PASSWORD, "PUT", b"x")).status == 400
        assert (await control.guest_metadata(NEW, server.id, PASSWORD, "POST", b"\xff")).status == 400
        assert (await control.guest_metadata(NEW, server.id, PASSWORD, "POST", b"secret")).status == 200
        assert (await control.guest_metadata(NEW, server.id, PASSWORD)).body == b"secret"
        assert (await control.guest_metadata(NEW, server.id, PASSWORD, "POST", b"another")).status == 409


async def test_a_host_is_told_about_its_own_guests_only(open_control: Open) -> None:
    async with open_control() as agents:
        server = await a_guest(agents)
        await agents.world.cloud.cell(CELL).servers.change(server, {"host": "h1"})
        with pytest.raises(Refused, match="is not on host n17"):
            await agents.control.guest_metadata(NEW, server.id, PASSWORD)
        with pytest.raises(Refused):
            await agents.control.guest_metadata(NEW, ServerId("unknown"), PASSWORD)
        await agents.world.cloud.host_keys.retire(NEW, agents.world.cloud.clock.now())
        with pytest.raises(Refused, match="was retired"):
            await agents.control.guest_metadata(NEW, server.id, PASSWORD)
