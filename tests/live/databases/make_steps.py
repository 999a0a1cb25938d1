"""Make an archive of a release: the data directory of a cloud in which a run stands at each step of each list.

    git worktree add ../before COMMIT && make -C ../before setup
    ../before/.venv/bin/python tests/live/databases/make_steps.py tests/live/databases/steps-VERSION.tar.xz

It is made once for each release, by that release: this file uses its APIs, and stops its engine. Each kind of run is
begun once to see its steps, and then again for each step, on a server of its own, until the step is about to be taken,
or has been taken and is not recorded. Then the cloud is killed with -9. `stands.json` in the archive says what stands
where, and in which status the server of each kind ends.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tests.live.databases.make import shrink
from whimbrel.cli import main as whimbrel
from whimbrel.cli.client import Api, Login
from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.domain.errors import WorldError
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga

HOST = """
[[cell.host]]
name = "{name}"
zone = "north"
vcpus = 4000
memory_mib = 16000000
disk_gib = 100000
driver = "simulated"
"""
DEAD = "d1"
"""The host from which servers are evacuated."""
SETTINGS = (
    '[[cell]]\nname = "one"\n'
    + HOST.format(name="n1")
    + HOST.format(name="n2")
    + HOST.format(name=DEAD)
    + '[[cell]]\nname = "two"\n'
    + HOST.format(name="s1")
    + "[rules]\nreclaim_instance_interval_s = 1000000\nshelved_offload_time_s = -1\n"
    + "[moves.live]\nat_once_per_host = 1000\n"
    + "[volumes]\nvolumes_quota = -1\nsnapshots_quota = -1\ngigabytes_quota = -1\n"
    + "[images]\nimages_quota = -1\ngigabytes_quota = -1\n"
)
OPTIONS = ("--instant", "--port", "0")
SAID = ("kind", "saga", "way", "step", "after", "server", "run", "ends", "instead")
POLICY = '"compute:servers:resize:cross_cell": "rule:context_is_admin"\n'
POLL_S = 0.01
ENDED = {"parked", "done", "undone"}

Way = Literal["forward", "back"]


@dataclass
class Stand:
    """Where a run of a kind is to be held. after: after the step's effect, before that is recorded.

    turn: the step at which a run that goes back is turned; None: a user reverts it. ends: the status of the server at
    the end. instead: that of a run that is turned, and chooses another host; "": its list does not choose again.
    """

    kind: str
    saga: str
    way: Way = "forward"
    step: str | None = None  # None: it is not held
    after: bool = False
    turn: str | None = None
    server: str = ""
    ends: str = ""
    instead: str = ""
    run: Any = None
    passed: list[tuple[Way, str]] = field(default_factory=list)
    held: threading.Event = field(default_factory=threading.Event)

    def take(self, run: Any) -> bool:
        """Check whether this is the run: the first of its list since this is awaited."""
        if self.run is None and run.saga == self.saga:
            self.run = run.id
        return bool(self.run == run.id)


class Holder:
    """Stands in the place of Engine._step, and holds one run after the other."""

    def __init__(self) -> None:
        self.awaited: Stand | None = None
        self._standing: dict[str, Stand] = {}
        self._never: list[asyncio.Event] = []  # what is held waits for; kept, so that no run is collected as garbage
        self._real = Engine._step

    async def step(self, engine: Engine, run: Any) -> Any:
        stand = self._standing.get(run.id) or self.awaited
        if stand is None or not stand.take(run):
            return await self._real(engine, run)
        self._standing[run.id] = stand
        if run.at in engine.registry.of(run):
            step = engine.registry.of(run).step(run.at)
            if stand.way == "back" and run.way == "forward" and run.at == stand.turn:
                return await engine._turn(run, step, "refused", 0.0, "it is turned by the maker of an archive")
            if (run.way, run.at) == (stand.way, stand.step):
                await self._hold(engine, run, step, stand)
            stand.passed.append((run.way, run.at))
        return await self._real(engine, run)

    async def _hold(self, engine: Engine, run: Any, step: Any, stand: Stand) -> None:
        act = step.do if run.way == "forward" else step.undo
        if stand.after and act:
            with suppress(WorldError):
                await act(run, engine.parts.world)
        self._never.append(never := asyncio.Event())
        stand.held.set()
        await never.wait()


class Maker:
    """Uses the cloud in whose process it runs."""

    def __init__(self, directory: Path, holder: Holder) -> None:
        self._holder = holder
        self._silence = directory / "data" / "faults" / f"{DEAD}.json"
        self._api = Api(Login(directory / "data" / "clouds.yaml", "whimbrel-admin"))
        self._api.log_in()
        self._count = 0
        flavors = self.get("/flavors")["flavors"]
        self._small, self._medium = (
            next(each["id"] for each in flavors if each["name"] == name) for name in ("m1.small", "m1.medium")
        )
        self._image = self._api.get("image", "/v2/images")["images"][0]["id"]
        networks = self._api.get("network", "/v2.0/networks")["networks"]
        self._network = next(each["id"] for each in networks if not each["router:external"])

    def get(self, path: str) -> Any:
        return self._api.get("compute", path)

    def unlimit(self) -> None:
        project = self.play(KINDS["create"], Stand("create", "create"))["tenant_id"]
        limits = dict.fromkeys(("instances", "cores", "ram"), -1)
        self._api.put("compute", f"/os-quota-sets/{project}", {"quota_set": limits})
        limits = dict.fromkeys(("port", "security_group"), -1)
        self._api.put("network", f"/v2.0/quotas/{project}", {"quota": limits})

    def allow(self, host: str, *, is_allowed: bool) -> None:
        """Let a host take servers, or not: the scheduler would choose it for some moves."""
        self._change_service(host, status="enabled" if is_allowed else "disabled")

    def revive(self, _: str = "") -> None:
        self._silence.unlink(missing_ok=True)
        self._change_service(DEAD, status="enabled", forced_down=False)
        self._wait(lambda: self._service(DEAD)["state"] == "up", lambda: self._service(DEAD))

    def kill(self, _: str = "") -> None:
        self._silence.parent.mkdir(exist_ok=True)
        self._silence.write_text(json.dumps({"order": None, "error": "unavailable", "host": DEAD}))
        self._change_service(DEAD, forced_down=True)

    def _change_service(self, host: str, **change: Any) -> None:
        self._api.put("compute", f"/os-services/{self._service(host)['id']}", change)

    def _service(self, host: str) -> Any:
        services = self.get("/os-services?binary=nova-compute")["services"]
        return next(each for each in services if each["host"] == host)

    # What is done with servers

    def create(self, _: str = "", **more: Any) -> str:
        self._count += 1
        body = {"name": f"s{self._count}", "flavorRef": self._small, "imageRef": self._image, "networks": "auto"}
        body |= {"availability_zone": "north:n1"} | more
        made: str = self._api.post("compute", "/servers", {"server": body})["server"]["id"]
        return made

    def create_on_dead(self, _: str = "") -> str:
        return self.create(availability_zone=f"north:{DEAD}")

    def create_on_volume(self, _: str = "") -> str:
        disk = {"boot_index": 0, "uuid": self._image, "source_type": "image", "destination_type": "volume"}
        return self.create(imageRef="", block_device_mapping_v2=[disk | {"volume_size": 1}])

    def act(self, server: str, action: str, argument: Any = None) -> None:
        self._api.post("compute", f"/servers/{server}/action", {action: argument})

    def resize(self, server: str) -> None:
        self.act(server, "resize", {"flavorRef": self._medium})

    def rebuild(self, server: str) -> None:
        self.act(server, "rebuild", {"imageRef": self._image})

    def delete(self, server: str) -> None:
        self._api.delete("compute", f"/servers/{server}")

    def attach_volume(self, server: str) -> None:
        volume = self._volume()
        self._api.post(
            "compute", f"/servers/{server}/os-volume_attachments", {"volumeAttachment": {"volumeId": volume}}
        )

    def detach_volume(self, server: str) -> None:
        self._api.delete("compute", self._attached(server))

    def attach_interface(self, server: str) -> None:
        body = {"interfaceAttachment": {"net_id": self._network}}
        self._api.post("compute", f"/servers/{server}/os-interface", body)

    def detach_interface(self, server: str) -> None:
        port = self.get(f"/servers/{server}/os-interface")["interfaceAttachments"][0]["port_id"]
        self._api.delete("compute", f"/servers/{server}/os-interface/{port}")

    def _attached(self, server: str) -> str:
        path = f"/servers/{server}/os-volume_attachments"
        return f"{path}/{self.get(path)['volumeAttachments'][0]['volumeId']}"

    def _volume(self) -> str:
        made: str = self._api.post("block-storage", "/volumes", {"volume": {"size": 1}})["volume"]["id"]
        shown = f"/volumes/{made}"
        self._wait(lambda: self._api.get("block-storage", shown)["volume"]["status"] == "available", lambda: shown)
        return made

    # Plays

    def play(self, kind: "Kind", stand: Stand) -> Any:
        """Prepare a server, and begin a run of this kind. Return the server when the run is held or over."""
        server = ""
        for act in kind.before:
            server = act(self, server) or server
            if server:
                self._rest(server)
        self._holder.awaited = stand
        for act in kind.acts:
            server = act(self, server) or server
            self._wait(lambda: stand.held.is_set() or self._state(stand) in ENDED, lambda: self._shown(stand))
            if stand.held.is_set() or self._state(stand) == "undone":
                break
        self._holder.awaited = None
        stand.server = server
        return self.server(server)

    def server(self, server: str) -> Any:
        try:
            return self.get(f"/servers/{server}")["server"]
        except WorldError:
            return {"status": "DELETED"}

    def _state(self, stand: Stand) -> str:
        return str(self._shown(stand)["state"]) if stand.run else ""

    def _shown(self, stand: Stand) -> Any:
        return self.get(f"/whimbrel/moves/{stand.run}")["move"] if stand.run else f"{stand.kind} did not begin"

    def _rest(self, server: str) -> None:
        def rests() -> bool:
            found = self.server(server)
            assert found["status"] != "ERROR", found
            runs = self.get(f"/whimbrel/moves?server={server}&open=true&kind=any")["moves"]
            return found["OS-EXT-STS:task_state"] is None and all(run["state"] == "parked" for run in runs)

        self._wait(rests, lambda: self.server(server))

    def _wait(self, is_there: Callable[[], bool], shown: Callable[[], Any]) -> None:
        deadline = time.monotonic() + 60
        while not is_there():
            assert time.monotonic() < deadline, shown()
            time.sleep(POLL_S)


Act = Callable[[Maker, str], str | None]


def action(name: str, argument: Any = None) -> Act:
    return lambda maker, server: maker.act(server, name, argument)


@dataclass(frozen=True)
class Kind:
    """saga: the list of its run. before: what the server goes through before. acts: the requests of the run."""

    saga: str
    acts: tuple[Act, ...]
    before: tuple[Act, ...] = (Maker.create,)


WITH_VOLUME = (Maker.create, Maker.attach_volume)
CONFIRM, REVERT = action("confirmResize"), action("revertResize")
HERE, ACROSS = action("migrate", {"host": "n2"}), action("migrate", {"host": "s1"})
LIVE = action("os-migrateLive", {"host": "n2", "block_migration": "auto"})
SHELVE, OFFLOAD, UNSHELVE = action("shelve"), action("shelveOffload"), action("unshelve")
KINDS = {
    "create": Kind("create", (Maker.create,), ()),
    "create_on_volume": Kind("create", (Maker.create_on_volume,), ()),
    "delete": Kind("delete", (action("forceDelete"),), WITH_VOLUME),
    "resize": Kind("resize", (Maker.resize, CONFIRM), WITH_VOLUME),
    "resize_reverted": Kind("resize", (Maker.resize, REVERT), WITH_VOLUME),
    "migrate": Kind("migrate", (HERE, CONFIRM), WITH_VOLUME),
    "migrate_reverted": Kind("migrate", (HERE, REVERT), WITH_VOLUME),
    "cross_cell": Kind("migrate", (ACROSS, CONFIRM), WITH_VOLUME),
    "cross_cell_reverted": Kind("migrate", (ACROSS, REVERT), WITH_VOLUME),
    "live_migrate": Kind("live_migrate", (LIVE,), WITH_VOLUME),
    "shelve": Kind("shelve", (SHELVE,), WITH_VOLUME),
    "shelve_offload": Kind("shelve_offload", (OFFLOAD,), (*WITH_VOLUME, SHELVE)),
    "unshelve": Kind("unshelve", (UNSHELVE,), (*WITH_VOLUME, SHELVE, OFFLOAD)),
    "unshelve_in_place": Kind("unshelve_in_place", (UNSHELVE,), (*WITH_VOLUME, SHELVE)),
    "rebuild": Kind("rebuild", (Maker.rebuild,), WITH_VOLUME),
    "rebuild_on_volume": Kind("rebuild", (Maker.rebuild,), (Maker.create_on_volume,)),
    "rescue": Kind("rescue", (action("rescue", {}),)),
    "unrescue": Kind("unrescue", (action("unrescue"),), (Maker.create, action("rescue", {}))),
    "stop": Kind("stop", (action("os-stop"),)),
    "start": Kind("start", (action("os-start"),), (Maker.create, action("os-stop"))),
    "reboot": Kind("reboot", (action("reboot", {"type": "HARD"}),)),
    "pause": Kind("pause", (action("pause"),)),
    "unpause": Kind("unpause", (action("unpause"),), (Maker.create, action("pause"))),
    "suspend": Kind("suspend", (action("suspend"),)),
    "resume": Kind("resume", (action("resume"),), (Maker.create, action("suspend"))),
    "snapshot": Kind("snapshot", (action("createImage", {"name": "taken"}),)),
    "snapshot_volumes": Kind(
        "snapshot_volumes", (action("createImage", {"name": "taken"}),), (Maker.create_on_volume,)
    ),
    "backup": Kind("backup", (action("createBackup", {"name": "kept", "backup_type": "daily", "rotation": 3}),)),
    "attach_volume": Kind("attach_volume", (Maker.attach_volume,)),
    "detach_volume": Kind("detach_volume", (Maker.detach_volume,), WITH_VOLUME),
    "attach_interface": Kind("attach_interface", (Maker.attach_interface,)),
    "detach_interface": Kind("detach_interface", (Maker.detach_interface,)),
    "soft_delete": Kind("soft_delete", (Maker.delete,)),
    "restore": Kind("restore", (action("restore"),), (Maker.create, Maker.delete)),
    "evacuate": Kind(
        "evacuate",
        (action("evacuate", {}),),
        (Maker.revive, Maker.create_on_dead, Maker.attach_volume, Maker.kill),
    ),
    "trigger_crash_dump": Kind("trigger_crash_dump", (action("trigger_crash_dump"),)),
}


def make(maker: Maker) -> Iterator[Stand]:
    """Yield what stands, kind by kind, with what was passed when nothing was held."""
    maker.unlimit()
    maker.allow(DEAD, is_allowed=False)
    for name, kind in KINDS.items():
        maker.allow("s1", is_allowed=ACROSS in kind.acts)
        free = Stand(name, kind.saga)
        free.ends = maker.play(kind, free)["status"]
        found = free.passed
        if turn := _turn(free):
            turned = Stand(name, kind.saga, "back", turn=turn)
            turned.ends = maker.play(kind, turned)["status"]
            found = free.passed + [each for each in turned.passed if each[0] == "back"]
        elif any(way == "back" for way, _ in found):
            found = [each for each in found if each[0] == "back"]  # the others are those of another kind
        for way, step in dict.fromkeys(reversed(found)):  # runs that wait for their turn hold up others
            for after in (False, True):
                stand = Stand(name, kind.saga, way, step, after, ends=free.ends)
                if turn and way == "back":
                    stand.turn, stand.ends = turn, turned.ends
                    stand.instead = free.ends if any(each.again for each in _newest(kind.saga).steps) else ""
                maker.play(kind, stand)
                assert stand.held.is_set(), f"{stand} took other steps: {maker.get(f'/whimbrel/moves/{stand.run}')}"
                yield stand
    maker.allow("s1", is_allowed=True)


def _turn(stand: Stand) -> str | None:
    """Return the last step passed at which a refusal turns the run back; None: there is none, or it went back."""
    if any(way == "back" for way, _ in stand.passed):
        return None
    saga = _newest(stand.saga)
    steps = [saga.step(step) for _, step in reversed(stand.passed)]
    return next((step.name for step in steps if saga.may_turn_back(step.name) and not step.parks), None)


def _newest(name: str) -> Saga:
    saga = SAGAS.newest(name)
    assert saga
    return saga


def serve(directory: Path) -> None:
    """Run the cloud, and make what stands in a thread; then end with -9."""
    holder = Holder()
    Engine._step = lambda engine, run: holder.step(engine, run)

    def work() -> None:
        try:
            while not {"running.json", "clouds.yaml"} <= {file.name for file in (directory / "data").iterdir()}:
                time.sleep(POLL_S)
            stands = []
            for stand in make(Maker(directory, holder)):
                stands.append({name: getattr(stand, name) for name in SAID})
                print(len(stands), stand.kind, stand.way, stand.step, "after" if stand.after else "before", flush=True)
            (directory / "data" / "stands.json").write_text(json.dumps(stands))
        except BaseException:
            traceback.print_exc()
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=work, daemon=True).start()
    data = directory / "data"
    whimbrel(["up", "--data-dir", str(data), "--policy", str(data / "policy.yaml"), *OPTIONS])


def pack(directory: Path, archive: Path) -> None:
    """Keep the data directory. Its volumes are mostly holes, which tarfile cannot write."""
    shrink(directory / "data")
    left_out = ["--exclude=*.lock", "--exclude=running.json"]
    words = ["tar", "--sparse", "--format=gnu", *left_out, "-C", str(directory), "-cJf", str(archive), "data"]
    subprocess.run(words, check=True, env=os.environ | {"XZ_OPT": "-9e"})


def main(archive: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "data").mkdir()
        (directory / "data" / "whimbrel.toml").write_text(SETTINGS)
        (directory / "data" / "policy.yaml").write_text(POLICY)
        subprocess.run([sys.executable, __file__, "--serve", name], check=False)
        assert (directory / "data" / "stands.json").exists(), "it was not made"
        pack(directory, archive)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(Path(sys.argv[2]))
    else:
        main(Path(sys.argv[1]))
