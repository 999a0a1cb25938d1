"""The pictures of the dashboard: `python -m tools.dashboard_pictures docs` (make pictures).

Chromium looks at a cloud of simulated hosts whose server waits for the verdict on its resize.
"""

import base64
import re
import sys
import tempfile
from pathlib import Path

from tests.live.browser import Browser, browser
from tests.live.dashboard_tab import DashboardTab
from tests.live.running_cloud import running_cloud

WIDTH, HEIGHT = 1180, 760


def picture(chromium: Browser, file: Path) -> None:
    """Save what the tab shows, from its top."""
    shot = chromium.call("Page.captureScreenshot", format="png")
    file.write_bytes(base64.b64decode(shot["data"]))


def main(directory: Path) -> None:
    with tempfile.TemporaryDirectory() as place, running_cloud(Path(place)) as cloud, browser(Path(place)) as chromium:
        chromium.resize(WIDTH, HEIGHT)
        tab = DashboardTab(chromium, cloud.home.running().url)
        [password] = re.findall(r"username: admin\n\s+password: (\w+)", cloud.home.clouds.read_text())
        tab.log_in("admin", password)
        for name in ("web-1", "web-2", "db-1"):
            tab.boot(name)
        tab.wait_for("document.querySelectorAll('td .badge.good').length === 3")
        tab.submit("td form")
        tab.wait_for("document.querySelector('td .badge.waits') !== null")
        tab.go("fleet")
        tab.wait_for("document.querySelectorAll('.host').length === 4")
        picture(chromium, directory / "dashboard-fleet.png")
        tab.go("moves")
        tab.click("td a", "resize")
        tab.wait_for("document.querySelector('.rung.parked') !== null")
        picture(chromium, directory / "dashboard-move.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
