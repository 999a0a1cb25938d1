"""Every compute command of the unmodified openstack client, and every one of floating IPs, routers and application
credentials, is run once: it works, or is refused for a known reason.

The commands run one after the other in two processes of the client, a user's and an administrator's.
"""

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from tests.live.running_cloud import RunningCloud, running_cloud
from tests.processes import HANG_S

PROCESS = Path(__file__).parents[1] / "api" / "osc_process.py"
_COMPUTE = "server console flavor keypair aggregate hypervisor compute quota usage limits host"
GROUPS = {
    "openstack.compute.v2": tuple(_COMPUTE.split()),
    "openstack.common": tuple(_COMPUTE.split()),
    "openstack.network.v2": ("floating ip", "router"),
    "openstack.identity.v3": ("application credential",),
}
ELSEWHERE = {
    "server ssh": "test_guest_network.py",
    "server migration abort": "test_live_clients.py",
    "server migration force complete": "test_live_clients.py",
    "server migration show": "test_live_clients.py",
}

# "admin": by the administrator. "! words": it is refused with these words. "?": it works or is refused.
# "| status": the server has this status afterwards; "| number command": that command shows so many lines.
STORY = """
admin flavor create --vcpus 1 --ram 512 --disk 1 f1
admin flavor create --vcpus 2 --ram 1024 --disk 1 f2
admin flavor set --property a=b f1
admin flavor unset --property a f1
flavor list
flavor show f1
keypair create k
keypair list
keypair show k
server group create --policy soft-affinity g
server group list
server group show g
network create net
subnet create --network net --subnet-range 10.9.0.0/24 sub
port create --network net port
security group create sg
volume create --size 1 v
server create --flavor f1 --image tick --network net --key-name k s | ACTIVE
server list --long
server show s
server set --property a=b --description d --tag t s
server unset --property a --description --tag t s
server stop s | SHUTOFF
server start s | ACTIVE
console log show s
console url show --novnc s
console url show --serial s
console url show --xvpvnc s ! Invalid console type
console url show --spice s ! Unavailable console type
console url show --rdp s ! Unavailable console type
console url show --mks s ! Unavailable console type
admin console connection show none ! Token not found
server reboot s | ACTIVE
server pause s | PAUSED
server unpause s | ACTIVE
server suspend s | SUSPENDED
server resume s | ACTIVE
server lock --reason why s
server unlock s
server shelve s | SHELVED_OFFLOADED
server unshelve s | ACTIVE
server add port s port | 2 port list --server s
server remove port s port | 1 port list --server s
server add network s net | 2 port list --server s
server remove port s port ! 404
server add fixed ip s net | 3 port list --server s
? server remove fixed ip s 10.0.0.9
server add security group s sg
server remove security group s sg
server add volume s v | 1 server volume list s
server volume list s
server volume set --preserve-on-termination s v
server volume update --preserve-on-termination s v
server remove volume s v | 0 server volume list s
server resize --flavor f2 s | VERIFY_RESIZE
server resize confirm s | ACTIVE
server resize --flavor f1 s | VERIFY_RESIZE
server resize revert s | ACTIVE
admin server migrate ID | VERIFY_RESIZE
server migrate revert s | ACTIVE
admin server migrate ID | VERIFY_RESIZE
server migrate confirm s | ACTIVE
admin server migrate ID | VERIFY_RESIZE
admin server migration revert ID | ACTIVE
admin server migrate ID | VERIFY_RESIZE
admin server migration confirm ID | ACTIVE
admin server migration list
admin server evacuate ID ! in use
server event list s
server event show s REQUEST
server rebuild --image tick s | ACTIVE
server image create --name picture s | ACTIVE
server backup create --name backup s | ACTIVE
server rescue s | RESCUE
server unrescue s | ACTIVE
admin server dump create ID
? server add floating ip s 203.0.113.9
? server remove floating ip s 203.0.113.9
? server remove network s net
usage list ! 403
admin usage list
usage show
admin quota set --instances 20 demo
quota show
admin quota show --usage demo
admin quota list --compute
admin quota delete --compute demo
limits show --absolute
admin aggregate create --zone z a
admin aggregate list --long
admin aggregate add host a n1 ! 409
admin aggregate set --property x=y a
admin aggregate unset --property x a
admin aggregate show a
admin aggregate remove host a n1 ! 404
? admin aggregate cache image a tick
admin aggregate delete a
admin hypervisor list --long
admin hypervisor show n1
admin hypervisor stats show
admin compute service list
admin compute service set --disable --disable-reason r n1 nova-compute
admin compute service set --enable n1 nova-compute
admin compute service delete 99 ! uuid
admin compute agent list ! 410
admin compute agent create os arch 1 url md5 kvm ! 410
admin compute agent set 1 ! 410
admin compute agent delete 1 ! 410
admin host list
admin host show n1
admin host set --disable n1
admin host set --enable n1
? server add share s 99999999-9999-4999-8999-999999999999
? server remove share s 99999999-9999-4999-8999-999999999999
? server share list s
? server share show s 99999999-9999-4999-8999-999999999999
admin network create --external public
admin subnet create --network public --subnet-range 192.0.2.0/24 --no-dhcp public
network create net2
subnet create --network net2 --subnet-range 10.8.0.0/24 sub2
port create --network net2 rport
router create r
router list
router set --description d r
router set --external-gateway public r
router show r
router add gateway r public ! external-gateway-multihoming
router remove gateway r public ! external-gateway-multihoming
router add subnet r sub
router add port r rport
router add route --route destination=10.10.0.0/16,gateway=10.9.0.99 r
router remove route --route destination=10.10.0.0/16,gateway=10.9.0.99 r
floating ip create public
floating ip list
floating ip set --port port FIP
floating ip show FIP
floating ip unset --port FIP
floating ip port forwarding create --internal-ip-address 10.9.0.9 --port port PORTS --protocol tcp FIP ! 404
floating ip port forwarding list FIP ! 404
floating ip port forwarding show FIP 99999999-9999-4999-8999-999999999999 ! 404
floating ip port forwarding set --protocol tcp FIP 99999999-9999-4999-8999-999999999999 ! 404
floating ip port forwarding delete FIP 99999999-9999-4999-8999-999999999999 ! 404
router ndp proxy create r --port port ! 404
router ndp proxy list ! 404
router ndp proxy show p ! 404
router ndp proxy set --name n p ! 404
router ndp proxy delete p ! 404
floating ip delete FIP
router remove port r rport
router remove subnet r sub
router unset --external-gateway r
router delete r
application credential create c
application credential list
application credential show c
application credential delete c
server delete s
server restore s ! No Server found
server group delete g
keypair delete k
admin flavor delete f1 f2
"""


class Shells:
    """The client's command lines, one for each user."""

    def __init__(self, cloud: RunningCloud) -> None:
        self._cloud = cloud
        self._ending = ExitStack()
        self._of: dict[str, subprocess.Popen[str]] = {}

    def run(self, words: list[str], *, admin: bool = False) -> dict[str, Any]:
        user = "whimbrel-admin" if admin else "whimbrel"
        if user not in self._of:
            self._of[user] = self._ending.enter_context(shell(self._cloud.environment | {"OS_CLOUD": user}))
        process = self._of[user]
        assert process.stdin
        assert process.stdout
        print(json.dumps(words), file=process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(process.stdout.readline())
        return answer

    def read(self, words: str) -> Any:
        done = self.run([*words.split(), "-f", "json"])
        assert done["status"] == 0, done
        return json.loads(done["out"])

    def close(self) -> None:
        self._ending.close()


@contextmanager
def shell(environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, str(PROCESS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        yield process
    finally:
        assert process.stdin
        process.stdin.close()
        process.wait()


@pytest.fixture
def shells(tmp_path: Path) -> Iterator[Shells]:
    with running_cloud(tmp_path) as running:
        shells = Shells(running)
        yield shells
        shells.close()


@pytest.mark.long
def test_every_command_is_run_once(shells: Shells) -> None:
    known = {"PORTS": "--internal-protocol-port 1 --external-protocol-port 1"}
    for line in STORY.strip().splitlines():
        play(shells, line, known)


def play(shells: Shells, line: str, known: dict[str, str]) -> None:
    """Run a line of the story, and wait for what it says. known: what its words stand for."""
    command, _, outcome = line.partition(" | ")
    command, _, refusal = command.partition(" ! ")
    is_open, command = command.startswith("? "), command.removeprefix("? ")
    admin, command = command.startswith("admin "), command.removeprefix("admin ")
    words = shlex.split(" ".join(known.get(word, word) for word in command.split()))
    done = shells.run(words, admin=admin)
    said = done["out"] + done["err"]
    assert "Traceback" not in said, said
    assert "50" not in said.partition(": Server Error")[0][-4:], said
    if refusal:
        assert done["status"] != 0, said
        assert refusal in said, f"{line}: {said}"
    elif not is_open:
        assert done["status"] == 0, f"{line}: {said}"
    if outcome and (done["status"] == 0 or not is_open):
        wait_for(shells, outcome)
    if command.startswith("server create"):
        known["ID"] = shells.read("server show s")["id"]
    if command.startswith("floating ip create"):
        known["FIP"] = shells.read("floating ip list")[0]["ID"]
    if command.startswith("server event list"):
        known["REQUEST"] = shells.read("server event list s")[-1]["Request ID"]


def wait_for(shells: Shells, outcome: str) -> None:
    number, _, command = outcome.partition(" ")
    deadline = time.monotonic() + HANG_S
    while True:
        if command:
            seen: Any = len(shells.read(command))
            wanted: Any = int(number)
        else:
            seen, wanted = shells.read("server show s")["status"], outcome
        if seen == wanted:
            return
        assert time.monotonic() < deadline, f"{outcome}: {seen}"
        time.sleep(0.1)


def test_every_command_is_in_the_story() -> None:
    commands = {
        name
        for group, nouns in GROUPS.items()
        for name in (entry.name.replace("_", " ") for entry in entry_points(group=group))
        if name.startswith(tuple(f"{noun} " for noun in nouns))
    }
    told = [line.removeprefix("? ").removeprefix("admin ") for line in STORY.strip().splitlines()]
    missing = {name for name in commands if not any(line.startswith(name) for line in told)}
    assert missing == set(ELSEWHERE)
