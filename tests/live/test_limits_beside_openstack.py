"""The limits of a real Keystone count, by what Placement has in use; and services of vendor data get a token of it."""

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import openstack
import pytest

from tests.live.running_cloud import CLOUD, HOST
from tests.live.test_external_services import KEYSTONE
from tests.openstack_services import RealServices, real_services
from tests.processes import HANG_S, program, wait_for

pytestmark = [pytest.mark.long, pytest.mark.openstack]

MORE = """
[quota]
driver = "unified"
count_usage_from_placement = true
[guests]
vendordata_providers = ["DynamicJSON"]
vendordata_dynamic_targets = ["test@http://127.0.0.1:{port}/vendor"]
vendordata_dynamic_auth = true
vendordata_dynamic_failure_fatal = true
"""


class VendorService:
    """Asks Keystone whose token it was sent."""

    def __init__(self, services: RealServices) -> None:
        self.asked: list[tuple[Any, str]] = []  # what was sent, and the user of the token
        self._admin = services.cloud("admin")
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _user(self, token: str) -> str:
        url = f"{self._admin.login.auth_url}/v3/auth/tokens"
        headers = {"X-Auth-Token": self._admin.token, "X-Subject-Token": token}
        found: str = httpx.get(url, headers=headers, timeout=HANG_S).raise_for_status().json()["token"]["user"]["name"]
        return found

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                service.asked.append((sent, service._user(self.headers["X-Auth-Token"])))
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, format: str, *args: object) -> None:
                """Keep the output of the tests free of requests."""

        return Handler


class Limits:
    """Limits of the compute service in Keystone."""

    def __init__(self, services: RealServices, ending: ExitStack) -> None:
        admin = services.cloud("admin")
        self._keystone = ending.enter_context(admin.client("identity"))
        self._keystone.base_url = f"{admin.login.auth_url}/v3"
        [service] = self._keystone.get("/services", params={"type": "compute"}).raise_for_status().json()["services"]
        self._service = service["id"]
        self._ending = ending

    def register(self, name: str, limit: int) -> None:
        self._made("registered_limits", resource_name=name, default_limit=limit)

    def set(self, project: str, name: str, limit: int) -> str:
        return self._made("limits", resource_name=name, resource_limit=limit, project_id=project)

    def change(self, limit_id: str, limit: int) -> None:
        changed = {"limit": {"resource_limit": limit}}
        self._keystone.patch(f"/limits/{limit_id}", json=changed).raise_for_status()

    def _made(self, kind: str, **one: Any) -> str:
        answer = self._keystone.post(f"/{kind}", json={kind: [{"service_id": self._service, **one}]})
        [made] = answer.raise_for_status().json()[kind]
        self._ending.callback(self._keystone.delete, f"/{kind}/{made['id']}")
        return str(made["id"])


@pytest.fixture
def ending() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_limits_of_keystone_count_by_what_placement_has_in_use(tmp_path: Any, ending: ExitStack) -> None:
    services = real_services()
    vendor, limits = VendorService(services), Limits(services, ending)
    ending.callback(vendor.close)
    url = ending.enter_context(services.compute_endpoint())
    login = services.cloud("service").settings["auth"]
    (tmp_path / "keystone-password").write_text(login["password"])
    settings = tmp_path / "whimbrel.toml"
    hosts = "".join(HOST.format(name=name, zone="nova") for name in services.hosts()[:2])
    external = KEYSTONE.format(**login, region="", url=f"{url.scheme}://{url.netloc}")
    settings.write_text(external + MORE.format(port=vendor.port) + CLOUD + hosts)
    words = ["up", "--port", str(url.port), "--settings", str(settings), "--data-dir", str(tmp_path / "data")]
    up = program("up", words, tmp_path / "up.log")
    ending.callback(up.end)
    up.start()
    up.wait_until_it_says("Whimbrel is up")

    demo = services.cloud("demo")
    user = openstack.connect(**demo.settings, load_yaml_config=False, load_envvars=False, api_timeout=HANG_S)
    wanted: dict[str, Any] = {
        "name": f"limits-{uuid.uuid4().hex[:8]}",
        "flavor_id": "1",
        "networks": "none",
        "config_drive": True,
    }
    wanted["image_id"] = user.image.find_image("tick").id

    def seen() -> tuple[int, int, int]:
        found = user.compute.get_limits().absolute
        return found.instances, found.total_cores, found.total_cores_used

    with pytest.raises(openstack.exceptions.ForbiddenException, match="servers"):  # as nothing is registered
        user.compute.create_server(**wanted)
    limits.register("servers", 5)
    limits.register("class:VCPU", 100)
    of_cores = limits.set(demo.project_id, "class:VCPU", 2)
    wait_for(seen, lambda now: now == (5, 2, 0), "the limits are those of Keystone")

    server = user.compute.create_server(**wanted).id
    wait_for(lambda: user.compute.get_server(server).status, lambda now: now == "ACTIVE", "the server runs")
    assert seen() == (5, 2, 1)
    assert [(sent["instance-id"], whose) for sent, whose in vendor.asked] == [(server, login["username"])]

    with pytest.raises(openstack.exceptions.ForbiddenException, match="for cores"):  # 1 + 2 while it moves
        user.compute.resize_server(server, "3")
    limits.change(of_cores, 3)
    wait_for(seen, lambda now: now == (5, 3, 1), "the limit has changed")
    user.compute.resize_server(server, "3")
    wait_for(lambda: user.compute.get_server(server).status, lambda now: now == "VERIFY_RESIZE", "the server moved")
    assert seen() == (5, 3, 3)
    user.compute.confirm_server_resize(server)
    wait_for(seen, lambda now: now == (5, 3, 2), "the source's claim is gone")
    user.compute.delete_server(server)
    wait_for(seen, lambda now: now == (5, 3, 0), "nothing is in use")
