"""Chromium uses the dashboard of a running cloud: it logs in, resizes a server, watches the move, empties a host."""

import re
from pathlib import Path

import pytest

from tests.live.browser import Browser, browser
from tests.live.dashboard_tab import DashboardTab
from tests.live.running_cloud import RunningCloud, running_cloud
from tests.processes import program

pytestmark = pytest.mark.long

LINE_ENDS = """(() => {
    const line = document.querySelector('.lines > path'), drawing = line.parentNode.getBoundingClientRect();
    const beyond = (at, low, high) => Math.max(low - at, 0, at - high);
    return [0, line.getTotalLength()].map((length) => {
        const {x, y} = line.getPointAtLength(length);
        return [...document.querySelectorAll('[data-host]')].find((each) => {
            const {left, right, top, bottom} = each.getBoundingClientRect();
            return beyond(x + drawing.left, left, right) + beyond(y + drawing.top, top, bottom) < 2;
        })?.dataset.host;
    });
})()"""
"""The hosts at the two ends of the first line."""
FACTS = "[...document.querySelectorAll('.facts div')].map(e => e.innerText.split('\\n'))"
SLOW = "[simulated]\nlive_mib_s = 1.0\n"
"""A live migration takes minutes."""


def passwords(cloud: RunningCloud) -> dict[str, str]:
    return dict(re.findall(r"username: (\w+)\n\s+password: (\w+)", cloud.home.clouds.read_text()))


def opened(chromium: Browser, cloud: RunningCloud, user: str) -> DashboardTab:
    tab = DashboardTab(chromium, cloud.home.running().url)
    tab.log_in(user, passwords(cloud)[user])
    return tab


def test_a_server_is_resized_and_the_move_is_watched_to_its_end(tmp_path: Path) -> None:
    with running_cloud(tmp_path) as cloud, browser(tmp_path) as chromium:
        tab = opened(chromium, cloud, "demo")
        cloud.program.wait_until_it_says(f"log in as admin with the password in {cloud.home.clouds}")
        assert tab.links("nav") == ["Servers"]  # the other pages are for operators
        tab.boot("one")
        tab.wait_for("document.querySelector('td .badge')?.textContent === 'ACTIVE'")  # no reload: the stream says it
        tab.submit("td form")
        tab.wait_for("document.querySelector('td .badge')?.textContent === 'VERIFY_RESIZE'")
        tab.click("td a", "one")
        tab.wait_for("document.querySelector('td[data-label=State]')?.textContent === 'parked'")
        tab.click("td a", "resize")
        tab.wait_for("document.querySelector('.rung.parked code')?.textContent === 'await_verdict'")
        assert tab.text("[data-step=switch_home] ~ .undo code") == "switch_home_back"
        tab.click("button", "Confirm")
        tab.wait_for("document.querySelector('.facts .badge')?.textContent === 'done'")
        assert tab.count(".rung.done") == tab.count(".rung[data-step]")
        assert chromium.evaluate("document.cookie") == ""


def test_another_project_sees_neither_the_server_nor_its_move(tmp_path: Path) -> None:
    with running_cloud(tmp_path) as cloud, browser(tmp_path) as chromium:
        tab = opened(chromium, cloud, "demo")
        tab.boot("one")
        tab.wait_for("document.querySelector('td .badge')?.textContent === 'ACTIVE'")
        server = chromium.evaluate("document.querySelector('td a').hash.split('/').pop()")
        cloud.say("project", "create", "other", cloud="whimbrel-admin")
        cloud.say("user", "create", "--password", "a password", "bob", cloud="whimbrel-admin")
        cloud.say("role", "add", "--user", "bob", "--project", "other", "member", cloud="whimbrel-admin")
        tab.click("button", "Log out")
        tab.log_in("bob", "a password")
        tab.wait_for("document.body.innerText.includes('This project has no servers')")
        tab.go(f"servers/{server}")
        tab.wait_for("document.querySelector('.notice.bad') !== null")
        assert "could not be found" in tab.text(".notice.bad")


def test_a_move_is_watched_whose_conductor_is_killed(tmp_path: Path) -> None:
    """The page shows the step at which it was killed, and the rest by the conductor that goes on: all by the stream."""
    settings = "[simulated]\ncopy_disk_s = 5.0\n"  # time to be killed in
    with running_cloud(tmp_path, "--no-conductor", settings=settings) as cloud, browser(tmp_path) as chromium:
        words = ["conductor", "--name", "two", "--data-dir", str(cloud.home.path)]
        conductor = program("two", words, tmp_path / "two.log")
        try:
            conductor.start()
            tab = opened(chromium, cloud, "admin")
            tab.boot("one")
            tab.wait_for("document.querySelector('td .badge')?.textContent === 'ACTIVE'")
            tab.submit("td form")
            tab.click("td a", "one")
            tab.click("td a", "resize")
            tab.wait_for("document.querySelector('.rung.now code')?.textContent === 'carry_disk'")
            conductor.kill()
            assert tab.text(".rung.now code") == "carry_disk"
            halves = [tab.text(f"[data-side={side}] .badge") for side in ("source", "target")]
            assert halves == ["stopped", "reserved"]
            conductor.start()
            tab.wait_for("document.querySelector('.rung.parked code')?.textContent === 'await_verdict'")
            assert tab.text("[data-side=target] .badge") == "running"
            facts = dict(chromium.evaluate(FACTS))
            assert int(facts["Epoch"]) > 1  # another life drives it
            tab.click("button", "Confirm")
            tab.wait_for("document.querySelector('.facts .badge')?.textContent === 'done'")
        finally:
            conductor.end()


def test_a_host_is_emptied_by_a_plan_that_is_followed_to_its_end(tmp_path: Path) -> None:
    with running_cloud(tmp_path) as cloud, browser(tmp_path) as chromium:
        tab = opened(chromium, cloud, "admin")
        tab.boot("one")
        tab.wait_for("document.querySelector('td .badge')?.textContent === 'ACTIVE'")
        host = tab.text("td[data-label=Host]")
        tab.go("maintenances")
        tab.wait_for("document.querySelector('form.plan') !== null")
        chromium.evaluate(f"document.querySelector('form.plan input').value = '{host}'")
        tab.submit("form.plan")
        tab.wait_for("document.querySelector('td[data-label=State]')?.textContent === 'planned'")
        assert (tab.text("td[data-label=Server]"), tab.text("td[data-label=How]")) == ("one", "live")
        assert tab.text("td[data-label=From]") == host
        target = tab.text("td[data-label=To]")
        tab.click("button", "Start")
        tab.wait_for("document.querySelector('.facts .badge')?.textContent === 'done'")  # the stream says it
        assert tab.text("td[data-label=State]") == "moved"
        assert tab.text(".facts .progress").strip().endswith("1 of 1 moved")
        assert tab.count(".verdict button") == 0
        tab.go("fleet")
        tab.wait_for("document.querySelectorAll('.host .badge.busy').length === 1")
        assert tab.text(".host .badge.busy") == "disabled"
        tab.go("servers")
        tab.wait_for(f"document.querySelector('td[data-label=Host]')?.textContent === '{target}'")


def test_a_maintenance_is_paused_resumed_and_aborted(tmp_path: Path) -> None:
    state = "document.querySelector('.facts .badge')?.textContent"
    with running_cloud(tmp_path, settings=SLOW) as cloud, browser(tmp_path) as chromium:
        tab = opened(chromium, cloud, "admin")
        tab.boot("one")
        tab.wait_for("document.querySelector('td .badge')?.textContent === 'ACTIVE'")
        host = tab.text("td[data-label=Host]")
        cloud.run("whimbrel", "maintenance", "plan", host, "--name", "new disks")
        cloud.run("whimbrel", "maintenance", "plan", "s1", "s2", "s1", "--name", "even", "--goal", "balance")
        tab.go("maintenances")
        tab.wait_for("document.querySelectorAll('tbody tr').length === 2")
        assert tab.text("td[data-label=Hosts]") == "s1, s2"
        tab.click("td a", "new disks")
        tab.click("button", "Start")
        tab.wait_for("document.querySelector('td[data-label=State]')?.textContent === 'moving'")
        for button, then in (("Pause", "paused"), ("Resume", "running"), ("Abort", "aborting")):
            tab.click("button", button)
            tab.wait_for(f"{state} === '{then}'")
        assert tab.count(".verdict button") == 0  # the move under way goes on
        tab.go("fleet")
        tab.wait_for("document.querySelectorAll('.host .badge.good').length === 4")


def test_a_move_is_a_line_between_its_hosts_while_it_is_under_way(tmp_path: Path) -> None:
    with running_cloud(tmp_path, settings=SLOW) as cloud, browser(tmp_path) as chromium:
        tab = opened(chromium, cloud, "admin")
        tab.boot("one")
        tab.wait_for("document.querySelector('td .badge')?.textContent === 'ACTIVE'")
        server = chromium.evaluate("document.querySelector('td a').hash.split('/').pop()")
        tab.go("fleet")
        tab.wait_for("document.querySelectorAll('.host').length === 4")
        assert tab.count(".lines > path") == 0
        cloud.say("server", "migrate", "--live-migration", server, cloud="whimbrel-admin")
        tab.wait_for("document.querySelectorAll('.lines > path').length === 1")  # the stream says it
        source, target = tab.text("td[data-label=From]"), tab.text("td[data-label=To]")
        assert tab.text(".lines title") == f"one: {source} → {target}"
        for width in (375, 2560):
            chromium.resize(width, 900)
            tab.wait_for(f"innerWidth === {width}")
            tab.wait_for(f"String({LINE_ENDS}) === 'one/{source},one/{target}'")  # drawn anew
            assert chromium.evaluate("document.documentElement.scrollWidth <= innerWidth")
        moving = "document.querySelector('.lines > path').getAnimations().length"
        assert chromium.evaluate(moving) == 1
        chromium.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
        tab.wait_for(f"{moving} === 0")
        tab.click("td a", "one")
        tab.click("button", "Roll back")
        tab.go("fleet")
        tab.wait_for("document.querySelectorAll('.host').length === 4 && !document.querySelector('.lines > path')")
        assert tab.count("td") == 0  # nor in the list


def test_the_proofs_of_the_cloud_have_a_trend(tmp_path: Path) -> None:
    with running_cloud(tmp_path) as cloud, browser(tmp_path) as chromium:
        tab = opened(chromium, cloud, "admin")
        tab.go("cloud")
        tab.wait_for("document.querySelector('.facts') !== null")
        facts = dict(chromium.evaluate(FACTS))
        assert (facts["hosts of cell one"], facts["services"]) == ("4 up", "placement, image, network, volume")
        for proofs in (0, 2, 3):  # one is no trend
            tab.click("button", "Prove now")
            tab.wait_for("document.querySelector('.notice')?.textContent.startsWith('All invariants hold.')")
            tab.click(".notice button", "Dismiss")
            assert tab.count(".trend rect.good") == tab.count(".trend tbody tr") == proofs
        assert "The last 3 proofs, since" in tab.text(".trend figcaption")
        assert tab.text(".trend tbody td[data-label=Violations]") == "0"


def test_a_long_name_without_a_break_makes_no_page_wider(tmp_path: Path) -> None:
    """It has the longest name that the compute API takes; every page that shows it fits a phone and a desk."""
    with running_cloud(tmp_path) as cloud, browser(tmp_path) as chromium:
        tab = opened(chromium, cloud, "admin")
        tab.boot("x" * 255)
        tab.submit("td form")
        tab.wait_for("document.querySelector('td .badge.waits') !== null")
        tab.boot("small")  # with all actions: the other one waits for its verdict
        tab.wait_for("document.querySelector('td form') !== null")
        for page in ("servers", "moves", "fleet"):
            tab.go(page)
            tab.wait_for(f"document.querySelector('td a')?.closest('main').innerText.startsWith('{page.title()}')")
            for width in (375, 1280):
                chromium.resize(width, 900)
                tab.wait_for(f"innerWidth === {width}")
                assert chromium.evaluate("document.documentElement.scrollWidth <= innerWidth"), (page, width)
                assert chromium.evaluate(
                    "[...document.querySelectorAll('.scroll')].every(each => each.scrollWidth <= each.clientWidth)"
                ), (page, width)
        chromium.resize(375, 900)
        tab.go("servers")  # a key reaches what sorts a table, which is hidden there: it is shown then
        tab.wait_for("innerWidth === 375 && document.querySelector('button.sort') !== null")
        assert chromium.evaluate("document.querySelector('thead').getBoundingClientRect().height") == 1
        chromium.evaluate("document.querySelector('button.sort').focus()")
        assert chromium.evaluate("document.querySelector('thead').getBoundingClientRect().height") > 20
        assert chromium.evaluate("document.documentElement.scrollWidth <= innerWidth")
