"""docs/life-of-a-resize.md lists the files to open: compared with the functions that a plain resize really calls.

A file has to be opened if it decides or acts for this resize. What need not be opened stands in the page's second
table, with the reason: values, protocols, databases, what every HTTP request passes, and functions whose name and one
line of docstring say all that matters. In the packages that act (`ACTING`) that table names single files, so that a
new file on the path has to be put on the page, or needs a reason of its own.
"""

import asyncio
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import httpx

import whimbrel
from tests.api.front import POLICY, Front, Tokens, mounted
from whimbrel.api.app import compute_app
from whimbrel.api.http.context import Context
from whimbrel.conductor.conductor import Conductor, Pace
from whimbrel.domain.ids import ServerId
from whimbrel.sim.cloud.cloud import World

SOURCE = Path(whimbrel.__file__).parent
PAGE = (SOURCE.parents[1] / "docs" / "life-of-a-resize.md").read_text()
MOST = 12
STORY = "moves/resize.py"
"""The list itself: a table, of which no function runs."""
FOLDERS = {
    *("domain/", "ports/", "adapters/", "sim/", "http/", "api/http/", "placement/"),
    *("scheduling/filters/", "scheduling/weighers/", "scheduling/requirements/"),
}
"""Only these may be left unopened as a whole: nothing in them acts on a server."""


def listed(section: str) -> list[str]:
    """Return the files and folders of the first column of the table below a heading, as paths in the package."""
    below = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in below.splitlines() if line.startswith("| ")]
    return [path for row in rows for path in re.findall(r"\(\.\./src/whimbrel/([^)]*)\)", row)]


TO_OPEN = listed("The files to open")
NOT_TO_OPEN = listed("What need not be opened")


@contextmanager
def traced() -> Iterator[list[str]]:
    """Collect the files of the package of which functions are called, in the order of their first calls."""
    files: dict[str, None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(f"{SOURCE}/") and frame.f_code.co_name != "<module>":
            files.setdefault(path.removeprefix(f"{SOURCE}/"))

    found: list[str] = []
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(before)
        found.extend(files)


def unexplained(called: Sequence[str], to_open: Sequence[str], not_to_open: Sequence[str]) -> list[str]:
    """List the files that were called and stand in neither table."""
    folders = tuple(path for path in not_to_open if path.endswith("/"))
    known = {*to_open, *not_to_open}
    return [file for file in called if file not in known and not file.startswith(folders)]


async def resized() -> list[str]:
    """Resize a server and confirm it, driven by a conductor. Return the files that this called."""
    world = await World.build()
    parts = world.engine("one").parts
    conductor = Conductor(world.cloud, parts, pace=Pace(poll_s=0.01, reconcile_s=3600))
    context = Context(cloud=world.cloud, engine=conductor.engine, identity=Tokens(), policy=POLICY)
    serving = asyncio.create_task(conductor.serve())
    transport = httpx.ASGITransport(mounted(compute_app(context)))
    async with httpx.AsyncClient(transport=transport, base_url="http://cloud:8774") as client:
        front = Front(world, conductor.engine, client)
        server = await front.boot(settle=False)
        await shows(front, server, "active")
        with traced() as called:
            assert (await front.act(server, {"resize": {"flavorRef": "2"}})).status_code == 202
            await shows(front, server, "resized")
            assert (await front.act(server, {"confirmResize": None})).status_code == 204
            await shows(front, server, "active")
    serving.cancel()
    await conductor.close()
    await world.close()
    return called


async def shows(front: Front, server: str, vm_state: str) -> None:
    """Wait until a server is idle in this state, and no run is at work on it."""
    cloud = front.world.cloud
    async with asyncio.timeout(60):
        while True:
            entry = await cloud.directory.entry(ServerId(server))
            run = await cloud.journal.open_run(ServerId(server))
            if entry.cell and (run is None or run.state == "parked"):
                record = await cloud.cell(entry.cell).servers.get(ServerId(server))
                if (record.vm_state, record.task_state) == (vm_state, None):
                    return
            await asyncio.sleep(0)


async def test_the_page_lists_the_files_that_a_plain_resize_leads_through() -> None:
    called = await resized()
    assert not unexplained(called, TO_OPEN, NOT_TO_OPEN), "put them on the page, or into its second table with a reason"
    in_order = [file for file in called if file in TO_OPEN]
    assert in_order == [file for file in TO_OPEN if file != STORY], "the order of the first calls"
    folders = [path for path in NOT_TO_OPEN if not any(file.startswith(path) for file in called)]
    assert not folders, "nothing of these is called any more"


def test_a_dozen_files_are_enough() -> None:
    assert STORY in TO_OPEN
    assert len(TO_OPEN) <= MOST
    assert not set(TO_OPEN) & set(NOT_TO_OPEN)
    assert all((SOURCE / path).exists() for path in (*TO_OPEN, *NOT_TO_OPEN))


def test_whole_folders_are_left_out_only_where_nothing_acts() -> None:
    assert {path for path in NOT_TO_OPEN if path.endswith("/")} <= FOLDERS


def test_a_file_that_is_in_neither_table_is_noticed() -> None:
    called = [*TO_OPEN, "domain/run.py", "moves/steps/pass_on.py"]
    assert unexplained(called, TO_OPEN, NOT_TO_OPEN) == ["moves/steps/pass_on.py"]
    assert unexplained([TO_OPEN[0]], TO_OPEN[1:], NOT_TO_OPEN) == [TO_OPEN[0]]
