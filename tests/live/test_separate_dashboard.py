"""`whimbrel dashboard` beside a running cloud: Chromium logs in there, and a server is watched."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live.browser import Browser, browser
from tests.live.dashboard_tab import DashboardTab
from tests.live.running_cloud import RunningCloud, running_cloud
from tests.live.test_dashboard_pages import passwords
from tests.processes import http, program


@contextmanager
def separate_dashboard(directory: Path, *words: str) -> Iterator[str]:
    """Start a dashboard on a free port; yield its URL."""
    said = directory / "dashboard.log"
    process = program("dashboard", ["dashboard", "--port", "0", *words], said)
    try:
        process.start()
        process.wait_until_it_says(" is up at ")
        yield re.findall(r"is up at (http://\S+)", said.read_text())[0]
    finally:
        process.end()


@pytest.mark.long
def test_it_is_live_and_finds_the_api_by_its_address_or_by_the_catalog(tmp_path: Path) -> None:
    with running_cloud(tmp_path) as cloud, browser(tmp_path) as chromium:
        url = cloud.home.running().url
        with separate_dashboard(tmp_path, "--api", url) as dashboard:
            tab = opened(chromium, cloud, dashboard)
            words = ("--image", "tick", "--flavor", "m1.tiny", "--no-network", "one")
            cloud.say("server", "create", *words, cloud="whimbrel-admin")
            tab.wait_for("document.querySelector('td .badge')?.textContent === 'ACTIVE'")  # the stream says it
            tab.submit("td form")
            tab.wait_for("document.querySelector('td .badge')?.textContent === 'VERIFY_RESIZE'")
            tab.click("button", "Log out")
            tab.wait_for("document.querySelector('input[name=user]') !== null")
        with separate_dashboard(tmp_path, "--identity", f"{url}/identity/v3") as dashboard:
            tab = opened(chromium, cloud, dashboard)
            tab.wait_for("document.querySelector('td .badge')?.textContent === 'VERIFY_RESIZE'")
            assert http.get(f"{dashboard}/healthz").json() == {"status": "ok"}


def opened(chromium: Browser, cloud: RunningCloud, url: str) -> DashboardTab:
    tab = DashboardTab(chromium, url)
    tab.log_in("admin", passwords(cloud)["admin"])
    return tab
