"""Whatever is sent to the volume service, it answers, and never with an error of its own."""

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.anything import Anything
from tests.api.volume_cloud import IMAGE, SERVERS, VolumeCloud, volume_cloud
from tests.depth import examples
from whimbrel.embedded.volume.app import ROUTES
from whimbrel.embedded.volume.volume_actions import ACTIONS

NOBODYS = "00000000-0000-4000-8000-000000000000"
VERSIONS = ["3.0", "3.27", "3.44", "3.52", "3.53", "3.70", "latest"]
PEOPLE = ["root", "root", "nova", "ann", "ann", "eve"]
ANYTHING = Anything(
    *("ann", "p1", "name", "nova", "available", "default", "__DEFAULT__", "many", "files", "true", "rw"),
    *(NOBODYS, "{'a': 'b'}", "__class__"),
)
CONNECTOR = {"host": "n1", "ip": "127.0.0.1", "mountpoint": "/dev/vdb", "mode": "rw"}

GOOD: dict[str, list[Any]] = {
    "/volumes": [
        {
            "volume": {
                "size": 1,
                "name": "n",
                "metadata": {"a": "b"},
                "volume_type": "many",
                "availability_zone": "nova",
            }
        },
        {"volume": {"size": 1, "imageRef": IMAGE, "multiattach": False}},
    ],
    "/volumes/{volume_id}": [{"volume": {"name": "n", "description": None, "metadata": {"a": "b"}}}],
    "/snapshots/{snapshot_id}": [{"snapshot": {"name": "n", "description": "d"}}],
    "/snapshots/{snapshot_id}/action": [{"os-reset_status": {"status": "error"}}, {"os-force_delete": {}}],
    "/types": [{"volume_type": {"name": "new", "description": "d", "extra_specs": {"a": "b"}}}],
    "/types/{type_id}": [{"volume_type": {"name": "new", "is_public": False}}],
    "/types/{type_id}/action": [{"addProjectAccess": {"project": "p1"}}, {"removeProjectAccess": {"project": "p1"}}],
    "/attachments/{attachment_id}": [{"attachment": {"connector": CONNECTOR}}],
    "/attachments/{attachment_id}/action": [{"os-complete": {}}],
    "/os-services/{action}": [{"host": "nova@files", "binary": "cinder-volume"}],
    "/os-quota-sets/{target_id}": [{"quota_set": {"volumes": 1000, "gigabytes": -1}}],
    "/volumes/{volume_id}/metadata": [{"metadata": {"a": "b"}}],
    "/snapshots/{snapshot_id}/metadata": [{"metadata": {"a": "b"}}],
    "/types/{type_id}/extra_specs": [{"extra_specs": {"a": "b"}}],
    "/volumes/{volume_id}/metadata/{key}": [{"meta": {"a": "b"}}],
}
SENT: dict[str, Any] = {
    "os-extend": {"new_size": 2},
    "os-set_bootable": {"bootable": True},
    "os-update_readonly_flag": {"readonly": True},
    "os-retype": {"new_type": "many", "migration_policy": "never"},
    "os-volume_upload_image": {"image_name": "i", "force": True},
    "os-reset_status": {"status": "available", "attach_status": "detached"},
    "os-force_detach": {"attachment_id": NOBODYS},
    "os-set_image_metadata": {"metadata": {"a": "b"}},
    "os-unset_image_metadata": {"key": "a"},
}
GOOD["/volumes/{volume_id}/action"] = [{name: SENT.get(name, {})} for name in ACTIONS]

KEYS = ["name", "limit", "marker", "offset", "sort", "sort_key", "sort_dir", "status", "metadata", "bootable", "size"]
KEYS += ["all_tenants", "project_id", "with_count", "cascade", "force", "is_public", "usage", "detail", "instance_id"]
queries = st.lists(st.tuples(st.sampled_from(KEYS), ANYTHING.words), max_size=3)


@st.composite
def request(draw: st.DrawFn) -> tuple[Any, ...]:
    method, path, *_ = draw(st.sampled_from(ROUTES))
    spoilt = draw(st.integers(0, 5)) == 0
    name = draw(ANYTHING.words) if spoilt else None
    body = draw(st.sampled_from(GOOD.get(path, [{}])).flatmap(ANYTHING.nearly) | ANYTHING.values)
    return method, path, name, draw(st.sampled_from(PEOPLE)), draw(st.sampled_from(VERSIONS)), draw(queries), body


def test_anything(tmp_path: Path) -> None:
    @settings(derandomize=True, database=None, max_examples=examples(60), suppress_health_check=list(HealthCheck))
    @given(st.lists(request(), min_size=8, max_size=16))
    def send(sent: list[Any]) -> None:
        asyncio.run(_send(tmp_path, sent))

    send()


async def _send(directory: Path, sent: list[Any]) -> None:
    async with volume_cloud(directory) as cloud:
        known = await _seed(cloud)
        for method, path, spoilt, who, version, query, body in sent:
            url = "/".join(
                quote(known[part[1:-1]] if spoilt is None else spoilt, safe="") if "{" in part else part
                for part in path.split("/")
            )
            if path in ("/attachments", "/snapshots") and method == "POST" and spoilt is None:
                body = {path[1:-1]: {"volume_uuid": known["volume_id"], "volume_id": known["volume_id"]}}
            answer = await cloud.client.request(
                method,
                f"/v3{url}",
                params=query,
                content=None if method in ("GET", "DELETE") else json.dumps(body),
                headers={"X-Auth-Token": who, "OpenStack-API-Version": f"volume {version}"},
            )
            assert answer.status_code < 500, (method, url, who, version, query, body, answer.text)
            await cloud.worker.settle()


async def _seed(cloud: VolumeCloud) -> dict[str, str]:
    many = {"name": "many", "extra_specs": {"multiattach": "<is> True"}}
    kind = (await cloud.done("root", "POST", "/types", {"volume_type": many}))["volume_type"]["id"]
    volume = await cloud.volume()
    snapshot = (await cloud.done("ann", "POST", "/snapshots", {"snapshot": {"volume_id": volume}}))["snapshot"]["id"]
    requested = {"volume_uuid": volume, "instance_uuid": SERVERS[0]}
    attachment = (await cloud.done("nova", "POST", "/attachments", {"attachment": requested}))["attachment"]["id"]
    return {
        "volume_id": volume,
        "snapshot_id": snapshot,
        "type_id": kind,
        "attachment_id": attachment,
        "target_id": "p1",
        "class_name": "default",
        "alias": "os-services",
        "action": "enable",
        "key": "a",
        "host": "nova@files",
    }
