"""Lists of Neutron and Cinder for the doctor, read in pages: implements PortRecords and VolumeRecords."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from whimbrel.doctor.service_records import OF_COMPUTE, Attachment, Binding, Port, Volume
from whimbrel.domain.batches import batches
from whimbrel.domain.errors import NotFound

PAGE = 1000
PIECE = 50
"""Ids in one URL."""

Get = Callable[[str], Any]
"""Sends GET to a path of a service and returns the decoded answer. Raises: NotFound; Refused; Unavailable."""

_PORT = [
    ("fields", name)
    for name in (
        "id", "device_id", "device_owner", "binding:host_id", "binding:vif_type", "status", "revision_number",
        "updated_at", "resource_request",
    )
]  # fmt: skip


class NeutronPorts:
    def __init__(self, get: Get) -> None:
        self._get = get

    def all(self) -> Iterator[Sequence[Port]]:
        for page in self._pages(_PORT):
            yield _ports(page)

    def some(self, ids: Sequence[str]) -> Sequence[Port]:
        return self._among("id", ids)

    def of_servers(self, ids: Sequence[str]) -> Sequence[Port]:
        return self._among("device_id", ids)

    def _among(self, field: str, ids: Sequence[str]) -> Sequence[Port]:
        found: list[Port] = []
        for some in batches(ids, PIECE):
            named = [(field, id) for id in some]
            found += _ports(row for page in self._pages([*_PORT, *named]) for row in page)
        return found

    def also_bound_to(self, host: str) -> Iterator[Sequence[str]]:
        """The filter by host is about any binding of a port; the answer shows the host of the active one."""
        query = [("binding:host_id", host), ("fields", "id"), ("fields", "binding:host_id")]
        for page in self._pages(query):
            yield [row["id"] for row in page if row.get("binding:host_id") not in (host, "")]

    def bindings(self, port: str) -> Sequence[Binding]:
        try:
            rows = self._get(f"/v2.0/ports/{port}/bindings")["bindings"]
        except NotFound:
            return []
        return sorted(Binding(row["host"], row["status"]) for row in rows)

    def _pages(self, query: list[tuple[str, str]]) -> Iterator[list[dict[str, Any]]]:
        marker: list[tuple[str, str]] = []
        while True:
            answer = self._get("/v2.0/ports?" + urlencode([*query, ("limit", str(PAGE)), *marker]))
            rows: list[dict[str, Any]] = answer["ports"]
            yield rows
            if not rows or not _has_next(answer.get("ports_links")):
                return
            marker = [("marker", rows[-1]["id"])]


def _ports(rows: Any) -> list[Port]:
    return [
        Port(
            id=row["id"],
            server=row["device_id"].lower(),
            host=row.get("binding:host_id") or "",
            vif_type=row.get("binding:vif_type") or "",
            status=row.get("status") or "",
            revision=row.get("revision_number") or 0,
            touched=_seconds(row.get("updated_at")),
            wants=_wants(row.get("resource_request") or {}),
        )
        for row in rows
        if row["device_id"] and (row.get("device_owner") or "").startswith(OF_COMPUTE)
    ]


def _wants(request: dict[str, Any]) -> dict[str, int]:
    """Return what a port asks for, by resource class. Before the groups of Xena a request was one of them."""
    found: dict[str, int] = {}
    for group in request.get("request_groups") or [request]:
        for name, amount in group.get("resources", {}).items():
            found[name] = found.get(name, 0) + amount
    return found


class CinderVolumes:
    """get: with a microversion of at least 3.27, where attachments are shown."""

    def __init__(self, get: Get) -> None:
        self._get = get

    def volumes(self) -> Iterator[Sequence[Volume]]:
        for page in self._pages("volumes"):
            yield [_volume(row) for row in page]

    def volume(self, id: str) -> Volume | None:
        try:
            return _volume(self._get(f"/v3/volumes/{id}")["volume"])
        except NotFound:
            return None

    def attachments(self) -> Iterator[Sequence[Attachment]]:
        for page in self._pages("attachments"):
            yield [_attachment(row) for row in page]

    def attachment(self, id: str) -> Attachment | None:
        try:
            return _attachment(self._get(f"/v3/attachments/{id}")["attachment"])
        except NotFound:
            return None

    def attachments_of(self, volume: str) -> Sequence[Attachment]:
        return self._attachments("volume_id", volume)

    def attachments_for(self, server: str) -> Sequence[Attachment]:
        return [each for each in self._attachments("instance_id", server) if each.server == server]

    def _attachments(self, key: str, id: str) -> Sequence[Attachment]:
        return [_attachment(row) for page in self._pages("attachments", (key, id)) for row in page]

    def _pages(self, what: str, *query: tuple[str, str]) -> Iterator[list[dict[str, Any]]]:
        marker: list[tuple[str, str]] = []
        while True:
            asked = [("all_tenants", "1"), ("limit", str(PAGE)), *query, *marker]
            answer = self._get(f"/v3/{what}/detail?{urlencode(asked)}")
            rows: list[dict[str, Any]] = answer[what]
            yield rows
            if not rows or not _has_next(answer.get(f"{what}_links")):
                return
            marker = [("marker", rows[-1]["id"])]


def _volume(row: dict[str, Any]) -> Volume:
    return Volume(
        id=row["id"],
        name=row.get("name") or "",
        status=row["status"],
        hosts={each["attachment_id"]: each.get("host_name") or "" for each in row.get("attachments") or ()},
        touched=_seconds(row.get("updated_at") or row.get("created_at")),
        migration=row.get("migration_status") or "",
    )


def _attachment(row: dict[str, Any]) -> Attachment:
    return Attachment(
        id=row["id"],
        volume=row["volume_id"],
        server=row["instance"].lower() if row.get("instance") else None,
        status=row["status"],
    )


def _has_next(links: Any) -> bool:
    return any(each.get("rel") == "next" for each in links or ())


def _seconds(time: str | None) -> float:
    """Return a time in UTC, with or without its zone, as seconds; 0: there is none."""
    if not time:
        return 0.0
    found = datetime.fromisoformat(time)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
