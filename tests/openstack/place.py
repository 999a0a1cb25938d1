"""Where the services of one start are: directories, ports, databases, and the logins that all of them share."""

import os
import socket
from dataclasses import dataclass, field
from pathlib import Path

HOST = "127.0.0.1"
REGION = "RegionOne"
PHYSICAL_NETWORK = "physnet0"
BRIDGE = "br-ens5"
HOSTS = ("n1", "n2", "n3", "s1", "s2", "s3")
"""Hosts on which ports can be bound."""

BANDWIDTH_KBPS = 10_000_000
SHARES = {"nfs": "volumes", "growing": "growing"}
"""Back ends of Cinder, and the shares of which their volumes are files."""

SERVICES = ("keystone", "glance", "neutron", "cinder", "placement")

MARIADB = os.environ.get("WHIMBREL_TEST_MARIADB", "mysql+pymysql://root@127.0.0.1:3306")
"""A MariaDB server in which databases may be made and dropped, in SQLAlchemy's notation."""

RABBITMQ = os.environ.get("WHIMBREL_TEST_RABBITMQ", "rabbit://guest:guest@127.0.0.1:5672/")
"""A RabbitMQ server; its virtual host may have no other OpenStack."""


def _free_port() -> int:
    with socket.socket() as free:
        free.bind((HOST, 0))
        port: int = free.getsockname()[1]
        return port


@dataclass(frozen=True)
class Place:
    """directory: everything is written below it. venv: the services are installed there."""

    directory: Path
    venv: Path
    compute_url: str  # the compute endpoint of the catalog
    prefix: str = field(default_factory=lambda: f"whimbrel_{os.getpid()}_")  # of the databases
    password: str = "secret"  # of each user
    ports: dict[str, int] = field(default_factory=lambda: {name: _free_port() for name in SERVICES})

    @property
    def etc(self) -> Path:
        return self.directory / "etc"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def processes(self) -> Path:
        """The files with the process ids of the services, by their names."""
        return self.data / "processes"

    def share(self, name: str) -> Path:
        """Return the directory that stands for a share."""
        return self.data / "shares" / name

    @property
    def clouds(self) -> Path:
        return self.directory / "clouds.yaml"

    @property
    def keystone(self) -> str:
        return f"{self.url('keystone')}/v3"

    def url(self, service: str) -> str:
        return f"http://{HOST}:{self.ports[service]}"

    def settings(self, service: str) -> Path:
        """Return the settings file of a service."""
        return self.etc / service / ("glance-api.conf" if service == "glance" else f"{service}.conf")

    def program(self, name: str) -> str:
        return str(self.venv / "bin" / name)

    def database(self, service: str) -> str:
        return f"{MARIADB}/{self.prefix}{service}?charset=utf8mb3"
