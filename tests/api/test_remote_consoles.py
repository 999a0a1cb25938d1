"""Addresses of consoles: which there are, at which version, for which servers; and who may look a token up."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.api.front import OTHER_PROJECT, Front, fault
from whimbrel.api.http.context import ConsoleProxy

VNC = {"protocol": "vnc", "type": "novnc"}
PROXY = ConsoleProxy("https://console.example.org/console", 60.0)
HIGHEST_PORT = 65535


async def remote(front: Front, server: str, minor: int = 104, who: str = "member", **console: str) -> Any:
    body = {"remote_console": console}
    return await front.ask("POST", f"/servers/{server}/remote-consoles", body, minor=minor, who=who)


def token_of(url: str) -> str:
    query = parse_qs(urlsplit(url).query)
    [token] = query.get("token") or parse_qs(query["path"][0].partition("?")[2])["token"]
    return token


@pytest.mark.cloud(console_proxy=PROXY)
async def test_an_address_has_a_token_of_its_own(front: Front) -> None:
    server = await front.boot()
    answers = [await remote(front, server, **VNC) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    shown = [answer.json()["remote_console"] for answer in answers]
    assert all(each == {**VNC, "url": each["url"]} for each in shown)
    assert all(each["url"].startswith(f"{PROXY.url}/vnc_lite.html?path=console%2F%3Ftoken%3D") for each in shown)
    assert token_of(shown[0]["url"]) != token_of(shown[1]["url"])
    serial = (await remote(front, server, protocol="serial", type="serial")).json()["remote_console"]["url"]
    assert serial.startswith("wss://console.example.org/console/?token=")


@pytest.mark.cloud(console_proxy=ConsoleProxy("https://console.example.org", 60.0))
async def test_the_address_of_a_proxy_without_a_path_is_as_in_nova(front: Front) -> None:
    url = (await remote(front, await front.boot(), **VNC)).json()["remote_console"]["url"]
    assert url.startswith("https://console.example.org/vnc_lite.html?path=%3Ftoken%3D")


@pytest.mark.parametrize(
    ("console", "sentence"),
    [
        ({"protocol": "vnc", "type": "xvpvnc"}, "Invalid console type xvpvnc"),
        ({"protocol": "serial", "type": "novnc"}, "Invalid console type novnc"),
        ({"protocol": "spice", "type": "spice-html5"}, "Unavailable console type spice-html5."),
        ({"protocol": "spice", "type": "spice-direct"}, "Unavailable console type spice-direct."),
        ({"protocol": "rdp", "type": "rdp-html5"}, "Unavailable console type rdp-html5."),
        ({"protocol": "mks", "type": "webmks"}, "Unavailable console type webmks."),
    ],
)
async def test_other_consoles_are_refused_by_name(front: Front, console: dict[str, str], sentence: str) -> None:
    server = await front.boot()
    assert fault(await remote(front, server, **console), "badRequest", 400) == sentence


async def test_versions_have_their_consoles(front: Front) -> None:
    server = await front.boot()
    fault(await remote(front, server, minor=5, **VNC), "itemNotFound", 404)
    for minor, console in ((7, ("mks", "webmks")), (98, ("spice", "spice-direct")), (104, ("vnc", "other"))):
        answer = await remote(front, server, minor=minor, protocol=console[0], type=console[1])
        assert fault(answer, "badRequest", 400).startswith("Invalid input")


async def test_old_clients_ask_by_actions(front: Front) -> None:
    server = await front.boot()
    for action, console in (("os-getVNCConsole", "novnc"), ("os-getSerialConsole", "serial")):
        answer = await front.act(server, {action: {"type": console}}, minor=5)
        assert answer.status_code == 200, answer.text
        assert answer.json()["console"]["type"] == console
        assert token_of(answer.json()["console"]["url"])
    refused = await front.act(server, {"os-getSPICEConsole": {"type": "spice-html5"}}, minor=1)
    assert fault(refused, "badRequest", 400) == "Unavailable console type spice-html5."
    fault(await front.act(server, {"os-getRDPConsole": {"type": "rdp-html5"}}, minor=1), "badRequest", 400)


async def test_a_server_that_does_not_run_has_no_console(front: Front) -> None:
    server = await front.boot()
    await front.act(server, {"os-stop": None})
    await front.settle()
    assert fault(await remote(front, server, **VNC), "conflictingRequest", 409) == f"Instance {server} is not ready"
    fault(await remote(front, "4f1b0000-0000-4000-8000-000000000000", **VNC), "itemNotFound", 404)


async def test_consoles_are_for_members_of_the_project(front: Front) -> None:
    server = await front.boot()
    fault(await remote(front, server, who=f"member@{OTHER_PROJECT}", **VNC), "itemNotFound", 404)
    fault(await remote(front, server, who="reader", **VNC), "forbidden", 403)
    old = await front.act(server, {"os-getVNCConsole": {"type": "novnc"}}, minor=1, who="reader")
    fault(old, "forbidden", 403)
    assert (await remote(front, server, who="admin", **VNC)).status_code == 200


async def test_an_administrator_looks_a_token_up(front: Front) -> None:
    server = await front.boot()
    token = token_of((await remote(front, server, **VNC)).json()["remote_console"]["url"])
    at = f"/os-console-auth-tokens/{token}"
    fault(await front.ask("GET", at), "forbidden", 403)
    fault(await front.ask("GET", at, who="admin", minor=30), "unauthorized", 401)
    shown = (await front.ask("GET", at, who="admin", minor=31)).json()["console"]
    assert shown["instance_uuid"] == server
    assert 0 < shown["port"] <= HIGHEST_PORT
    assert set(shown) == {"instance_uuid", "host", "port", "internal_access_path"}
    assert (await front.ask("GET", at, who="admin", minor=99)).json()["console"]["tls_port"] is None
    for minor, status in ((98, 200), (99, 400)):
        assert (await front.ask("GET", f"{at}?x=1", who="admin", minor=minor)).status_code == status
    missing = await front.ask("GET", "/os-console-auth-tokens/none", who="admin")
    assert fault(missing, "itemNotFound", 404) == "Token not found"


async def test_a_token_dies_with_a_move_and_with_its_server(front: Front) -> None:
    server = await front.boot()
    at = "/os-console-auth-tokens/" + token_of((await remote(front, server, **VNC)).json()["remote_console"]["url"])
    assert (await front.ask("GET", at, who="admin")).status_code == 200
    await front.act(server, {"migrate": None}, who="admin")
    await front.settle()
    fault(await front.ask("GET", at, who="admin"), "itemNotFound", 404)
    await front.ask("DELETE", f"/servers/{server}")
    await front.settle()
    fault(await front.ask("GET", at, who="admin"), "itemNotFound", 404)


@pytest.mark.cloud(console_proxy=ConsoleProxy(token_lifetime_s=60.0))
async def test_a_token_expires(front: Front) -> None:
    server = await front.boot()
    at = "/os-console-auth-tokens/" + token_of((await remote(front, server, **VNC)).json()["remote_console"]["url"])
    front.world.cloud.clock.advance(61.0)
    fault(await front.ask("GET", at, who="admin"), "itemNotFound", 404)
