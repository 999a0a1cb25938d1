"""What `whimbrel maintenance simulate` shows, on a terminal of 80 columns."""

from io import StringIO
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from whimbrel.cli.assumed_rates import Assume
from whimbrel.cli.maintenance_simulation import assumed, exit_code, shown, span
from whimbrel.maintenance.cloud_snapshot import MeasuredRates
from whimbrel.sim.maintenances.copied_cloud import Assumed
from whimbrel.sim.maintenances.plan_simulation import (
    CellLinkUse,
    LinkUse,
    LostHost,
    LostServer,
    SimulatedServer,
    Simulation,
)

GIB = 1 << 30
MOVED = SimulatedServer(
    server_id="u1", name="db", source="h1", target="h3", planned_target="h2", kind="cold", state="moved", reason=None,
    turn=1, starts_s=0.0, takes_s=95.0, down_s=35.2, copied_bytes=3 * GIB,
)  # fmt: skip
STAYS = replace(
    MOVED, server_id="u2", name="gpu", target=None, planned_target=None, kind=None, state="stays", turn=None,
    reason="No valid host was found: 3 hosts have no room for 2 VCPU.", starts_s=None, takes_s=None, down_s=0.0,
    copied_bytes=0,
)  # fmt: skip
LOST = [LostServer(server_id=f"v{n}", name=f"web{n}", reason="No valid host was found.") for n in range(7)]
TOLD = Simulation(
    maintenance_id="m",
    name="disks",
    release="0.2.0",
    snapshot_at=1.0,
    assumed=Assumed(link_mib_s=1000.0, dirty_mib_s=50.0, start_s=5.0, stop_s=10.0),
    measured_transfers=0,
    state="done",
    message="the hosts still have 1 server",
    duration_s=7500.0,
    servers=[MOVED, STAYS],
    links=[
        LinkUse(host="h1", sent_bytes=3 * GIB, received_bytes=0, sent_peak_mib_s=1000.0, received_peak_mib_s=0.0),
    ],
    cell_links=[CellLinkUse(source_cell="c1", target_cell="c2", copied_bytes=GIB, peak_mib_s=500.0)],
    losses=[LostHost(host="h2", servers=9, without_place=LOST), LostHost(host="h3", servers=1, without_place=[])],
)


def text_of(told: Simulation) -> str:
    console = Console(width=80, record=True, file=StringIO())
    console.print(shown(told))
    return console.export_text()


@pytest.mark.parametrize(
    "words",
    [
        "Assumed (nothing was measured yet): 1,000 MiB/s",
        "h3 (planned: h2)",
        "cold, off 35 s",
        "gpu (u2) on h1, stays: No valid host was found",
        "h1        3.0 GiB  1,000 MiB/s  0.0 GiB   0 MiB/s",
        "c1 to c2  1.0 GiB  500 MiB/s",
        "h2: 7 of 9 servers have no place: web0, web1, web2, web3, web4 and 2 more",
        "1 of 2 remaining hosts can die: all their servers have a place",
        "1 of 2 servers leave in 2 h 05 min, 3.0 GiB copied",
        "the hosts still have 1 server",
    ],
)
def test_all_that_was_found_is_shown(words: str) -> None:
    text = text_of(TOLD)
    assert words in text
    assert max(map(len, text.splitlines())) <= 80


def test_an_end_that_is_none_is_named() -> None:
    text = text_of(replace(TOLD, state="paused", message="4 moves failed since it was started."))
    assert "; it ends paused\n4 moves failed" in text


@pytest.mark.parametrize(
    ("changes", "code"),
    [({}, 1), ({"servers": [MOVED]}, 0), ({"servers": [MOVED], "state": "paused"}, 1), ({"servers": []}, 0)],
)
def test_servers_that_stay_are_an_error(changes: Any, code: int) -> None:
    assert exit_code(replace(TOLD, **changes)) == code


@pytest.mark.parametrize(
    ("measured", "asked", "rates"),
    [
        (None, Assume(), (1000.0, 50.0)),
        (MeasuredRates(transfers=3, link_mib_s=400.0, dirty_mib_s=8.0), Assume(), (400.0, 8.0)),
        (MeasuredRates(transfers=3, link_mib_s=400.0, dirty_mib_s=8.0), Assume(link_mib_s=70.0), (70.0, 8.0)),
    ],
)
def test_what_was_measured_is_assumed_unless_it_is_given(
    measured: MeasuredRates | None, asked: Assume, rates: tuple[float, float]
) -> None:
    found = assumed(measured, asked)
    assert (found.link_mib_s, found.dirty_mib_s) == rates


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.26, "0.3 s"),
        (59.4, "59 s"),
        (60, "1 min 00 s"),
        (3599, "59 min 59 s"),
        (7500, "2 h 05 min"),
        (200_000, "2 d 7 h"),
    ],
)
def test_durations_have_two_units(seconds: float, words: str) -> None:
    assert span(seconds) == words
