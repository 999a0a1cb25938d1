"""Horizon, unmodified, in front of a cloud of this kind, and of one beside a real Keystone: pages, forms and launches.

WHIMBREL_TEST_HORIZON names a virtual environment with what is in tests/openstack/horizon.txt. What Horizon's scripts
would send is sent by the test; that they run, and what they show, is seen in Chromium at the end. The last screenshots
are kept in pytest's directory of the test.
"""

import base64
import html
import json
import os
import re
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.live.browser import Browser, browser
from tests.live.running_cloud import running_cloud
from tests.live.test_external_services import running_beside
from tests.nats_servers import free_ports
from tests.openstack_services import real_services
from tests.processes import HANG_S, execute, wait_for

pytestmark = [pytest.mark.long, pytest.mark.openstack]  # where Horizon is installed

VENV = "WHIMBREL_TEST_HORIZON"
DJANGO = (f"{os.environ.get(VENV)}/bin/python", "-m", "django")
SETTINGS = """
from openstack_dashboard.settings import *
OPENSTACK_KEYSTONE_URL = "{keystone}"
SECRET_KEY = "{key}"
ALLOWED_HOSTS = ["*"]
STATIC_ROOT = "{static}"
COMPRESS_OFFLINE = True
SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
CACHES = {{"default": {{"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}}}
"""
FRAMES = '[consoles]\nallowed_origins = ["127.0.0.1"]\n'
"""Horizon shows consoles in a frame of its pages."""

INSTANCES = "/project/instances/"
PAGES = ("/project/", "/project/images", "/project/key_pairs", "/project/networks/", INSTANCES)
READY = "Quit the server"
UNABLE = re.compile(r"<strong>(?:Error|Danger): </strong>(.*?)</div>", re.DOTALL)


VOLUMES = "/project/volumes/"


@dataclass
class Login:
    """shares_volumes: with other clouds, whose servers Horizon would look for in this one."""

    keystone: str
    user: str
    password: str
    shares_volumes: bool = False


class Horizon:
    """A user's browser without scripts."""

    def __init__(self, url: str, login: Login) -> None:
        self.url = url
        self._client = httpx.Client(base_url=url, follow_redirects=True, timeout=HANG_S)
        words = {"region": "default", "username": login.user, "password": login.password}
        entered = self.send_form("/auth/login/", "/auth/login/", words)
        assert "/auth/login" not in str(entered.url), entered.text

    def page(self, path: str, **query: str) -> str:
        """Return a page that reports no trouble."""
        answer = self._client.get(path, params=query or None)
        assert answer.status_code == httpx.codes.OK, (path, answer.status_code)
        assert not UNABLE.findall(answer.text), path
        return answer.text

    def send_form(self, page: str, path: str, fields: dict[str, str]) -> httpx.Response:
        """Send a form, with what a page has against forged ones."""
        found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', self.page(page))
        assert found, page
        referer = {"Referer": str(self._client.base_url.join(page))}
        answer = self._client.post(path, data={"csrfmiddlewaretoken": found[1], **fields}, headers=referer)
        assert answer.status_code == httpx.codes.OK, (path, answer.status_code)
        assert not UNABLE.findall(answer.text), path
        return answer

    def act(self, action: str, server: str) -> None:
        """Choose an action in the row of a server."""
        name = f"instances__{action}__{server}"
        assert name in self.page(INSTANCES), "the action is offered"
        self.send_form(INSTANCES, INSTANCES, {"action": name})

    def ask(self, path: str, sent: Any = None) -> Any:
        """Ask for what Horizon's scripts ask for."""
        url = self._client.base_url.join(INSTANCES)
        headers = {"X-Requested-With": "XMLHttpRequest", "Referer": str(url)}
        headers["X-CSRFToken"] = self._client.cookies["csrftoken"]
        method = "GET" if sent is None else "POST"
        answer = self._client.request(method, f"/api/{path}", json=sent, headers=headers)
        assert answer.is_success, (path, answer.text)
        return answer.json()

    def find(self, path: str, name: str) -> Any:
        return next(each for each in self.ask(path)["items"] if each["name"] == name)

    def until(self, server: str, status: str) -> None:
        shown = wait_for(
            lambda: self.ask(f"nova/servers/{server}"),
            lambda seen: seen["status"] in (status, "ERROR"),
            f"the server is {status}",
        )
        assert shown["status"] == status, shown


@pytest.fixture(params=["embedded", "real"])
def login(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Login]:
    if request.param == "embedded":
        with running_cloud(tmp_path, settings=FRAMES) as cloud:
            yield Login(f"{cloud.home.running().url}/identity/v3", "demo", cloud.home.passwords()["demo"])
        return
    services = real_services()
    auth = services.cloud("demo").settings["auth"]
    with services.compute_endpoint() as url:
        for _ in running_beside(services, url, tmp_path, FRAMES):
            yield Login(auth["auth_url"], auth["username"], auth["password"], shares_volumes=True)


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of Horizon's styles and scripts, compiled."""
    if VENV not in os.environ:
        pytest.skip(f"{VENV} names no virtual environment with Horizon")
    directory = tmp_path_factory.mktemp("horizon")
    environment = write_settings(directory, "http://127.0.0.1:1/v3", directory / "static")
    for words in (("collectstatic", "--noinput"), ("compress", "--force")):
        done = execute([*DJANGO, *words], environment)
        assert done.returncode == 0, done.stdout + done.stderr
    return directory / "static"


def write_settings(directory: Path, keystone: str, static: Path) -> dict[str, str]:
    """Return the environment of a Horizon with these settings."""
    text = SETTINGS.format(keystone=keystone, key=uuid.uuid4().hex, static=static)
    (directory / "horizon_settings.py").write_text(text)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "PYTHON"))}
    own = {"DJANGO_SETTINGS_MODULE": "horizon_settings", "PYTHONPATH": str(directory), "PYTHONUNBUFFERED": "1"}
    return kept | own


@pytest.fixture
def horizon(login: Login, static: Path, tmp_path: Path) -> Iterator[Horizon]:
    environment = write_settings(tmp_path, login.keystone, static)
    [port] = free_ports(1)
    command = [*DJANGO, "runserver", "--noreload", "--insecure", f"127.0.0.1:{port}"]
    log = tmp_path / "horizon.log"
    with log.open("wb") as said:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment)
    try:
        wait_for(lambda: (server.poll(), log.read_text()), lambda seen: seen[0] is not None or READY in seen[1], READY)
        assert server.poll() is None, log.read_text()
        yield Horizon(f"http://127.0.0.1:{port}", login)
    finally:
        server.terminate()
        server.wait()


def look_in_chromium(horizon: Horizon, login: Login, server: str, name: str, directory: Path) -> None:
    """Log in, and look at the server in the list and at its console, with Horizon's scripts and styles."""
    with browser(directory) as tab:
        tab.resize(1280, 900)
        tab.open(f"{horizon.url}/auth/login/")
        tab.wait_for_text("#loginBtn", "Sign In")
        shoot(tab, directory / "login.png")
        for field, value in (("username", login.user), ("password", login.password)):
            tab.evaluate(f"document.getElementById('id_{field}').value = {json.dumps(value)}")
        tab.evaluate("document.getElementById('loginBtn').click()")
        tab.wait_for_text("body", login.user)
        tab.open(f"{horizon.url}{INSTANCES}")
        tab.wait_for_text("#instances", name)
        shoot(tab, directory / "instances.png")
        tab.open(f"{horizon.url}{INSTANCES}{server}/?tab=instance_details__console")
        tab.wait_for_text("body", "show only console")
        wait_for(lambda: text_of_frame(tab), lambda text: "Connected" in text, "the frame shows the console")
        shoot(tab, directory / "console.png")


def text_of_frame(tab: Browser) -> str:
    """Return the text of the only frame of a page."""
    [frame] = tab.call("Page.getFrameTree")["frameTree"]["childFrames"]
    world = tab.call("Page.createIsolatedWorld", frameId=frame["frame"]["id"])["executionContextId"]
    found = tab.call("Runtime.evaluate", expression="document.body?.innerText", contextId=world)["result"]
    return str(found.get("value", ""))


def shoot(tab: Browser, file: Path) -> None:
    """Write a screenshot. Fails if the page is not styled: Horizon's styles are not those of a bare page."""
    assert tab.evaluate("getComputedStyle(document.body).fontFamily") != "serif"
    file.write_bytes(base64.b64decode(tab.call("Page.captureScreenshot", format="png")["data"]))


def test_a_server_is_launched_resized_and_deleted_in_horizon(horizon: Horizon, login: Login, tmp_path: Path) -> None:
    pages = PAGES if login.shares_volumes else (VOLUMES, *PAGES)
    for page in pages:
        horizon.page(page)
    flavor = horizon.find("nova/flavors/", "m1.tiny")["id"]
    root = {"source_type": "image", "destination_type": "volume", "boot_index": "0", "volume_size": 1}
    root |= {"uuid": horizon.find("glance/images/", "tick")["id"], "delete_on_termination": True}
    name = f"horizon-{uuid.uuid4().hex[:8]}"
    network = horizon.find("neutron/networks/", "private")["id"]
    wanted = {
        "name": name, "flavor_id": flavor, "instance_count": 1, "disk_config": "AUTO", "config_drive": False,
        "availability_zone": "", "user_data": "", "scheduler_hints": {}, "source_id": None, "key_name": None,
        "description": None, "security_groups": ["default"], "nics": [{"net-id": network, "v4-fixed-ip": ""}],
        "block_device_mapping_v2": [root], "create_volume_default": True, "hide_create_volume": False,
    }  # fmt: skip
    server = horizon.ask("nova/servers/", wanted)["id"]
    horizon.until(server, "ACTIVE")
    for page in (INSTANCES, f"{INSTANCES}{server}/"):
        assert name in horizon.page(page)
    for page in pages:
        horizon.page(page)

    larger = {"flavor": horizon.find("nova/flavors/", "m1.small")["id"], "disk_config": "AUTO"}
    form = f"{INSTANCES}{server}/resize"
    horizon.send_form(form, form, larger | {"old_flavor_name": "m1.tiny"})
    horizon.until(server, "VERIFY_RESIZE")
    horizon.act("confirm", server)
    horizon.until(server, "ACTIVE")

    assert name in horizon.page(f"{INSTANCES}{server}/", tab="instance_details__log")
    page = horizon.page(f"{INSTANCES}{server}/", tab="instance_details__console")
    [console] = re.findall(r'<iframe id="console_embed" src="([^"]+)"', page)
    shown = httpx.get(html.unescape(console), timeout=HANG_S)
    assert (shown.status_code, "vnc_lite.js" in shown.text) == (200, True)
    look_in_chromium(horizon, login, server, name, tmp_path)
    horizon.act("delete", server)
    wait_for(lambda: name in horizon.page(INSTANCES), lambda there: not there, "the server is gone")
