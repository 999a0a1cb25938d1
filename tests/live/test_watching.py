"""Watching a running cloud: Prometheus at its one port, at one of its own, or not at all; and a server's history."""

import json
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.live.running_cloud import RunningCloud, further_conductor, running_cloud, running_placement
from tests.live.test_clients import until_status
from tests.processes import http

Found = dict[str, list[tuple[dict[str, str], float]]]


def look(url: str, **headers: str) -> Found:
    answer = http.get(url, headers=headers)
    assert answer.status_code == 200, answer.text
    found: Found = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def total(found: Found, name: str, **labels: str) -> float:
    return sum(value for has, value in found[name] if labels.items() <= has.items())


DEMO = {("demo", "demo")}
"""Who asks, and for which project, with the clouds.yaml of a cloud as it is made."""


def boot(cloud: RunningCloud, name: str) -> str:
    words = ("server", "create", "--flavor", "m1.tiny", "--image", "tick", "--no-network", "--wait", name)
    server_id: str = cloud.openstack(*words)["id"]
    return server_id


def test_a_cloud_a_conductor_and_a_history(tmp_path: Path) -> None:
    with running_cloud(tmp_path) as cloud:
        url = cloud.home.running().url
        server_id = boot(cloud, "one")
        cloud.say("server", "resize", "--flavor", "m1.small", "--wait", "one")
        cloud.say("server", "resize", "confirm", "one")
        until_status(cloud, "one", "ACTIVE")
        cloud.say("server", "delete", "--wait", "one")
        assert http.get(f"{url}/metrics").status_code == 401
        secret = cloud.metrics_headers
        found = look(f"{url}/metrics", **secret)
        assert total(found, "whimbrel_hosts", state="up") == 4
        assert total(found, "whimbrel_cell_up", cell="one") == 1
        assert total(found, "whimbrel_runs_ended_total", kind="resize", outcome="done") == 1
        assert total(found, "whimbrel_scheduler_decision_duration_seconds_count", outcome="found") == 2
        assert total(found, "whimbrel_placement_call_duration_seconds_count", call="claim") >= 2
        assert total(found, "whimbrel_steps_total", kind="resize", step="switch_home", outcome="done") == 1
        resize = {"service": "compute", "method": "POST", "route": "/servers/{server_id}/action:resize"}
        assert total(found, "whimbrel_http_requests_total", **resize, code="202") == 1
        assert total(found, "whimbrel_http_request_duration_seconds_count", **resize) == 1
        tokens = {"service": "identity", "route": "/v3/auth/tokens", "method": "POST"}
        assert total(found, "whimbrel_http_requests_total", **tokens, code="201") >= 4
        assert total(found, "whimbrel_http_requests_total", service="image") >= 1
        assert http.get(f"{url}/no/such/path").status_code == 404
        assert (
            total(look(f"{url}/metrics", **secret), "whimbrel_http_requests_total", service="none", route="none") == 1
        )
        assert http.post(f"{url}/metrics", headers=secret).status_code == 405
        secrets = re.findall(r"password: (\S+)", cloud.home.clouds.read_text())
        text = http.get(f"{url}/metrics", headers=secret).text
        assert not [secret for secret in [*secrets, server_id] if secret in text]

        told = json.loads(cloud.run("whimbrel", "server", "history", server_id, "--json").stdout)["history"]
        asked = [entry["what"] for entry in told["entries"] if entry["kind"] in ("asked", "verdict")]
        assert asked == ["create", "resize", "confirm", "delete"]
        assert {(entry["user_name"], entry["project_name"]) for entry in told["entries"] if entry["user_id"]} == DEMO
        shown = cloud.run("whimbrel", "server", "history", server_id).stdout
        assert "switch_home" in shown
        assert "hosts fit" in shown
        then = cloud.run("whimbrel", "server", "history", server_id, "--at", "2000-01-01").stdout
        assert "It was not there yet." in then

        with further_conductor(cloud, tmp_path) as conductor:
            found = look(f"{conductor}/metrics")
            assert total(found, "whimbrel_runs_ended_total", kind="resize", outcome="done") == 1


def test_at_a_port_of_its_own(tmp_path: Path) -> None:
    with running_cloud(tmp_path, settings="\n[metrics]\nport = 0\n") as cloud:
        cloud.program.wait_until_it_says("Prometheus asks at")
        at = re.search(r"asks at (http://\S+)", (tmp_path / "up.log").read_text())
        assert at
        assert http.get(f"{cloud.home.running().url}/metrics").status_code == 404
        assert total(look(at[1]), "whimbrel_hosts", state="up") == 4
        assert total(look(at[1]), "whimbrel_http_requests_total", service="none") == 1


def test_open_to_everybody(tmp_path: Path) -> None:
    with running_cloud(tmp_path, settings="\n[metrics]\nopen = true\n") as cloud:
        assert total(look(f"{cloud.home.running().url}/metrics"), "whimbrel_hosts", state="up") == 4


def test_not_at_all(tmp_path: Path) -> None:
    with running_cloud(tmp_path, settings="\n[metrics]\nenabled = false\n") as cloud:
        assert http.get(f"{cloud.home.running().url}/metrics").status_code == 404


@pytest.mark.parametrize("more", [[], ["--no-metrics"]])
def test_a_placement_process(tmp_path: Path, more: list[str]) -> None:
    with running_placement(tmp_path, *more) as url:
        assert http.get(f"{url}/").status_code == 200
        asked = http.get(f"{url}/resource_providers/x/inventories", headers={"x-auth-token": "admin"})
        if more:
            headers = {"x-auth-token": "admin"}
            assert http.get(f"{url}/metrics", headers=headers).status_code == 404
        else:
            labels = {"service": "placement", "method": "GET", "route": "/resource_providers/{uuid}/inventories"}
            found = look(f"{url}/metrics")
            assert total(found, "whimbrel_http_requests_total", **labels, code=str(asked.status_code)) == 1
