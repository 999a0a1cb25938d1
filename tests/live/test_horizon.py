"""Horizon, unmodified, in front of a cloud of this kind, and of one beside a real Keystone: pages, forms and launches.

WHIMBREL_TEST_HORIZON names a virtual environment with what is in tests/openstack/horizon.txt. Nothing runs Horizon's
scripts here: what they would send is sent by the test. Its pages are not styled, as to compile that takes longer.
"""

import html
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

from tests.live.running_cloud import running_cloud
from tests.live.test_external_services import running_beside
from tests.nats_servers import free_ports
from tests.openstack_services import real_services
from tests.processes import HANG_S, wait_for

pytestmark = [pytest.mark.long, pytest.mark.openstack]  # where Horizon is installed

VENV = "WHIMBREL_TEST_HORIZON"
SETTINGS = """
from openstack_dashboard.settings import *
OPENSTACK_KEYSTONE_URL = "{keystone}"
SECRET_KEY = "{key}"
ALLOWED_HOSTS = ["*"]
COMPRESS_ENABLED = False
COMPRESS_PRECOMPILERS = ()
SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
CACHES = {{"default": {{"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}}}
"""
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
    if VENV not in os.environ:
        pytest.skip(f"{VENV} names no virtual environment with Horizon")
    if request.param == "embedded":
        with running_cloud(tmp_path) as cloud:
            yield Login(f"{cloud.home.running().url}/identity/v3", "demo", cloud.home.passwords()["demo"])
        return
    services = real_services()
    auth = services.cloud("demo").settings["auth"]
    with services.compute_endpoint() as url:
        for _ in running_beside(services, url, tmp_path):
            yield Login(auth["auth_url"], auth["username"], auth["password"], shares_volumes=True)


@pytest.fixture
def horizon(login: Login, tmp_path: Path) -> Iterator[Horizon]:
    (tmp_path / "horizon_settings.py").write_text(SETTINGS.format(keystone=login.keystone, key=uuid.uuid4().hex))
    [port] = free_ports(1)
    command = [f"{os.environ[VENV]}/bin/python", "-m", "django", "runserver", "--noreload", f"127.0.0.1:{port}"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "PYTHON"))}
    environment |= {"DJANGO_SETTINGS_MODULE": "horizon_settings", "PYTHONPATH": str(tmp_path), "PYTHONUNBUFFERED": "1"}
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


def test_a_server_is_launched_resized_and_deleted_in_horizon(horizon: Horizon, login: Login) -> None:
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
    horizon.act("delete", server)
    wait_for(lambda: name in horizon.page(INSTANCES), lambda there: not there, "the server is gone")
