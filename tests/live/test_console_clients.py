"""The unmodified client asks for consoles, and Chromium shows the screen of a simulated and of a real guest."""

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

from tests.contracts.hypervisors import LibvirtPair, libvirt_hosts, libvirt_pair  # noqa: F401
from tests.live.browser import Screen, browser
from tests.live.running_cloud import RunningCloud, running_cloud
from tests.live.test_libvirt_cloud import HOST, end_storage_daemon
from tests.processes import HANG_S
from whimbrel.sim.world.screen import HEIGHT, INK, PAPER, WIDTH, Picture

pytestmark = pytest.mark.long

FEW = 0.005
"""The share of pixels that may differ between two pictures of a text screen: its cursor blinks."""
BRIGHT = 128
LIT = 1000
"""Bright pixels of a screen with a few words."""


def url(cloud: RunningCloud, kind: str) -> str:
    shown: str = cloud.openstack("console", "url", "show", f"--{kind}", "one")["url"]
    return shown


def serial_console(cloud: RunningCloud) -> ClientConnection:
    return connect(
        url(cloud, "serial"),
        subprotocols=["binary"],  # type: ignore[list-item]
        open_timeout=HANG_S,
        ping_interval=None,
    )


def boot(cloud: RunningCloud) -> None:
    flavor = ("flavor", "create", "--vcpus", "1", "--ram", "64", "--disk", "1", "tiny")
    cloud.say(*flavor, cloud="whimbrel-admin")
    create = ("server", "create", "--image", "tick", "--flavor", "tiny", "--no-network", "--wait", "one")
    assert cloud.openstack(*create)["status"] == "ACTIVE"


def test_a_simulated_guest_says_what_it_is(tmp_path: Path) -> None:
    with running_cloud(tmp_path) as cloud, browser(tmp_path) as chromium:
        boot(cloud)
        with serial_console(cloud) as serial:
            lines = _heard(serial, b"made of").decode().splitlines()[:4]
        assert lines[0] == "simulated guest one"
        refused = f"new Promise(end => new WebSocket('{url(cloud, 'serial')}').onerror = () => end('refused'))"
        assert chromium.evaluate(refused) == "refused"  # of a page from elsewhere
        chromium.open(url(cloud, "novnc"))
        chromium.wait_for_state("connected")
        drawn = Screen(WIDTH, HEIGHT, Picture(lines).pixels(bytes(PAPER), bytes(INK)))
        chromium.wait_for_screen(lambda shown: shown == drawn)
        assert chromium.evaluate("document.title") == "one (simulated)"
        cloud.say("server", "stop", "one")
        chromium.wait_for_state("ended")
        assert "409" in cloud.refusal("console", "url", "show", "--novnc", "one")
        assert "Unavailable console type" in cloud.refusal("console", "url", "show", "--spice", "one")
        assert "boot 1" in cloud.say("console", "log", "show", "one")


def test_the_serial_line_is_a_terminal_in_a_browser(tmp_path: Path) -> None:
    with running_cloud(tmp_path) as cloud, browser(tmp_path) as chromium:
        boot(cloud)
        chromium.open(url(cloud, "serial").replace("ws", "http", 1))
        chromium.wait_for_state("connected")
        chromium.wait_for_text(".xterm-rows", "simulated guest one")
        chromium.call("Input.insertText", text="typed here")
        enter = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13}
        chromium.call("Input.dispatchKeyEvent", type="keyDown", text="\r", **enter)
        chromium.wait_for_text(".xterm-rows", "typed here")
        cloud.say("server", "stop", "one")
        chromium.wait_for_state("ended")


@contextmanager
def real_cloud(pair: LibvirtPair) -> Iterator[RunningCloud]:
    directory = pair.hosts.daemons["a"].directory / f"cloud-{uuid.uuid4().hex[:8]}"
    directory.mkdir()
    host = HOST.format(name="a", uri=pair.hosts.daemons["a"].uri, directory=pair.directory("a"))
    try:
        with running_cloud(directory, hosts=host) as running:
            yield running
    finally:
        asyncio.run(end_storage_daemon(directory))


def screenshot(pair: LibvirtPair) -> bytes:
    """Return the screen of the only guest of host a as an image file, as QEMU dumps it."""
    with pair.hosts.connection("a") as libvirtd:
        stream, parts = libvirtd.newStream(), list[bytes]()
        libvirtd.listAllDomains()[0].screenshot(stream, 0)
        stream.recvAll(lambda _stream, data, _opaque: parts.append(data), None)
        stream.finish()
    return b"".join(parts)


def is_nearly(one: Screen, other: Screen) -> bool:
    if one[:2] != other[:2]:
        return False
    return sum(a != b for a, b in zip(one.rgb, other.rgb, strict=True)) < FEW * len(one.rgb)


def test_a_real_guest_shows_its_screen(libvirt_pair: LibvirtPair, tmp_path: Path) -> None:  # noqa: F811
    with real_cloud(libvirt_pair) as cloud, browser(tmp_path) as chromium:
        boot(cloud)
        with serial_console(cloud) as serial:
            _heard(serial, b"tick")
        chromium.open(url(cloud, "novnc"))
        chromium.wait_for_state("connected")
        drawn = chromium.read_png(screenshot(libvirt_pair))
        assert sum(value > BRIGHT for value in drawn.rgb) > LIT
        chromium.wait_for_screen(lambda shown: is_nearly(shown, drawn))
        assert "tick" in cloud.say("console", "log", "show", "one")


def _heard(serial: Any, wanted: bytes) -> bytes:
    heard = b""
    while wanted not in heard:
        heard += serial.recv(HANG_S)
    return heard
