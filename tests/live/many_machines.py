"""A cloud of many machines for tests: each process has a machine of its own, and is started as the documentation says.

PostgreSQL with a synchronous replica, a cluster of NATS servers, a private CA, API processes behind a load balancer,
conductors, the image and the volume service, and agents that have joined by invitation: of simulated hosts, and of real
ones, each of which has a libvirtd of its own.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from tests.live.libvirt_hosts import LibvirtHosts, require_libvirt
from tests.live.libvirt_watch import LibvirtWatch
from tests.live.machine_network import Machine, MachineNetwork, MachineProgram, machine_network
from tests.live.openstack_client import openstack_client
from tests.prerequisites import missing
from tests.processes import HANG_S
from whimbrel.settings.datadir import DataDir

API_PORT, IMAGE_PORT, VOLUME_PORT, BALANCER_PORT, BUS_PORT, CLUSTER_PORT = 8774, 9292, 8776, 8000, 4222, 6222
POSTGRES_PORT = 5432
LIBVIRT_ZONE = "libvirt"
LIBVIRT = """\
driver = "libvirt"
uri = "{uri}"
guests_dir = "{directory}"
guest_nics = "user"
nbd_address = "{address}"
peer_uri = "{uri}"
migration_address = "{address}"
tcg_live_migration = "allow"

[storage]
network = "{network}"
"""
READY = {"api": "is up", "image": "is up", "volume": "is up", "conductor": "is ready", "agent": "serves"}


BRIEF_WORK = """
[simulated]
build_disk_s = 0.2
copy_disk_s = 0.5
start_s = 0.1
stop_s = 0.1
"""
"""A table of settings: simulated hosts take some time for what they do, so that it is interrupted."""


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """How many processes of each kind.

    cells: name -> number of simulated hosts. libvirt: name of a cell -> number of libvirt hosts. wrong_clocks: names of
    processes whose clock is an hour fast.
    """

    apis: int = 2
    conductors: int = 2
    bus_servers: int = 1
    replicas: int = 0
    cells: Mapping[str, int]
    libvirt: Mapping[str, int] = {}
    wrong_clocks: tuple[str, ...] = ()


class ManyMachines:
    """The cloud. programs: of Whimbrel, by name, such as "api1" or "h1". libvirt: the real hosts, by name.

    sources: of the release whose commands are run and whose processes are started; None: this one.
    """

    def __init__(self, network: MachineNetwork, sizes: Sizes, rules: str) -> None:
        """rules: further tables of the settings."""
        self.network = network
        self.sizes = sizes
        self.directory = network.directory
        self.home = DataDir(self.directory / "operator")
        self.witness = self.directory / "witness"
        self.sources: Path | None = None
        self.settings = self.directory / "whimbrel.toml"
        self.programs: dict[str, MachineProgram] = {}
        self.libvirt: dict[str, LibvirtHosts] = {}
        self.watch = LibvirtWatch(self.libvirt)
        self.bus: list[MachineProgram] = []
        self.postgres: list[MachineProgram] = []
        self._pki = self.directory / "pki"
        self._balancer: subprocess.Popen[str] | None = None
        self._rules = rules
        self._bus_machines = [network.machine(f"bus{number}") for number in range(1, sizes.bus_servers + 1)]
        self.database_machines = [network.machine(f"pg{number}") for number in range(1, sizes.replicas + 2)]

    @property
    def hosts(self) -> dict[str, str]:
        """Return the cell of each host."""
        cells = {"h": self.sizes.cells, "libvirt": self.sizes.libvirt}
        homes = {kind: [cell for cell in of for _ in range(of[cell])] for kind, of in cells.items()}
        return {f"{kind}{number}": cell for kind in homes for number, cell in enumerate(homes[kind], 1)}

    def zone(self, host: str) -> str:
        return LIBVIRT_ZONE if host.startswith("libvirt") else f"zone-{self.hosts[host]}"

    @property
    def url(self) -> str:
        return f"https://{self.network.own_address}:{BALANCER_PORT}"

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
        return kept | self._release() | {"OS_CLIENT_CONFIG_FILE": str(self.home.clouds), "OS_CLOUD": "whimbrel-admin"}

    def _release(self) -> dict[str, str]:
        """Return the environment that chooses a release."""
        return {"PYTHONPATH": str(self.sources)} if self.sources else {}

    # Commands

    def whimbrel(self, *words: str) -> str:
        """Run a command on the operator's machine; return what it wrote."""
        done = self.try_whimbrel(*words)
        assert done.returncode == 0, f"whimbrel {' '.join(words)}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def try_whimbrel(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command on the operator's machine, whatever comes of it."""
        return subprocess.run(
            [sys.executable, "-m", "whimbrel", *words],
            capture_output=True, text=True, check=False, env=self.environment, cwd=self.directory,
        )  # fmt: skip

    def openstack(self, *words: str) -> Any:
        """Run an `openstack` command that gives JSON."""
        done = openstack_client().run([*words, "-f", "json"], self.environment)
        assert done.returncode == 0, f"openstack {' '.join(words)}:\n{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout or "null")

    # Start

    def start(self) -> None:
        """Start everything, from nothing to hosts that accept servers."""
        self._make_certificates()
        self._start_postgres()
        self._write_settings()
        self.whimbrel("db", "upgrade", "--settings", str(self.settings))
        self._start_bus()
        self._start_balancer()
        for role, port in (("image", IMAGE_PORT), ("volume", VOLUME_PORT)):
            machine = self.network.machine(role)
            self.run(role, machine, role, "--data-dir", str(machine.directory / "data"), "--port", str(port))
        for number in range(1, self.sizes.apis + 1):
            machine = self.network.machine(f"api{number}")
            self.run("api", machine, machine.name, "--port", str(API_PORT))
        for number in range(1, self.sizes.conductors + 1):
            machine = self.network.machine(f"conductor{number}")
            self.run("conductor", machine, machine.name, "--name", machine.name)
        self.wait_until_ready("image", "volume")
        self.whimbrel("bootstrap", "--directory", str(self.home.path), "--settings", str(self.settings))
        self.wait_until_ready(*self.programs)
        for host, cell in self.hosts.items():
            self.add_host(host, cell)
        self.watch.start()

    def add_host(self, host: str, cell: str) -> None:
        """Invite a host, have it join, start its agent and enable it."""
        machine = self.network.machine(host)
        directory = machine.directory / "agent"
        token = json.loads(self.whimbrel("host", "invite", host, "--cell", cell, "--json"))["invitation"]["token"]
        self._execute(machine, "agent", "join", token, "--dir", str(directory))
        driver = self._start_libvirt(machine) if self.zone(host) == LIBVIRT_ZONE else self._simulated(machine)
        (directory / "whimbrel.toml").write_text(
            f'[host]\nzone = "{self.zone(host)}"\nvcpus = 16\nmemory_mib = 32768\ndisk_gib = 400\n'
            f"{driver}\n{self._rules}"
        )
        program = self._made(machine, host, "agent", "--dir", str(directory))
        program.start()
        program.wait_until_it_says(READY["agent"])
        self.whimbrel("host", "enable", host)

    def _simulated(self, machine: Machine) -> str:
        """Return the settings of a simulated host."""
        return f'driver = "simulated"\naddress = "{machine.address}"\nwitness = "{self.witness}"\n'

    def _start_libvirt(self, machine: Machine) -> str:
        """Start a libvirtd on the machine, and return the settings of its host."""
        root = machine.directory / "libvirt"
        root.mkdir()
        hosts = self.libvirt[machine.name] = LibvirtHosts(root, [machine.name], machine.prefix)
        hosts.start(machine.name)
        daemon = hosts.daemons[machine.name]
        return LIBVIRT.format(
            uri=daemon.uri, directory=daemon.guests_dir, address=machine.address, network=self.network.addresses
        )

    def run(self, role: str, machine: Machine, name: str, *options: str) -> None:
        """Start a process of a role."""
        arguments = [role, "--settings", str(self._settings_of(machine)), *options]
        if role in ("api", "image", "volume"):
            arguments += ["--host", machine.address]
        self._made(machine, name, *arguments).start()

    def _execute(self, machine: Machine, *words: str) -> None:
        """Run a command of Whimbrel on a machine to its end."""
        chosen = [f"{name}={value}" for name, value in self._release().items()]
        done = machine.execute("env", *chosen, sys.executable, "-m", "whimbrel", *words)
        assert done.returncode == 0, done.stdout + done.stderr

    def _made(self, machine: Machine, name: str, *arguments: str) -> MachineProgram:
        program = self.programs[name] = machine.whimbrel(name, *arguments)
        program.environment = self._environment_of(name)
        return program

    def _environment_of(self, name: str) -> dict[str, str]:
        return self._release() | (an_hour_fast() if name in self.sizes.wrong_clocks else {})

    def wait_until_ready(self, *names: str) -> None:
        for name in names:
            self.programs[name].wait_until_it_says(READY[name.rstrip("0123456789")])

    def cut_power(self, host: str) -> None:
        """Kill the agent of a host, and its simulated guests: they run nowhere, as far as the witness knows."""
        self.programs[host].kill()
        for file in self.witness.iterdir():
            if file.read_text() == host:
                file.unlink()

    def restart(self, name: str) -> None:
        """Start a process of Whimbrel again that has ended or was killed, of the release that is chosen now."""
        self.programs[name].environment = self._environment_of(name)
        self.programs[name].start()

    def replace(self, name: str) -> None:
        """End a process of Whimbrel, and start it with the release that is chosen now."""
        program = self.programs[name]
        assert program.ended_by(signal.SIGTERM) == 0, program.output[-3000:]
        self.restart(name)

    # Parts

    def _make_certificates(self) -> None:
        self.whimbrel("pki", "init", "--dir", str(self._pki))
        names = ["image", "volume", *(f"api{number}" for number in range(1, self.sizes.apis + 1))]
        for name in names:
            machine = self.network.machine(name)
            self.whimbrel("pki", "issue", name, machine.address, self.network.own_address, "--dir", str(self._pki))
        for machine in self._bus_machines:
            self.whimbrel("pki", "issue", machine.name, machine.address, "--dir", str(self._pki), "--use", "both")

    def _start_postgres(self) -> None:
        """Start a primary, and synchronous replicas of it."""
        binaries = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
        if not binaries:
            missing("there is no PostgreSQL server", "apt-get install postgresql")
        self._postgres_bin = binaries[-1]
        primary, *others = self.database_machines
        data = self._database_directory(primary)
        as_postgres(str(self._postgres_bin / "initdb"), "-A", "trust", "-U", "whimbrel", "-D", str(data))
        with (data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all all trust\nhost replication all all trust\n")
        with (data / "postgresql.conf").open("a") as settings:
            settings.write("fsync = off\nmax_connections = 200\nlisten_addresses = '*'\n")
        self._start_database(primary, data)
        self.sql(primary, "postgres", "CREATE DATABASE whimbrel")
        for machine in others:
            copy = self._database_directory(machine)
            source = f"host={primary.address} user=whimbrel application_name={machine.name}"
            as_postgres(str(self._postgres_bin / "pg_basebackup"), "-D", str(copy), "-R", "-d", source)
            self._start_database(machine, copy)
        if others:
            self.sql(primary, "postgres", f"ALTER SYSTEM SET synchronous_standby_names = '{others[0].name}'")
            self.sql(primary, "postgres", "SELECT pg_reload_conf()")

    def _database_directory(self, machine: Machine) -> Path:
        shutil.chown(machine.directory, "postgres")
        return machine.directory / "data"

    def _start_database(self, machine: Machine, data: Path) -> None:
        command = [str(self._postgres_bin / "postgres"), "-D", str(data), "-k", ""]
        program = machine.program(machine.name, *AS_POSTGRES, *command)
        program.start()
        self.postgres.append(program)
        program.wait_until_it_says("ready to accept")

    def sql(self, machine: Machine, database: str, statement: str) -> str:
        words = ["psql", "-qAt", f"host={machine.address} user=whimbrel dbname={database}", "-c", statement]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def primary(self) -> Machine:
        """Return the machine of the database that runs and is no replica."""
        places = zip(self.database_machines, self.postgres, strict=True)
        return next(machine for machine, program in places if program.is_running)

    def dump(self, file: Path) -> None:
        """Copy the database of the cloud as it is at this moment."""
        where = f"host={self.primary.address} user=whimbrel dbname=whimbrel"
        _done("pg_dump", "--format=custom", "--file", str(file), where)

    def restore(self, file: Path) -> None:
        """Kill all processes of the control plane, put the copy back, and start them again."""
        names = [name for name in self.programs if name not in self.hosts]
        for name in names:
            self.programs[name].kill()
        for statement in ("DROP DATABASE whimbrel WITH (FORCE)", "CREATE DATABASE whimbrel"):
            self.sql(self.primary, "postgres", statement)
        _done("pg_restore", "--dbname", f"host={self.primary.address} user=whimbrel dbname=whimbrel", str(file))
        for name in names:
            self.programs[name].start()

    def fail_over(self) -> None:
        """Kill the primary at once, and promote its replica."""
        self.postgres[0].kill()
        replica = self.database_machines[1]
        self.sql(replica, "postgres", "SELECT pg_promote()")

    def _write_settings(self) -> None:
        hosts = ",".join(f"{each.address}:{POSTGRES_PORT}" for each in self.database_machines)
        image, volume = self.network.machine("image"), self.network.machine("volume")
        cells = "".join(f'[[cell]]\nname = "{cell}"\n' for cell in self.sizes.cells)
        urls = ", ".join(f'"tls://{machine.address}:{BUS_PORT}"' for machine in self._bus_machines)
        self.settings.write_text(
            f"""
[database]
url = "postgresql://whimbrel@{hosts}/whimbrel?target_session_attrs=read-write&connect_timeout=3"
connections = 8

[bus]
urls = [{urls}]
ca_file = "{self._pki / "ca.crt"}"

[services]
url = "{self.url}"
image = "https://{image.address}:{IMAGE_PORT}/image"
volume = "https://{volume.address}:{VOLUME_PORT}/volume"
ca_file = "{self._pki / "ca.crt"}"

[volumes]
exports = "simulated"

{self._rules}
{cells}
"""
        )

    def _settings_of(self, machine: Machine) -> Path:
        """Write the settings of a machine: those of all, and its certificate."""
        file = machine.directory / "whimbrel.toml"
        tls = f'[tls]\ncert_file = "{self._pki / machine.name}.crt"\nkey_file = "{self._pki / machine.name}.key"\n'
        has_certificate = (self._pki / f"{machine.name}.crt").exists()
        file.write_text(self.settings.read_text().replace("[services]", f"{tls}\n[services]", 1)
                        if has_certificate else self.settings.read_text())  # fmt: skip
        return file

    def _start_bus(self) -> None:
        routes = [f"nats-route://{machine.address}:{CLUSTER_PORT}" for machine in self._bus_machines]
        for machine in self._bus_machines:
            file = machine.directory / "nats.conf"
            words = ["--listen", f"{machine.address}:{BUS_PORT}", "--directory", str(machine.directory / "accounts")]
            words += ["--certificate", f"{self._pki / machine.name}.crt", "--key", f"{self._pki / machine.name}.key"]
            words += ["--ca", str(self._pki / "ca.crt")]
            if len(routes) > 1:
                words += ["--name", machine.name, "--cluster-listen", f"{machine.address}:{CLUSTER_PORT}"]
                words += [word for route in routes for word in ("--route", route)]
            self.whimbrel("bus", "init", "--settings", str(self.settings), "--output", str(file), *words)
            program = machine.program(machine.name, "nats-server", "-c", str(file))
            program.start()
            program.wait_until_it_says("Server is ready")
            self.bus.append(program)

    def _start_balancer(self) -> None:
        backends = [
            f"{self.network.machine(f'api{number}').address}:{API_PORT}" for number in range(1, self.sizes.apis + 1)
        ]
        words = [self.network.own_address, str(BALANCER_PORT), *backends]
        self._balancer = subprocess.Popen(
            [sys.executable, "-m", "tests.live.tcp_balancer", *words], stdout=subprocess.PIPE, text=True
        )
        assert self._balancer.stdout
        assert self._balancer.stdout.readline() == "ready\n"

    def close(self) -> None:
        if self.watch.is_alive():
            self.watch.stop()
        for host, libvirt in self.libvirt.items():
            self.programs[host].end()
            libvirt.close()
        if self._balancer:
            self._balancer.send_signal(signal.SIGTERM)
            self._balancer.wait(HANG_S)


def an_hour_fast() -> dict[str, str]:
    """Return the environment of a process whose clock is wrong; its monotonic clock is right."""
    libraries = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    if not libraries:
        missing("there is no libfaketime", "apt-get install libfaketime")
    return {"LD_PRELOAD": str(libraries[0]), "FAKETIME": "+1h", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


AS_POSTGRES = ("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups")


def _done(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def as_postgres(*command: str) -> None:
    done = subprocess.run([*AS_POSTGRES, *command], capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr


@contextmanager
def many_machines(
    directory: Path, number: int, sizes: Sizes, rules: str = "", sources: Path | None = None
) -> Iterator[ManyMachines]:
    """number: of the subnet; tests that run at once have different ones. sources: of the release that starts it."""
    if shutil.which("nats-server") is None:
        missing("there is no nats-server", "apt-get install nats-server")
    if sizes.libvirt:
        require_libvirt()
    with machine_network(directory, number) as network:
        cloud = ManyMachines(network, sizes, rules)
        cloud.sources = sources
        try:
            cloud.start()
            yield cloud
        finally:
            cloud.close()
