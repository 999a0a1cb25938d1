"""Starts real OpenStack services for tests: `python -m tests.openstack.start DIRECTORY [COMMAND ...]`.

Keystone, Glance, Neutron, Cinder and Placement of requirements.txt, beside a MariaDB and a RabbitMQ that run already
(WHIMBREL_TEST_MARIADB, WHIMBREL_TEST_RABBITMQ). DIRECTORY gets their files, and clouds.yaml with their users. With a
COMMAND they run as long as it does, and it gets WHIMBREL_TEST_OPENSTACK, and WHIMBREL_TEST_HORIZON of a Horizon that is
installed meanwhile; without one they run until Ctrl-C.
"""

import argparse
import signal
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

from tests.openstack import services
from tests.openstack.place import Place

COMPUTE_PORT = 8774
COMPUTE_URL = "http://127.0.0.1:{port}/compute/v2.1"
SKIPPED = 77
"""The status if MariaDB, RabbitMQ or PyPI is missing."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Start real OpenStack services for tests.")
    parser.add_argument(
        "--compute-url",
        help=f"the compute endpoint of the catalog; default: here, at {COMPUTE_PORT} or the next free port",
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    if missing := services.what_is_missing():
        return skipped(missing)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    begun = time.monotonic()

    def report(text: str) -> None:
        print(f"{time.monotonic() - begun:6.1f} s: {text}", flush=True)

    try:
        venv = services.install(report)
    except services.NotInstallable as error:
        return skipped(str(error))
    place = Place(given.directory.resolve(), venv, given.compute_url or COMPUTE_URL.format(port=free_port()))
    with ThreadPoolExecutor(1) as meanwhile:
        horizon = meanwhile.submit(services.install, report, services.HORIZON) if given.command else None
        with services.running(place, report) as started:
            report(f"the services run: WHIMBREL_TEST_OPENSTACK={place.clouds}")
            if horizon:
                return services.run(place, started, given.command, horizon.result())
            try:
                signal.pause()
            except KeyboardInterrupt:
                return 0


def free_port(first: int = COMPUTE_PORT) -> int:
    """Return a free port. It is used long after, so that it is not among those that connections take by themselves."""
    for port in range(first, first + 1000):
        with closing(socket.socket()) as tried, suppress(OSError):
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(("127.0.0.1", port))
            return port
    raise OSError(f"no port from {first} on is free")


def skipped(reason: str) -> int:
    print(f"The tests with real OpenStack services are skipped: {reason}.", flush=True)
    return SKIPPED


if __name__ == "__main__":
    sys.exit(main())
