"""OpenStack Placement for tests: its own program on a database of its own, on MariaDB or PostgreSQL.

WHIMBREL_TEST_PLACEMENT is a virtual environment with openstack-placement, and with PyMySQL and psycopg2 for its
databases. WHIMBREL_TEST_MARIADB is the URL of a MariaDB in which tests may create databases; it needs PyMySQL here too.
"""

import os
import re
import subprocess
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa

from tests.api.placement_client import Client
from tests.prerequisites import POSTGRES, missing
from tests.processes import HANG_S

ENVIRONMENT = os.environ.get("WHIMBREL_TEST_PLACEMENT", "")
MARIADB = os.environ.get("WHIMBREL_TEST_MARIADB", "mysql://root@127.0.0.1:3306/")

SETTINGS = """
[DEFAULT]
log_file = {directory}/placement.log
[placement_database]
connection = {url}
sync_on_startup = true
[api]
auth_strategy = noauth2
[oslo_policy]
policy_file = {directory}/policy.yaml
"""
POLICY = """
"placement:reshaper:reshape": "rule:admin_or_service_api"
"""

# Below /placement, as it is in a cloud and in the tests of Whimbrel's own.
PROGRAM = """
import socketserver, wsgiref.simple_server
from placement import wsgi

class Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    daemon_threads = True

class Quiet(wsgiref.simple_server.WSGIRequestHandler):
    protocol_version = "HTTP/1.0"
    def log_message(self, *words):
        pass

application = wsgi.init_application()

def mounted(environ, start_response):
    environ["SCRIPT_NAME"], environ["PATH_INFO"] = "/placement", environ["PATH_INFO"].removeprefix("/placement")
    return application(environ, start_response)

server = Server(("127.0.0.1", 0), Quiet)
server.set_app(mounted)
print(server.server_port, flush=True)
server.serve_forever()
"""


DRIVER = re.compile(r"\+\w+")
EMPTIED = (
    *("allocations", "consumers", "consumer_types", "projects", "users", "inventories", "resource_provider_traits"),
    *("resource_provider_aggregates", "placement_aggregates", "resource_providers"),
)


class RealPlacement:
    """A database, and the program while `running`. url: as placement.conf has it."""

    def __init__(self, directory: Path, url: str) -> None:
        self.url = url
        self.settings = directory / "placement.conf"
        self.settings.write_text(SETTINGS.format(url=url, directory=directory))
        (directory / "policy.yaml").write_text(POLICY)
        self._environment = {**os.environ, "OS_PLACEMENT_CONFIG_DIR": str(directory)}

    def manage(self, *words: str) -> None:
        """Run placement-manage."""
        program = Path(ENVIRONMENT, "bin", "placement-manage")
        subprocess.run([program, "--config-file", self.settings, *words], check=True, capture_output=True)

    def empty(self) -> None:
        """Delete everything but the standard names. The program remembers nothing from one request to the next."""
        engine = sa.create_engine(DRIVER.sub("+pymysql" if "mysql" in self.url else "+psycopg", self.url, count=1))
        with engine.begin() as connection:
            connection.execute(
                sa.text("UPDATE resource_providers SET parent_provider_id = NULL, root_provider_id = NULL")
            )
            for table in EMPTIED:
                connection.execute(sa.text(f"DELETE FROM {table}"))
            for table in ("resource_classes", "traits"):
                connection.execute(sa.text(f"DELETE FROM {table} WHERE name LIKE 'CUSTOM%'"))
        engine.dispose()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Client]:
        """Start the program, and yield a client."""
        words = [str(Path(ENVIRONMENT, "bin", "python")), "-c", PROGRAM]
        with subprocess.Popen(words, env=self._environment, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout
                port = process.stdout.readline().strip()
                assert port, "it did not start"
                async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=HANG_S) as http:
                    yield Client(http, None)
            finally:
                process.kill()


def needed() -> None:
    """Skip the test if there is no OpenStack Placement."""
    if not ENVIRONMENT:
        pytest.skip(
            "WHIMBREL_TEST_PLACEMENT names no virtual environment with openstack-placement; see CONTRIBUTING.md"
        )


@contextmanager
def new_database(kind: str) -> Iterator[str]:
    """Make a database of the test's own, and yield its URL as placement.conf has it. kind: mariadb or postgresql."""
    name = f"placement_{uuid.uuid4().hex[:12]}"
    if kind == "mariadb":
        server = sa.make_url(MARIADB).set(drivername="mysql+pymysql")
        theirs = server.set(database=name)
    else:
        server = sa.make_url(POSTGRES).set(drivername="postgresql+psycopg")
        theirs = server.set(drivername="postgresql+psycopg2", database=name)
    engine = sa.create_engine(server, poolclass=sa.pool.NullPool, isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            connection.execute(sa.text(f"CREATE DATABASE {name}"))
    except sa.exc.OperationalError as error:
        missing(f"no {kind} at {server.render_as_string()} ({error.orig})", f"apt install {kind}")
    try:
        yield theirs.render_as_string(hide_password=False)
    finally:
        with engine.connect() as connection:
            connection.execute(sa.text(f"DROP DATABASE {name}{' WITH (FORCE)' if kind == 'postgresql' else ''}"))
