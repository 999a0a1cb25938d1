"""How a host joins: by a real request, over TLS, to the compute API itself."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest
import uvicorn

from tests.api.front import POLICY, Tokens, mounted
from whimbrel.adapters.bus.account_keys import AccountKeys
from whimbrel.adapters.bus.bus_servers import BusServers
from whimbrel.adapters.bus.nats_keys import public_key, read_claims
from whimbrel.adapters.private_ca import PrivateCa
from whimbrel.adapters.sql.global_.bus_accounts import SqlBusAccounts
from whimbrel.api.app import compute_app
from whimbrel.api.http.context import Context, PublicUrl
from whimbrel.bootstrap.cloud_bus import CloudBus
from whimbrel.cli.agent_join import join
from whimbrel.domain.errors import Invalid, NotFound, Refused, Unavailable
from whimbrel.domain.ids import CellName, HostName
from whimbrel.domain.join_token import JoinToken
from whimbrel.hosts import admission
from whimbrel.settings.agentdir import AgentDir
from whimbrel.sim.cloud.cloud import World

NEW, CELL = HostName("n17"), CellName("c1")


class Cloud(NamedTuple):
    world: World
    url: str  # of the compute API
    ca: PublicUrl

    async def token(self, **changed: str) -> str:
        """Invite the host; return its token. changed: parts of the token that are others than the cloud's."""
        invited = await admission.invite(self.world.cloud, NEW, CELL)
        parts = {"url": self.url, "secret": invited.secret, "ca_sha256": self.ca.ca_sha256, **changed}
        return str(JoinToken(host=NEW, cell=CELL, **parts))


@asynccontextmanager
async def serving(directory: Path, *, tls: bool = True) -> AsyncIterator[Cloud]:
    """Serve the compute API of a cloud on a free port of this machine."""
    world, files = await World.build(cells={CELL: ("h1",)}), PrivateCa(directory / "pki")
    files.create("a test", 30, datetime.now(UTC))
    files.issue("api", ["127.0.0.1"], "server", 1, datetime.now(UTC))
    public = PublicUrl(ca_pem=(files.directory / "ca.crt").read_text() if tls else "")
    keys = AccountKeys(SqlBusAccounts(world.remains.databases["global"]), world.cloud.clock)
    bus = CloudBus(BusServers(urls=("tls://bus:4222",), ca_file=files.directory / "ca.crt"), keys, "a test", dict)
    context = Context(world.cloud, world.engine("api"), Tokens(), POLICY, bus=bus, public=public)
    certificate = {"ssl_certfile": files.directory / "api.crt", "ssl_keyfile": files.directory / "api.key"}
    config = uvicorn.Config(
        mounted(compute_app(context)), log_level="critical", lifespan="off", **(certificate if tls else {})
    )
    server = uvicorn.Server(config)
    endpoint = socket.create_server(("127.0.0.1", 0))  # it listens: who connects waits until it serves
    running = asyncio.create_task(server.serve(sockets=[endpoint]))
    yield Cloud(world, f"http{'s' if tls else ''}://127.0.0.1:{endpoint.getsockname()[1]}/compute/v2.1", public)
    server.should_exit = True
    await running
    await world.close()


async def joined(token: str | None, directory: Path, **more: object) -> None:
    call: Callable[..., None] = join
    await asyncio.to_thread(call, token, dir=directory, **more)


async def test_a_host_joins_over_tls_with_a_key_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = AgentDir(tmp_path / "agent")
    async with serving(tmp_path) as cloud:
        await joined(await cloud.token(), home.path)
        key = await cloud.world.cloud.host_keys.get(NEW)
    assert f"whimbrel agent --dir {home.path}" in capsys.readouterr().out
    membership = home.membership()
    assert (membership.host, membership.cell, membership.bus_urls) == (NEW, CELL, ("tls://bus:4222",))
    assert public_key(home.seed().decode()) == key.public_key == read_claims(membership.jwt).sub
    assert home.ca_file is not None
    assert home.ca_file.read_text() == cloud.ca.ca_pem


async def test_a_host_can_use_a_bus_server_near_it(tmp_path: Path) -> None:
    home = AgentDir(tmp_path / "agent")
    async with serving(tmp_path) as cloud:
        token = await cloud.token()
        with pytest.raises(Invalid, match="without TLS"):
            await joined(token, home.path, bus=("nats://leaf:4222",))
        await joined(token, home.path, bus=("tls://leaf:4222",))
    assert home.membership().bus_urls == ("tls://leaf:4222",)


async def test_a_used_token_admits_nobody_and_keeps_the_earlier_key(tmp_path: Path) -> None:
    home = AgentDir(tmp_path / "agent")
    async with serving(tmp_path) as cloud:
        token = tmp_path / "token"
        token.write_text(await cloud.token() + "\n")
        await joined(None, home.path, token_file=token)
        before = home.seed(), home.membership()
        with pytest.raises(Refused, match="whimbrel host invite n17"):
            await joined(None, home.path, token_file=token)
        assert (home.seed(), home.membership()) == before


async def test_the_secret_goes_to_the_cloud_of_the_token_only(tmp_path: Path) -> None:
    home = AgentDir(tmp_path / "agent")
    async with serving(tmp_path) as cloud:
        with pytest.raises(Refused, match="not the cloud of this token"):
            await joined(await cloud.token(ca_sha256="0" * 64), home.path)
        with pytest.raises(Unavailable, match="certificate"):
            await joined(await cloud.token(ca_sha256=""), home.path)  # the system does not trust it
        [invitation] = await cloud.world.cloud.host_keys.invitations(NEW)
        assert invitation.used_at is None
    with pytest.raises(NotFound):
        home.membership()
    with pytest.raises(Unavailable, match="does not answer"):
        await joined(str(JoinToken(url=cloud.url, host=NEW, cell=CELL, secret="x")), home.path)


async def test_plain_http_is_for_this_machine_or_on_demand(tmp_path: Path) -> None:
    home = AgentDir(tmp_path / "agent")
    async with serving(tmp_path, tls=False) as cloud:
        elsewhere = await cloud.token(url="http://192.0.2.1:9/compute/v2.1")
        with pytest.raises(Invalid, match="--insecure"):
            await joined(elsewhere, home.path)
        assert not home.path.exists()
        await joined(await cloud.token(), home.path)
        assert home.membership().host == NEW


@pytest.mark.parametrize("words", ["", "whimbrel1.", "whimbrel1.x", "a.b.c", "whimbrel1.W10"])
def test_half_a_token_is_refused(words: str, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="copy the whole word"):
        join(words, dir=tmp_path / "agent")
    with pytest.raises(Invalid, match="--token-file"):
        join(None, dir=tmp_path / "agent")
    with pytest.raises(Invalid, match="cannot be read"):
        join(None, token_file=tmp_path / "none", dir=tmp_path / "agent")
