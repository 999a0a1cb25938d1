"""The reports of a host's part in a snapshot to Cinder, which takes them only while it makes or deletes the snapshot.

Source: cinder/api/contrib/snapshot_actions.py.
"""

from typing import Any

import httpx
import msgspec
import pytest

from tests.httpx_service import HttpxService
from whimbrel.adapters.openstack.volumes import HttpVolumes
from whimbrel.domain.errors import Refused, Unavailable

SNAPSHOT, VOLUME = "3f0c5a0e-0000-4000-8000-000000000003", "3f0c5a0e-0000-4000-8000-000000000004"
TAKEN = {"creating": ("creating", "available", "error"), "deleting": ("deleting", "error_deleting")}


class Cinder:
    """One snapshot. refusing: whatever its status. silent: answers to reports that are lost."""

    def __init__(self, status: str, *, refusing: bool = False, silent: int = 0) -> None:
        self.status = status
        self.progress: str | None = None
        self._refusing = refusing
        self._silent = silent

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            shown = {"id": SNAPSHOT, "volume_id": VOLUME, "status": self.status, "size": 1}
            return httpx.Response(200, json={"snapshot": shown})
        assert request.url.path == f"/v3/snapshots/{SNAPSHOT}/action"
        sent: dict[str, Any] = msgspec.json.decode(request.content)["os-update_snapshot_status"]
        if self._refusing or sent["status"] not in TAKEN.get(self.status, ()):
            return httpx.Response(400, json={"badRequest": {"message": "not allowed", "code": 400}})
        self.status, self.progress = sent["status"], sent.get("progress", self.progress)
        if self._silent:
            self._silent -= 1
            raise httpx.ReadTimeout("lost")
        return httpx.Response(202)

    def volumes(self) -> HttpVolumes:
        client = httpx.AsyncClient(transport=httpx.MockTransport(self), base_url="http://cinder/v3")
        return HttpVolumes(HttpxService(client, "volume"))


@pytest.mark.parametrize("status", ["creating", "deleting"])
async def test_progress_is_reported_once_and_again(status: str) -> None:
    cinder = Cinder(status)
    for _ in "ab":
        await cinder.volumes().report_snapshot(SNAPSHOT, status, status, "90%")
    assert (cinder.status, cinder.progress) == (status, "90%")


@pytest.mark.parametrize(("was", "status"), [("creating", "error"), ("deleting", "error_deleting")])
async def test_a_failure_is_reported_once(was: str, status: str) -> None:
    cinder = Cinder(was)
    for _ in "ab":
        await cinder.volumes().report_snapshot(SNAPSHOT, was, status)
    assert (cinder.status, cinder.progress) == (status, None)


async def test_a_late_report_is_kept_back() -> None:
    cinder = Cinder("deleting")
    await cinder.volumes().report_snapshot(SNAPSHOT, "creating", "error")
    assert cinder.status == "deleting"


async def test_a_lost_answer_is_asked_for_again() -> None:
    cinder = Cinder("creating", silent=1)
    with pytest.raises(Unavailable):
        await cinder.volumes().report_snapshot(SNAPSHOT, "creating", "error")
    await cinder.volumes().report_snapshot(SNAPSHOT, "creating", "error")
    assert cinder.status == "error"


async def test_a_refused_report_is_not_taken_for_a_late_one() -> None:
    with pytest.raises(Refused):
        await Cinder("creating", refusing=True).volumes().report_snapshot(SNAPSHOT, "creating", "creating", "90%")
