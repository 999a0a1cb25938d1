"""A real Prometheus that watches a real cloud by the settings and alarms that the pages show."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import Any

import httpx
import pytest
import yaml

from tests.live.running_cloud import RunningCloud, further_conductor, running_cloud, running_placement
from tests.processes import http, wait_for
from tests.prometheus_tools import ALARMS, DOCS, program, promtool

pytestmark = pytest.mark.long

LEAK = """
import openstack

cloud = openstack.connect(cloud="whimbrel-admin")
provider = cloud.placement.get("/resource_providers").json()["resource_providers"][0]["uuid"]
held = {provider: {"resources": {"VCPU": 1}}}
body = {"allocations": held, "project_id": "p", "user_id": "u", "consumer_generation": None}
url = "/allocations/99999999-9999-4999-8999-999999999999"
assert cloud.placement.put(url, json=body, microversion="1.28").status_code == 204
"""


class Prometheus:
    def __init__(self, url: str) -> None:
        self._url = url

    def ask(self, what: str, **query: str) -> Any:
        """Ask its API; None: it does not answer yet."""
        try:
            answer = http.get(f"{self._url}/api/v1/{what}", params=query)
        except httpx.TransportError:
            return None
        return answer.json()["data"] if answer.status_code == 200 else None

    def values(self, query: str) -> list[float]:
        found = self.ask("query", query=query)
        return [float(each["value"][1]) for each in found["result"]] if found else []

    def firing(self) -> set[str]:
        alarms = self.ask("alerts")["alerts"]
        return {alarm["labels"]["alertname"] for alarm in alarms if alarm["state"] == "firing"}

    def until(self, query: str, values: list[float]) -> None:
        wait_for(lambda: self.values(query), lambda seen: seen == values, f"{query} to be {values}")


@contextmanager
def prometheus(directory: Path, urls: list[str], secret: Path) -> Iterator[Prometheus]:
    """Start one on a free port, with the settings of docs/watching.md for other targets, that asks every second."""
    page = re.search(r"```yaml\n(.*?)```", (DOCS / "watching.md").read_text(), re.S)
    assert page
    settings = yaml.safe_load(page[1])
    settings["scrape_configs"][0]["authorization"]["credentials_file"] = str(secret)
    settings["scrape_configs"][0]["static_configs"][0]["targets"] = [url.removeprefix("http://") for url in urls]
    settings["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    (directory / "prometheus.yml").write_text(yaml.safe_dump(settings))
    (directory / ALARMS.name).write_text(ALARMS.read_text())
    said = directory / "prometheus.log"
    words = [
        f"--config.file={directory / 'prometheus.yml'}",
        f"--storage.tsdb.path={directory / 'tsdb'}",
        "--web.listen-address=127.0.0.1:0",
    ]
    with said.open("wb") as log:
        process = Popen([program("prometheus"), *words], stdin=DEVNULL, stdout=log, stderr=log)
    try:
        at = wait_for(
            lambda: re.search(r'Listening on" address=(\S+)', said.read_text()), bool, "Prometheus to say its port"
        )
        yield Prometheus(f"http://{at[1]}")
    finally:
        process.terminate()
        process.wait()


def ask_for_what_there_is_not(cloud: RunningCloud) -> None:
    """Send an action that no table has, and a body that is none."""
    headers = {"X-Auth-Token": cloud.openstack("token", "issue")["id"]}
    url = f"{cloud.home.running().url}/compute/v2.1/servers/{cloud.openstack('server', 'show', 'one')['id']}/action"
    for body in ({"theSecretOfSomebody": None}, {}):
        assert http.post(url, json=body, headers=headers).status_code == 400


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[RunningCloud]:
    program("prometheus")
    with running_cloud(tmp_path) as running:
        yield running


def test_alarms_come_and_go(cloud: RunningCloud, tmp_path: Path) -> None:
    front, secret = cloud.home.running().url, cloud.home.path / "metrics.secret"
    cloud.say("server", "create", "--flavor", "m1.tiny", "--image", "tick", "--no-network", "--wait", "one")
    ask_for_what_there_is_not(cloud)
    with further_conductor(cloud, tmp_path) as two, prometheus(tmp_path, [front, two], secret) as watcher:
        watcher.until('up{job="whimbrel"}', [1, 1])
        watcher.until("max without (instance) (whimbrel_runs_ended_total)", [1])
        watcher.until("sum(whimbrel_steps_total{step='choose_target'})", [1])
        watcher.until('whimbrel_http_requests_total{route="/servers/{server_id}/action"}', [2])
        for where in (front, two):
            checked = promtool(
                "check", "metrics", given=http.get(f"{where}/metrics", headers=cloud.metrics_headers).text
            )
            assert (checked.returncode, checked.stderr) == (0, "")

        [group] = wait_for(
            lambda: watcher.ask("rules")["groups"],
            lambda groups: all(rule["health"] == "ok" for rule in groups[0]["rules"]),
            "all alarms to be evaluated",
        )
        assert len(group["rules"]) == len(yaml.safe_load(ALARMS.read_text())["groups"][0]["rules"])
        assert not watcher.firing()

        cloud.python(LEAK)
        assert cloud.run("whimbrel", "prove").returncode == 1
        wait_for(watcher.firing, lambda names: names == {"WhimbrelProofViolations"}, "the alarm of proofs")
        assert cloud.run("whimbrel", "repair", "--yes").returncode == 0
        wait_for(watcher.firing, lambda names: not names, "the alarm of proofs to end")


def test_a_scrape_of_placement_alone_is_as_prometheus_wants_it(tmp_path: Path) -> None:
    program("promtool")
    with running_placement(tmp_path) as url:
        assert json.loads(http.get(f"{url}/").text)["versions"]
        checked = promtool("check", "metrics", given=http.get(f"{url}/metrics").text)
        assert (checked.returncode, checked.stderr) == (0, "")
