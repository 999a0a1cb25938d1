"""Figures of a cloud: what Prometheus's own parsers read of it, through restarts and outages, without any secret."""

from typing import Any

import httpx
import pytest
from msgspec.structs import replace
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from starlette.types import ASGIApp

from tests.api.front import Front
from tests.clocks import enter
from whimbrel.adapters.prometheus.app import metrics_app
from whimbrel.adapters.prometheus.cloud_metrics import FRESH_S, Readings
from whimbrel.adapters.prometheus.process_metrics import Figures
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.host import SERVICE_DOWN_S, Host
from whimbrel.domain.ids import CellName, HostName, ProviderId
from whimbrel.ports.stores.cells import CellInfo
from whimbrel.ports.stores.journal import LastProof, RunFilter
from whimbrel.ports.stores.processes import LEASE_S

Found = dict[tuple[str, frozenset[tuple[str, str]]], float]
OPENMETRICS = "application/openmetrics-text;version=1.0.0"


class Watch:
    """Who watches a cloud. A new one is what another process, or the next life of this one, would show."""

    def __init__(self, front: Front) -> None:
        self.front = front
        self.figures = Figures()
        front.world.cloud.meter.listen(self.figures)
        self.app: ASGIApp = metrics_app(self.figures, Readings(front.world.cloud), secret=None)

    async def ask(self, method: str = "GET", **headers: str) -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://cloud") as client:
            return await client.request(method, "/metrics", headers=headers)

    async def look(self) -> "Watch":
        """Look when what was seen before is old."""
        await self.front.world.cloud.clock.sleep(FRESH_S)
        return await self.glance()

    async def glance(self) -> "Watch":
        families = parse_text((await self.ask()).text)
        self.found: Found = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in families
            for sample in family.samples
        }
        return self

    def __call__(self, name: str, **labels: str) -> float | None:
        return self.found.get((name, frozenset(labels.items())))


async def fault(front: Front, **fields: Any) -> None:
    """Change the newest run behind everybody's back, as trouble does."""
    [run, *_] = await front.world.cloud.journal.find(RunFilter())
    await front.world.cloud.journal.save(replace(run, **fields))


async def test_moves_are_shown_by_where_they_stand_and_how_they_ended(front: Front) -> None:
    watch = Watch(front)
    for name in ("one", "two"):
        server_id = await front.boot(name)
        assert (await front.act(server_id, {"resize": {"flavorRef": "2"}})).status_code == 202
        await front.settle()
    assert (await front.act(server_id, {"revertResize": None})).status_code == 202
    await front.settle()
    await front.world.cloud.clock.sleep(100)
    seen = await watch.look()
    assert (seen("whimbrel_journal_up"), seen("whimbrel_held")) == (1, 0)
    assert seen("whimbrel_runs_ended_total", kind="create", outcome="done") == 2
    assert seen("whimbrel_runs_ended_total", kind="resize", outcome="reverted") == 1
    assert seen("whimbrel_runs_parked", kind="resize") == 1
    assert (seen("whimbrel_runs_parked_oldest_seconds", kind="resize") or 0) > 100
    assert seen("whimbrel_runs_overdue_seconds") == 0
    assert seen("whimbrel_steps_total", kind="resize", step="switch_home", way="undo", outcome="done") == 1
    assert seen("whimbrel_step_duration_seconds_count", step="choose_target", way="do") == 4
    assert seen("whimbrel_scheduler_decision_duration_seconds_count", outcome="found") == 4
    assert seen("whimbrel_lease_takeovers_total") == 0
    assert seen("whimbrel_debts_oldest_seconds") == 0
    again = await Watch(front).look()  # after a restart
    assert again("whimbrel_runs_ended_total", kind="resize", outcome="reverted") == 1
    assert again("whimbrel_steps_total", kind="resize", step="switch_home", way="undo", outcome="done") is None


async def test_what_is_in_trouble_shows(front: Front) -> None:
    watch, clock = Watch(front), front.world.cloud.clock
    server_id = await front.boot()
    await front.act(server_id, {"resize": {"flavorRef": "2"}})  # nobody drives it
    await clock.sleep(60)
    seen = await watch.look()
    place = {"kind": "resize", "step": "choose_target", "way": "forward"}
    assert seen("whimbrel_runs_open", **place) == 1
    for name in ("open_oldest", "open_longest_at_step", "overdue"):
        labels = {} if name == "overdue" else place
        assert 60 <= (seen(f"whimbrel_runs_{name}_seconds", **labels) or 0) < 70, name
    assert await front.world.cloud.journal.take("other", clock.now(), 3.0, 1)
    await clock.sleep(10)
    [run] = await front.world.cloud.journal.take("third", clock.now(), 3.0, 1)
    await fault(front, debts=("bind_target", "claim_target"), problem="a bug", since=clock.now() - 30, way="back")
    seen = await watch.look()
    assert seen("whimbrel_lease_takeovers_total") == 1
    assert (seen("whimbrel_debts", step="bind_target"), seen("whimbrel_debts", step="claim_target")) == (1, 1)
    assert (seen("whimbrel_debts_oldest_seconds") or 0) >= 30
    assert seen("whimbrel_runs_open_bugs", **{**place, "way": "back"}) == 1
    assert run.epoch > 1


async def test_hosts_are_counted_by_how_they_are(front: Front) -> None:
    watch = Watch(front)
    [cell] = front.world.cloud.cells.values()
    await cell.hosts.set_service(HostName("h1"), enabled=False, disabled_reason="x", forced_down=False)
    await cell.hosts.set_service(HostName("h2"), enabled=True, disabled_reason=None, forced_down=True)
    h3 = await cell.hosts.get(HostName("h3"))
    unreachable = replace(h3, name=HostName("h4"), id=ProviderId("h4"), service_id="h4", seen_at=0)
    await cell.hosts.register(unreachable)
    seen = await watch.look()
    for state in ("up", "disabled", "down", "forced_down"):
        assert seen("whimbrel_hosts", cell="c1", state=state) == 1, state
    assert seen("whimbrel_cell_up", cell="c1") == 1
    await front.world.cloud.cell_infos.add(CellInfo(name=CellName("c9")))  # and its database is not there
    seen = await watch.look()
    assert (seen("whimbrel_cell_up", cell="c9"), seen("whimbrel_hosts", cell="c9", state="up")) == (0, None)
    assert SERVICE_DOWN_S > FRESH_S


async def test_what_cannot_be_read_is_left_out_and_the_rest_is_shown(front: Front) -> None:
    watch = Watch(front)
    await watch.look()

    async def silence(*_: Any) -> list[Host]:
        raise Unavailable("it is down")

    [cell] = front.world.cloud.cells.values()
    cell.hosts.all = silence  # type: ignore[method-assign]
    front.world.cloud.journal.tally = silence  # type: ignore[assignment]
    seen = await watch.look()
    assert (seen("whimbrel_journal_up"), seen("whimbrel_cell_up", cell="c1")) == (0, 0)
    assert seen("whimbrel_hosts", cell="c1", state="up") is None
    assert seen("whimbrel_runs_overdue_seconds") is None
    assert seen("process_start_time_seconds")


async def test_clocks_of_live_processes_are_compared_with_the_databases(front: Front) -> None:
    await enter(front.world, "c1", -90.0)
    seen = await Watch(front).look()
    labels = {"role": "conductor", "process": "c1", "host": "of-c1"}
    assert seen("whimbrel_process_clock_offset_seconds", **labels) == -90.0
    await front.world.cloud.clock.sleep(LEASE_S)
    assert (await Watch(front).look())("whimbrel_process_clock_offset_seconds", **labels) is None


async def test_the_stores_are_asked_seldom(front: Front) -> None:
    watch = Watch(front)
    await watch.look()
    await front.act(await front.boot(settle=False), {"lock": None})  # no time goes by
    assert (await watch.glance())("whimbrel_runs_open", kind="create", step="choose_target", way="forward") is None
    assert (await watch.look())("whimbrel_runs_open", kind="create", step="choose_target", way="forward") == 1


async def test_the_latest_proof_shows_once_there_is_one_also_after_a_restart(front: Front) -> None:
    watch = Watch(front)
    names = ("timestamp_seconds", "violations", "unseen")
    assert (await watch.look())("whimbrel_last_proof_violations") is None
    await front.world.cloud.journal.note_proof(LastProof(at=1000.0, violations=2, unseen=1))
    seen = await watch.look()
    assert [seen(f"whimbrel_last_proof_{name}") for name in names] == [1000, 2, 1]
    for question in ("", "?progress=1"):
        await front.world.cloud.clock.sleep(100)
        before = front.world.cloud.clock.now()
        await front.ask("GET", f"/whimbrel/proof{question}", who="admin")
        for seen in (await watch.look(), await Watch(front).look()):
            assert [seen(f"whimbrel_last_proof_{name}") for name in names[1:]] == [0, 0]
            assert (seen("whimbrel_last_proof_timestamp_seconds") or 0) >= before


async def test_both_of_prometheus_formats_are_spoken(front: Front) -> None:
    watch = Watch(front)
    await front.boot()
    plain = await watch.ask()
    assert plain.headers["content-type"].startswith("text/plain; version=")
    names = {family.name for family in parse_text(plain.text)}
    newer = await watch.ask(accept=OPENMETRICS)
    assert newer.headers["content-type"].startswith("application/openmetrics-text")
    assert {family.name for family in parse_openmetrics(newer.text)} >= {
        name.removesuffix("_total") for name in names if name.startswith("whimbrel_") and not name.endswith("_info")
    }
    assert (await watch.ask("POST")).status_code == 405
    assert (await watch.ask("HEAD")).content == b""


async def test_nothing_of_a_server_or_a_user_is_in_it(front: Front) -> None:
    watch = Watch(front)
    server_id = await front.boot("secret-name")
    await front.act(server_id, {"resize": {"flavorRef": "2"}})
    await front.settle()
    text = (await watch.ask()).text
    server = await front.show(server_id, who="admin")
    for secret in (server_id, "secret-name", server["tenant_id"], server["user_id"], "h1", "h2", "h3"):
        assert secret not in text


@pytest.mark.parametrize("name", ["whimbrel_runs_ended_total", "whimbrel_hosts", "whimbrel_debts_oldest_seconds"])
async def test_every_figure_says_what_it_is(front: Front, name: str) -> None:
    watch = Watch(front)
    await front.boot()
    families = list(parse_text((await watch.ask()).text))
    [family] = [one for one in families if any(sample.name == name for sample in one.samples)]
    assert len(family.documentation) > 10
    assert family.type in ("counter", "gauge")
