"""`whimbrel bus`: a server that runs by the configuration that it wrote, and what it shows of it."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.nats_servers import NatsServer, free_ports
from whimbrel.adapters.bus.account_keys import AccountKeys, agent_logins
from whimbrel.adapters.bus.bus_servers import BusServers
from whimbrel.adapters.bus.bus_view import BusView
from whimbrel.adapters.bus.nats_connection import BusConnection
from whimbrel.adapters.bus.nats_keys import check_user_key, new_key
from whimbrel.adapters.bus.server_configuration import Hub, ServerOptions
from whimbrel.adapters.clock import SystemClock
from whimbrel.adapters.sql.engine.databases import Databases
from whimbrel.adapters.sql.global_.bus_accounts import SqlBusAccounts
from whimbrel.adapters.sql.global_.cells import SqlCells
from whimbrel.bootstrap.bus_administration import make_configuration, make_leaf, push, revoke_leaf, show
from whimbrel.bootstrap.process_base import prepare_stores
from whimbrel.cli import main
from whimbrel.domain.errors import Invalid, NotFound, Refused, Unavailable
from whimbrel.domain.ids import CellName, HostName
from whimbrel.ports.stores.cells import CellInfo
from whimbrel.settings.sections import BusTable

C1, H1 = CellName("c1"), HostName("rack-1.h1")


def run(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words)])
    written = capsys.readouterr()
    assert ended.value.code == 0, written.err
    return written.out


async def add_cell(url: str) -> None:
    database = Databases().open(url, "global")
    await SqlCells(database).add(CellInfo(name=C1))
    await database.close()


async def shown_with_an_agent(url: str, settings: BusTable) -> BusView:
    database = Databases().open(url, "global")
    keys, key = AccountKeys(SqlBusAccounts(database), SystemClock()), new_key("user")
    claims = await keys.agent_claims(C1, H1, key.public)
    servers = BusServers(urls=settings.urls)
    async with BusConnection(servers, agent_logins(H1, lambda: key.seed, lambda: claims), "another name") as agent:
        await agent.connected()
        view = await show(url, settings)
    await database.close()
    [there] = [each for each in view.connections if each.host]
    assert (there.host, there.account, there.public_key) == (H1, "cell/c1", key.public)
    return view


def test_a_server_runs_by_its_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url, [port] = f"sqlite:///{tmp_path / 'db'}", free_ports(1)
    prepare_stores(url)
    (tmp_path / "url").write_text(url)
    settings = tmp_path / "whimbrel.toml"
    settings.write_text(f'[database]\nurl_file = "url"\n[bus]\nurls = ["nats://127.0.0.1:{port}"]\n')
    of_cloud = ("--settings", settings)
    server = NatsServer(tmp_path, 0, port)
    where = ("--listen", f"127.0.0.1:{port}", "--directory", tmp_path / "accounts")
    assert "nats-server -c" in run(capsys, "bus", "init", *of_cloud, *where, "--output", tmp_path / "nats0.conf")
    text = (tmp_path / "nats0.conf").read_text()
    assert run(capsys, "bus", "init", *of_cloud, *where) == text
    server.start()
    try:
        asyncio.run(server.until_ready())
        asyncio.run(add_cell(url))
        shown = msgspec.json.decode(run(capsys, "bus", "show", *of_cloud, "--json"), type=BusView)
        assert {each.name: each.is_stored for each in shown.accounts} == {
            "SYS": True,
            "cell/c1": False,
            "control": True,
        }
        assert run(capsys, "bus", "push", *of_cloud) == "Stored: cell/c1.\n"
        assert "all accounts already" in run(capsys, "bus", "push", *of_cloud)
        view = asyncio.run(shown_with_an_agent(url, BusTable(urls=(f"nats://127.0.0.1:{port}",))))
        assert [(each.name, each.is_stored) for each in view.accounts][1] == ("cell/c1", True)
        assert [each.version.split(".")[0] for each in view.servers] == ["2"]
        assert "cell/c1" in run(capsys, "bus", "show", *of_cloud)
    finally:
        server.kill()


def test_a_leaf_server_gets_a_directory_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url, directory = f"sqlite:///{tmp_path / 'db'}", tmp_path / "leaf"
    prepare_stores(url)
    asyncio.run(add_cell(url))
    settings = tmp_path / "whimbrel.toml"
    settings.write_text(f'[database]\nurl = "{url}"\n')
    words = ("bus", "leaf", directory, "--settings", settings, "--name", "l1", "--hub", "hub.example:7422", "--cell")
    assert "nats-server -c /etc/nats/nats-server.conf" in run(capsys, *words, "c1")
    text = (directory / "nats-server.conf").read_text()
    assert 'urls: ["tls://hub.example:7422"]' in text
    assert 'credentials: "/etc/nats/cell-c1.creds"' in text
    assert sorted(file.name for file in directory.iterdir()) == ["SYS.creds", "cell-c1.creds", "nats-server.conf"]
    assert {file.stat().st_mode & 0o777 for file in directory.iterdir()} == {0o600}
    assert (directory / "SYS.creds").read_text().split("SEED-----\n")[1].split()[0] not in text


@pytest.mark.parametrize(
    "text",
    ["leaf-paris", "", new_key("account").public, "U" * 56],
    ids=["a name", "nothing", "an account", "no checksum"],
)
async def test_what_is_no_key_is_not_revoked(tmp_path: Path, text: str) -> None:
    with pytest.raises(Invalid, match="is no public key of NATS"):
        await revoke_leaf(f"sqlite:///{tmp_path}", BusTable(), text)
    check_user_key(new_key("user").public)


async def test_a_leaf_server_is_of_cells_that_exist(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}"
    prepare_stores(url)
    with pytest.raises(NotFound, match="there is no cell far"):
        await make_leaf(url, ServerOptions(name="l1"), Hub(addresses=("hub:7422",), cells=(CellName("far"),)))


async def test_what_is_missing_is_said(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}"
    with pytest.raises(Refused, match="whimbrel db upgrade"):
        await make_configuration(url, ServerOptions())
    prepare_stores(url)
    with pytest.raises(Invalid, match=r"'urls' in \[bus\]"):
        await push(url, BusTable())


WITH_TLS = {"certificate": Path("nats.crt"), "key": Path("nats.key")}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"listen": "0.0.0.0:4222"}, "others on the network could read"),
        ({"listen": "[::]:4222"}, "others on the network could read"),
        ({"certificate": Path("nats.crt")}, "needs its key"),
        ({"leaf_listen": "10.0.0.1:7422"}, "others on the network could read"),
        ({"cluster_listen": "10.0.0.1:6222"}, "any server could join"),
        ({"cluster_listen": "10.0.0.1:6222", **WITH_TLS}, "any server could join"),
    ],
)
def test_a_configuration_that_lets_others_in_is_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        ServerOptions(**options)  # type: ignore[arg-type]
    ServerOptions(**{**options, **WITH_TLS, "ca": Path("ca.crt")})  # type: ignore[arg-type]


async def test_a_cluster_checks_its_servers(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}"
    prepare_stores(url)
    options = ServerOptions(
        **WITH_TLS,
        ca=Path("ca.crt"),
        listen="0.0.0.0:4222",
        cluster_listen="0.0.0.0:6222",
        routes=("nats-route://n2:6222",),
    )
    text = await make_configuration(url, options)
    assert 'routes: ["nats-route://n2:6222"]\n  tls: {' in text
    assert "seed" not in text.lower()


async def test_a_server_that_does_not_answer_is_said(tmp_path: Path) -> None:
    url, [port] = f"sqlite:///{tmp_path}", free_ports(1)
    prepare_stores(url)
    with pytest.raises(Unavailable, match=f"no connection to the bus at nats://127.0.0.1:{port}"):
        await show(url, BusTable(urls=(f"nats://127.0.0.1:{port}",)))
