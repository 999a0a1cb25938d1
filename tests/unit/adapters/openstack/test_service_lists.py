"""Lists of Neutron and Cinder are read in pages, whatever the size of a page."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

from whimbrel.adapters.openstack.service_lists import CinderVolumes, NeutronPorts
from whimbrel.domain.errors import NotFound

PORTS: list[dict[str, Any]] = [
    {"id": f"p{number}", "device_id": f"S{number}", "device_owner": owner, "binding:host_id": host,
     "binding:vif_type": "ovs", "status": "ACTIVE", "revision_number": number, "updated_at": "2026-01-01T00:00:10Z"}
    for number, (owner, host) in enumerate(
        (("compute:nova", "n1"), ("network:dhcp", "n1"), ("compute:east", "n2"), ("compute:", ""))
    )
]  # fmt: skip
EGRESS = {"NET_BW_EGR_KILOBIT_PER_SEC": 5}
PACKETS = {"NET_PACKET_RATE_KILOPACKET_PER_SEC": 1}
PORTS[0]["resource_request"] = {"request_groups": [{"resources": EGRESS}, {"resources": PACKETS}]}
PORTS[2]["resource_request"] = {"required": ["CUSTOM_PHYSNET_0"], "resources": EGRESS}  # until Wallaby
VOLUME = {
    "id": "v", "name": None, "status": "in-use", "updated_at": "2026-01-01T00:00:10.500000",
    "attachments": [{"attachment_id": "a", "host_name": "n1"}], "migration_status": "migrating",
}  # fmt: skip
ATTACHMENTS = [
    {"id": "a", "volume_id": "v", "instance": "S1", "status": "attached"},
    {"id": "b", "volume_id": "v", "instance": None, "status": "reserved"},
    {"id": "c", "volume_id": "w", "instance": "s2", "status": "reserved"},
]
AT = 1767225610.0


class Service:
    """Answers two rows at a time, whatever limit is asked for. n2 has a second binding of p0."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, path: str) -> Any:
        self.asked.append(path)
        url = urlsplit(path)
        query = parse_qs(url.query)
        if url.path == "/v2.0/ports/p0/bindings":
            return {"bindings": [{"host": "n2", "status": "INACTIVE"}, {"host": "n1", "status": "ACTIVE"}]}
        if url.path == "/v3/volumes/v":
            return {"volume": VOLUME}
        name = next((each for each in ("ports", "volumes", "attachments") if f"/{each}" in path), "")
        rows: list[dict[str, Any]] = {"ports": PORTS, "volumes": [VOLUME], "attachments": ATTACHMENTS}[name]
        if url.path.rpartition("/")[2] not in ("ports", "detail"):
            raise NotFound(path)
        if ids := query.get("id"):
            rows = [row for row in rows if row["id"] in ids]
        if of := query.get("device_id"):
            rows = [row for row in rows if row["device_id"].lower() in of]
        if of := query.get("volume_id"):
            rows = [row for row in rows if row["volume_id"] in of]
        if host := query.get("binding:host_id"):
            rows = [row for row in rows if row["binding:host_id"] in host or (host == ["n2"] and row["id"] == "p0")]
        if "marker" in query:
            rows = rows[1 + [row["id"] for row in rows].index(query["marker"][0]) :]
        links = [{"rel": "next", "href": "..."}] * (len(rows) > 2)
        return {name: rows[:2], f"{name}_links": links}


def test_ports_of_servers_in_pages() -> None:
    pages = list(NeutronPorts(Service()).all())
    assert [[(port.id, port.server, port.host) for port in page] for page in pages] == [
        [("p0", "s0", "n1")],
        [("p2", "s2", "n2"), ("p3", "s3", "")],
    ]
    assert pages[0][0].touched == AT


def test_some_ports_and_other_bindings() -> None:
    ports = NeutronPorts(Service())
    assert [port.id for port in ports.some(["p0", "p3", "gone"])] == ["p0", "p3"]
    assert [id for ids in ports.also_bound_to("n2") for id in ids] == ["p0"]
    assert [(each.host, each.status) for each in ports.bindings("p0")] == [("n1", "ACTIVE"), ("n2", "INACTIVE")]
    assert ports.bindings("gone") == []


def test_what_ports_of_servers_ask_for() -> None:
    ports = NeutronPorts(Service()).of_servers(["s0", "s2", "s3", "gone"])
    assert [(port.id, dict(port.wants)) for port in ports] == [
        ("p0", {**EGRESS, **PACKETS}),
        ("p2", EGRESS),
        ("p3", {}),
    ]


def test_volumes_and_attachments_of_all_projects() -> None:
    service = Service()
    volumes = CinderVolumes(service)
    ((volume,),) = volumes.volumes()
    assert (volume.name, volume.status, volume.hosts, volume.touched) == ("", "in-use", {"a": "n1"}, AT + 0.5)
    assert volume.migrates
    assert [[each.id for each in page] for page in volumes.attachments()] == [["a", "b"], ["c"]]
    assert [(each.id, each.server) for each in volumes.attachments_of("v")] == [("a", "s1"), ("b", None)]
    assert [each.id for each in volumes.attachments_for("s1")] == ["a"]
    assert "instance_id=s1" in service.asked[-1]
    assert all("all_tenants=1" in path for path in service.asked)
    assert volumes.volume("v") == volume
    assert (volumes.volume("gone"), volumes.attachment("gone")) == (None, None)
