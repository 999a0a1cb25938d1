"""How long APIs are silent when the primary of PostgreSQL is killed under load and its replica promoted.

fail_over.py [TIMES]. It needs what the test of many machines needs: root, network namespaces, PostgreSQL, nats-server.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from threading import Thread

from figures import report

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.live.machine_load import started_users, wait_for_moves
from tests.live.many_machines import API_PORT, ManyMachines, Sizes, many_machines
from whimbrel.cli.client import Api, Login

SUBNET = 200
SIZES = Sizes(apis=2, replicas=1, cells={"cell1": 2})
POLL_S = 0.02


def main(times: int) -> None:
    for _ in range(times):
        with tempfile.TemporaryDirectory(prefix="wm") as directory:
            Path(directory).chmod(0o711)
            with many_machines(Path(directory), SUBNET, SIZES) as cloud:
                measure(cloud)


def measure(cloud: ManyMachines) -> None:
    with Api(Login(cloud.home.clouds, "whimbrel-admin")) as api:
        users = started_users(cloud, api, "user", seed=1)
        wait_for_moves(users, len(users))
        token = cloud.openstack("token", "issue")["id"]
        killed = time.monotonic()
        cloud.fail_over()
        promoted_s = time.monotonic() - killed
        answers: dict[str, float] = {}
        asking = [Thread(target=until_it_answers, args=(cloud, name, token, answers)) for name in ("api1", "api2")]
        for each in asking:
            each.start()
        for each in asking:
            each.join()
        answered_s = {f"{name}_answers_s": round(at - killed, 2) for name, at in sorted(answers.items())}
        wait_for_moves(users, 1)
        report("fail-over", promoted_s=round(promoted_s, 2), **answered_s, move_s=round(time.monotonic() - killed, 2))
        for user in users:
            user.stop()
            user.settle()


def until_it_answers(cloud: ManyMachines, name: str, token: str, answers: dict[str, float]) -> None:
    """Ask an API for its servers until it answers with 200."""
    url = f"https://{cloud.network.machine(name).address}:{API_PORT}/compute/v2.1/servers"
    words = ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "10", "-H", f"X-Auth-Token: {token}"]
    trust = ["--cacert", str(cloud.directory / "pki" / "ca.crt")]
    while subprocess.run([*words, *trust, url], capture_output=True, text=True, check=False).stdout != "200":
        time.sleep(POLL_S)
    answers[name] = time.monotonic()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
