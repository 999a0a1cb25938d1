"""A few of the clients' own functional tests against a running cloud, where they are installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.running_cloud import running_cloud

pytestmark = pytest.mark.long

VENV = "WHIMBREL_TEST_CLIENTS"
CHOSEN = (
    "cinderclient.tests.functional.test_readonly_cli",
    "cinderclient.tests.functional.test_volume_extend_cli",
    "openstack.tests.functional.cloud.test_network.TestQosPolicy",
    "openstack.tests.functional.network.v2.test_network_ip_availability",
    "openstackclient.tests.functional.identity.v3.test_limit",
    "openstackclient.tests.functional.network.v2.test_ip_availability",
)
"""Those that failed when the suites were first run."""


def test_the_clients_tests_pass(tmp_path: Path) -> None:
    if VENV not in os.environ:
        pytest.skip(f"{VENV} names no virtual environment with the clients and what their tests need: docs/testing.md")
    binaries, run = f"{os.environ[VENV]}/bin", tmp_path / "run"
    with running_cloud(tmp_path) as cloud:
        admin = cloud.environment | {"OS_CLOUD": "whimbrel-admin"}
        subprocess.run([sys.executable, "-m", "tools.client_suites", str(run)], env=admin, check=True)
        script = f'. ./admin.sh; exec {binaries}/python -m testtools.run "$@"'
        done = subprocess.run(
            ["sh", "-c", script, "sh", *CHOSEN],
            cwd=run,
            env={
                **{name: value for name, value in cloud.environment.items() if not name.startswith(("OS_", "PYTHON"))},
                "PATH": f"{binaries}:{os.environ['PATH']}",
                "OS_CLIENT_CONFIG_FILE": str(run / "clouds.yaml"),
                "OS_CINDERCLIENT_EXEC_DIR": binaries,
                "OS_TEST_TIMEOUT": "300",
            },
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout[-20000:] + done.stderr[-5000:]
    assert "Ran " in done.stdout
