"""Memory and time of `whimbrel doctor` over many servers: generated databases, and a Neutron and a Cinder that page.

Each server has a mapping, a request spec, an allocation, a port and an attached volume; some are broken. The doctor is
a process of its own, so its memory is its own: `python bench/bench_doctor.py [SERVERS]`.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import sqlalchemy as sa
from figures import report

from whimbrel.adapters.sql.nova_databases import nova_tables as nova
from whimbrel.adapters.sql.placement_transfer import openstack_tables as placement

SERVERS = 100_000
HOSTS = 1000
BROKEN = 5000  # one in so many has lost its allocation, and one its port's host
PIECE = 5000
OLD = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)
WRITTEN = "2026-01-01T00:00:00Z"
SPEC = {
    "nova_object.data": {"availability_zone": None, "flavor": {"nova_object.data": {"id": 1}}, "padding": "x" * 4000}
}
CLOUDS = """
clouds:
  bench: {{auth: {{auth_url: "{url}", username: u, password: p, project_name: p}}}}
"""


def id_of(kind: int, number: int) -> str:
    spread = number * 2654435761 % 2**32
    return f"{spread:08x}-0000-4000-8000-{kind:04x}{number:08x}"


def host_of(number: int) -> str:
    return f"n{number % HOSTS}"


def number_of(id: str) -> int:
    return int(id[-8:], 16)


class Databases:
    def __init__(self, directory: Path) -> None:
        self.urls = {name: f"sqlite:///{directory / name}.sqlite" for name in ("api", "cell", "placement")}
        self._engines = {name: sa.create_engine(url) for name, url in self.urls.items()}
        versions = {"api": nova.API_VERSIONS, "cell": nova.CELL_VERSIONS, "placement": placement.KNOWN_VERSIONS}
        for name, engine in self._engines.items():
            (placement if name == "placement" else nova).metadata.create_all(engine)
            with engine.begin() as connection:
                placement.alembic_version.create(connection, checkfirst=True)
                for table in (nova if name != "placement" else placement).metadata.sorted_tables:
                    for column in ("instance_uuid", "uuid", "consumer_id", "volume_id", "attachment_id"):
                        if column in table.c:
                            sa.Index(f"{table.name}_{column}", table.c[column]).create(connection, checkfirst=True)
            self.add(name, placement.alembic_version, [{"version_num": versions[name][-1]}])

    def add(self, name: str, table: sa.Table, rows: list[dict[str, Any]]) -> None:
        with self._engines[name].begin() as connection:
            connection.execute(sa.insert(table), rows)


def fill(made: Databases, servers: int) -> None:
    times = {"created_at": OLD, "updated_at": OLD}
    made.add(
        "api", nova.cell_mappings, [{"id": 1, "uuid": "c", "name": "one", "database_connection": made.urls["cell"]}]
    )
    nodes = [(index + 1, id_of(9, index), f"n{index}") for index in range(HOSTS)]
    made.add("cell", nova.compute_nodes, [
        {"id": i, "uuid": u, "host": h, "hypervisor_hostname": h, "deleted": 0} for i, u, h in nodes])  # fmt: skip
    made.add("placement", placement.providers,
             [{"id": i, "uuid": u, "name": h, "root_provider_id": i} for i, u, h in nodes])  # fmt: skip
    classes = ("VCPU", "MEMORY_MB", "DISK_GB")
    made.add("placement", placement.resource_classes, [{"id": i, "name": name} for i, name in enumerate(classes, 1)])
    flavor, spec = json.dumps({"cur": {"nova_object.data": {"id": 1, "extra_specs": {}}}}), json.dumps(SPEC)
    for start in range(0, servers, PIECE):
        numbers = range(start, min(start + PIECE, servers))
        ids = {number: id_of(1, number) for number in numbers}
        made.add("cell", nova.instances, [
            {**times, "uuid": ids[n], "display_name": f"s{n}", "host": host_of(n), "node": host_of(n),
             "vm_state": "active", "vcpus": 1, "memory_mb": 512, "instance_type_id": 1, "hidden": False, "deleted": 0,
             "launched_at": OLD}
            for n in numbers])  # fmt: skip
        made.add(
            "cell", nova.instance_extra, [{"instance_uuid": ids[n], "flavor": flavor, "deleted": 0} for n in numbers]
        )
        made.add("cell", nova.block_device_mapping, [
            {**times, "instance_uuid": ids[n], "volume_id": id_of(3, n), "attachment_id": id_of(4, n), "deleted": 0}
            for n in numbers])  # fmt: skip
        made.add("api", nova.instance_mappings, [
            {**times, "instance_uuid": ids[n], "cell_id": 1, "queued_for_delete": False} for n in numbers])  # fmt: skip
        made.add("api", nova.request_specs, [{**times, "instance_uuid": ids[n], "spec": spec} for n in numbers])
        made.add("placement", placement.consumers, [
            {**times, "uuid": ids[n], "project_id": 1, "user_id": 1, "generation": 1} for n in numbers])  # fmt: skip
        made.add("placement", placement.allocations, [
            {**times, "consumer_id": ids[n], "resource_provider_id": n % HOSTS + 1, "resource_class_id": c,
             "used": used}
            for n in numbers if n % BROKEN != 1 for c, used in ((1, 1), (2, 512), (3, 1))])  # fmt: skip


class Services(BaseHTTPRequestHandler):
    """Keystone, Neutron and Cinder, computed from the number of a server."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: otherwise each answer waits 40 ms for an acknowledgement
    servers = SERVERS

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))  # the connection is used again
        url = f"http://127.0.0.1:{self.server.server_address[1]}"
        catalog = [{"type": type, "endpoints": [{"interface": "public", "url": f"{url}/{type}"}]}
                   for type in ("network", "block-storage")]  # fmt: skip
        self._answer({"token": {"roles": [{"name": "admin"}], "catalog": catalog}})

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        asked, last = parse_qs(url.query), url.path.rpartition("/")[2]
        first = number_of(asked["marker"][0]) + 1 if "marker" in asked else 0
        page = range(first, min(first + 1000, self.servers))
        links = [{"rel": "next", "href": ""}] * (page.stop < self.servers)
        if last == "bindings":
            bound = port(number_of(url.path.split("/")[-2]))["binding:host_id"]
            self._answer({"bindings": [{"host": bound, "status": "ACTIVE"}]})
        elif last == "ports" and "binding:host_id" in asked:
            self._answer({"ports": [], "ports_links": []})
        elif last == "ports" and "id" in asked:
            self._answer({"ports": [port(number_of(id)) for id in asked["id"]], "ports_links": []})
        elif last == "ports":
            self._answer({"ports": [port(number) for number in page], "ports_links": links})
        else:
            what, make = ("volumes", volume) if "/volumes/" in url.path else ("attachments", attachment)
            filters = [number_of(asked[name][0]) for name in ("volume_id", "instance_id") if name in asked]
            if last != "detail":
                self._answer({what.removesuffix("s"): make(number_of(last))})
            else:
                rows = [make(number) for number in filters or page]
                self._answer({what: rows, f"{what}_links": [] if filters else links})

    def _answer(self, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.send_header("x-subject-token", "t")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None: ...


def port(n: int) -> dict[str, Any]:
    return {"id": id_of(2, n), "device_id": id_of(1, n), "device_owner": "compute:nova", "status": "ACTIVE",
            "binding:host_id": host_of(n + (n % BROKEN == 2)), "binding:vif_type": "ovs", "revision_number": 3,
            "updated_at": WRITTEN}  # fmt: skip


def volume(n: int) -> dict[str, Any]:
    return {"id": id_of(3, n), "name": f"v{n}", "status": "in-use", "updated_at": WRITTEN,
            "attachments": [{"attachment_id": id_of(4, n), "host_name": host_of(n)}]}  # fmt: skip


def attachment(n: int) -> dict[str, Any]:
    return {"id": id_of(4, n), "volume_id": id_of(3, n), "instance": id_of(1, n), "status": "attached"}


def main(servers: int) -> None:
    with tempfile.TemporaryDirectory(prefix="whimbrel-doctor-") as name:
        directory = Path(name)
        made = Databases(directory)
        fill(made, servers)
        Services.servers = servers
        service = ThreadingHTTPServer(("127.0.0.1", 0), Services)
        Thread(target=service.serve_forever, daemon=True).start()
        (directory / "clouds.yaml").write_text(CLOUDS.format(url=f"http://127.0.0.1:{service.server_port}"))
        (directory / "nova").write_text(made.urls["api"])
        (directory / "placement").write_text(made.urls["placement"])
        command = [sys.executable, "-m", "whimbrel", "doctor", "--json", "--look-again", "0", "--os-cloud", "bench",
                   "--nova-conf", directory / "nova", "--placement-conf", directory / "placement"]  # fmt: skip
        environment = {**os.environ, "OS_CLIENT_CONFIG_FILE": str(directory / "clouds.yaml")}
        began = time.perf_counter()
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=False)
        took = time.perf_counter() - began
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        found = json.loads(done.stdout)["doctor"]
        report("doctor", servers=found["servers"], findings=len(found["findings"]), peak_mib=used.ru_maxrss / 1024,
               processor_s=used.ru_utime + used.ru_stime, clock_s=took)  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else SERVERS)
