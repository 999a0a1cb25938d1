"""Real guests beside real services: volumes of Cinder's NFS driver by os-brick, images of Glance, ports of Neutron.

Whimbrel logs in with an application credential. The directory of Cinder's share stands in for what NFS would mount.
Cinder finds Whimbrel in the catalog, as it asks for the host's part in snapshots of attached volumes.
"""

import asyncio
import os
import re
import sys
import uuid
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

import openstack
import pytest
import yaml

from tests.contracts.hypervisors import LibvirtPair, libvirt_hosts, libvirt_pair  # noqa: F401
from tests.contracts.volume_connectors import PlayedShares
from tests.live.running_cloud import CLOUD
from tests.openstack_services import SHARE, SHARE_NAME, RealServices, real_services
from tests.processes import HANG_S, execute, program, wait_for
from whimbrel.domain.guest import Guest
from whimbrel.domain.local_disks import GIB
from whimbrel.embedded.tick_guest import Tick, image, ticks

pytestmark = [pytest.mark.long, pytest.mark.openstack]

KEYSTONE = """
[keystone]
auth_url = "{auth_url}"
application_credential_id = "{id}"
application_credential_secret_file = "secret"
"""
HOST = """
[[cell.host]]
name = "{name}"
zone = "nova"
vcpus = 8
memory_mib = 4096
disk_gib = 100
driver = "libvirt"
uri = "{uri}"
guests_dir = "{directory}"
guest_nics = "user"
peer_uri = "{uri}"
migration_address = "127.0.0.1"
storage_mounts = "{mounts}"
"""
DAEMONS = ("a", "b")
DEFAULT, GROWING = "shared", "growing"
SHARES = {SHARE_NAME: Path(SHARE), f"127.0.0.1:/{GROWING}": Path(SHARE).parent / GROWING}
"""The shares of Cinder's back ends, one for each of these types; the latter extends volumes that a guest uses."""


class GuestsBesideOpenstack:
    """A cloud of two libvirt hosts. user: an administrator of its project, as the openstack SDK."""

    def __init__(self, services: RealServices, pair: LibvirtPair, shares: PlayedShares, directory: Path) -> None:
        self.services = services
        self.shares = shares
        self.name = f"guests-{uuid.uuid4().hex[:8]}"
        self._pair = pair
        self._clouds = directory / "clouds.yaml"
        self._hosts = dict(zip(services.hosts(), DAEMONS, strict=False))
        [url] = re.findall(r"is up at (http://\S+\d)", (directory / "up.log").read_text())
        login = services.cloud("demo-admin").settings | {"compute_endpoint_override": f"{url}/compute/v2.1"}
        self._clouds.write_text(yaml.safe_dump({"clouds": {"beside": login}}))
        self.user = connect(login)

    def prove(self) -> None:
        environment = os.environ | {"OS_CLIENT_CONFIG_FILE": str(self._clouds), "OS_CLOUD": "beside"}
        run_whimbrel("prove", env=environment)

    @cached_property
    def flavor(self) -> str:
        made: str = self.user.compute.create_flavor(name=self.name, vcpus=1, ram=64, disk=1).id
        return made

    def image(self) -> str:
        """Upload an image of the guest that ticks; its format is what Glance says it is."""
        content = image(self.name, for_live_moves=True)
        made = self.user.image.create_image(
            self.name, data=content, disk_format="raw", container_format="bare", wait=True, timeout=HANG_S
        )
        return str(made.id)

    def boot(self, **wanted: Any) -> str:
        server: str = self.user.compute.create_server(name=self.name, flavor_id=self.flavor, **wanted).id
        self.until(server, "ACTIVE")
        return server

    def until(self, server: str, status: str) -> Any:
        """Wait until a server has a status and rests; return what is shown of it."""
        shown = wait_for(
            lambda: self.user.compute.get_server(server),
            lambda seen: seen.status == "ERROR" or (seen.status == status and seen.task_state is None),
            f"the server is {status}",
        )
        assert shown.status == status, shown.fault
        return shown

    def delete(self, server: str) -> None:
        found = self.user.compute.get_server(server)
        self.user.compute.delete_server(server)
        self.user.compute.wait_for_delete(found, wait=HANG_S)

    def until_it_ticks(self, server: str, boots: int) -> Tick:
        """Wait until its console, as its user reads it, has this boot of its disk; return what it says last."""
        said = wait_for(
            lambda: ticks(self.user.compute.get_server_console_output(server)["output"]),
            lambda seen: bool(seen) and seen[-1].boots == boots,
            f"boot {boots}",
        )
        last: Tick = said[-1]
        return last

    def guest(self) -> tuple[str, Guest]:
        """Return the only guest that the hosts have, and its host."""
        found = [(host, guest) for host, daemon in self._hosts.items() for guest in self._guests(daemon)]
        assert len(found) == 1, found
        return found[0]

    def _guests(self, daemon: str) -> list[Guest]:
        return list(asyncio.run(self._pair.host(daemon).guests()))

    def mounted(self) -> list[str]:
        """Return the hosts that have the share mounted."""
        return [Path(point).relative_to(self.shares.mounts).parts[0] for point in self.shares.mounted()]

    def volume_hosts(self, volume: str) -> list[str]:
        """Return the hosts at which a volume is attached, as Cinder has them."""
        with self.services.cloud("admin").client("block-storage") as cinder:
            shown = cinder.get(f"/volumes/{volume}").raise_for_status().json()["volume"]
        return [each["host_name"] for each in shown["attachments"]]

    def snapshot(self, volume: str) -> str:
        """Let Cinder make a snapshot of an attached volume; return its id."""
        made = self.user.block_storage.create_snapshot(volume_id=volume, name=self.name, force=True)
        self.user.block_storage.wait_for_status(made, "available", failures=["error"], wait=HANG_S)
        return str(made.id)

    def when_free(self, act: Callable[[], None]) -> None:
        """Do what is refused while another operation is open: that a snapshot has ended is noticed at the next poll."""

        def is_done() -> bool:
            try:
                act()
            except openstack.exceptions.ConflictException:
                return False
            return True

        wait_for(is_done, bool, "nothing else is under way")

    def delete_snapshot(self, snapshot: str) -> None:
        self.user.block_storage.delete_snapshot(snapshot)
        shown = wait_for(
            lambda: self.user.block_storage.find_snapshot(snapshot),
            lambda seen: seen is None or seen.status != "deleting",
            "the snapshot is deleted",
        )
        assert shown is None, shown

    def files(self, volume: str) -> set[str]:
        """Return the files of a volume in the share, without what Cinder notes of its snapshots."""
        return {path.name for path in Path(SHARE).glob(f"volume-{volume}*") if path.suffix != ".info"}

    def active_file(self, volume: str) -> str:
        """Return the file to which the guest with a volume writes, as libvirt has it."""
        return self._disk(volume)[0].name

    def share_of(self, volume: str) -> str:
        """Return the name of the share that has the file of a volume that a guest uses."""
        file = self._disk(volume)[0]
        [share] = [share for share, directory in SHARES.items() if (directory / file.name).exists()]
        return share.rpartition("/")[2]

    def size_gib(self, volume: str) -> int:
        """Return the size that the guest with a volume sees."""
        return self._disk(volume)[1] // GIB

    def _disk(self, volume: str) -> tuple[Path, int]:
        """Return the file and the size of a disk of a running guest, as libvirt has them."""
        import libvirt

        found = []
        for daemon in self._hosts.values():
            with self._pair.hosts.connection(daemon) as libvirtd:
                for domain in libvirtd.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE):
                    disks = ET.fromstring(domain.XMLDesc(0)).iterfind("devices/disk")
                    for disk in (one for one in disks if one.findtext("serial") == volume):
                        size = domain.blockInfo(disk.find("target").get("dev"))[0]
                        found.append((Path(disk.find("source").get("file")), size))
        assert len(found) == 1, found
        return found[0]

    def actions(self, server: str) -> list[tuple[str, str | None]]:
        """List the actions of a server with their messages, the newest first."""
        return [(each.action, each.message) for each in self.user.compute.server_actions(server)]

    def until_at(self, server: str, volumes: list[str], port: str) -> str:
        """Wait until services and hosts agree where a server is with its volumes and its port; return the host."""
        at: str = self.user.compute.get_server(server).compute_host
        for volume in volumes:
            wait_for(lambda each=volume: self.volume_hosts(each), lambda seen: seen == [at], "attached there alone")
        wait_for(lambda: self.user.network.get_port(port).binding_host_id, lambda seen: seen == at, "bound there")
        wait_for(self.mounted, lambda seen: seen == ([at] if volumes else []), "the share is mounted there alone")
        host, guest = self.guest()
        assert (host, guest.power, set(guest.volumes), len(guest.ports)) == (at, "running", set(volumes), 1)
        return at


def connect(login: dict[str, Any]) -> Any:
    return openstack.connect(**login, load_yaml_config=False, load_envvars=False, api_timeout=HANG_S)


def run_whimbrel(*words: str, env: Mapping[str, str] | None = None) -> None:
    done = execute([sys.executable, "-m", "whimbrel", *words], env)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def ending() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def cloud(
    libvirt_pair: LibvirtPair,  # noqa: F811
    ending: ExitStack,
    monkeypatch: pytest.MonkeyPatch,
) -> GuestsBesideOpenstack:
    services = real_services()
    if not SHARE or os.geteuid():
        pytest.skip("WHIMBREL_TEST_OPENSTACK_SHARE names no directory of Cinder's volumes, or it cannot be mounted")
    directory = libvirt_pair.hosts.root / f"beside-{uuid.uuid4().hex[:8]}"  # where the guests' user may look
    directory.mkdir(mode=0o711)
    directory.chmod(0o711)
    shares = PlayedShares(SHARES, directory)
    shares.mounts.mkdir(mode=0o711)
    shares.mounts.chmod(0o711)
    ending.callback(shares.close)
    monkeypatch.setenv("PATH", shares.path)

    login = connect(services.cloud("service").settings)
    credential = login.identity.create_application_credential(login.current_user_id, directory.name)
    ending.callback(login.identity.delete_application_credential, login.current_user_id, credential)
    (directory / "secret").write_text(credential.secret)
    (directory / "secret").chmod(0o600)
    settings = directory / "whimbrel.toml"
    hosts = zip(services.hosts(), DAEMONS, strict=False)
    described = (
        HOST.format(
            name=name,
            uri=libvirt_pair.hosts.daemons[daemon].uri,
            directory=libvirt_pair.directory(daemon),
            mounts=shares.mounts / name,
        )
        for name, daemon in hosts
    )
    keystone = KEYSTONE.format(auth_url=login.config.auth["auth_url"], id=credential.id)
    settings.write_text(keystone + CLOUD + "".join(described))
    words = ["--settings", str(settings), "--data-dir", str(directory / "data")]
    run_whimbrel("check", *words)
    url = ending.enter_context(services.compute_endpoint())
    up = program("up", ["up", "--port", str(url.port), *words], directory / "up.log")
    ending.callback(up.end)
    up.start()
    up.wait_until_it_says("Whimbrel is up")
    return GuestsBesideOpenstack(services, libvirt_pair, shares, directory)


@pytest.fixture
def port(cloud: GuestsBesideOpenstack, ending: ExitStack) -> str:
    network = cloud.user.network.find_network("private").id
    made = cloud.user.network.create_port(network_id=network, name=cloud.name)
    ending.callback(cloud.user.network.delete_port, made.id)
    return str(made.id)


def test_a_guest_moves_with_volumes_of_cinder(cloud: GuestsBesideOpenstack, port: str, ending: ExitStack) -> None:
    user, picture = cloud.user, cloud.image()
    ending.callback(user.image.delete_image, picture)
    data = user.block_storage.create_volume(size=1, name=cloud.name)
    ending.callback(user.block_storage.delete_volume, data.id)
    root = {"source_type": "image", "destination_type": "volume", "uuid": picture, "boot_index": 0, "volume_size": 1}
    server = cloud.boot(
        block_device_mapping=[{**root, "delete_on_termination": True}], image_id="", networks=[{"port": port}]
    )
    [boot_volume] = [each.volume_id for each in user.compute.volume_attachments(server)]
    cloud.until_it_ticks(server, boots=1)
    source = cloud.until_at(server, [boot_volume], port)

    user.block_storage.wait_for_status(data, "available", wait=HANG_S)
    user.compute.create_volume_attachment(server, volume_id=data.id)
    both = [boot_volume, data.id]
    wait_for(lambda: cloud.volume_hosts(data.id), lambda seen: seen == [source], "the volume is attached")
    cloud.until_at(server, both, port)

    user.compute.migrate_server(server)
    cloud.until(server, "VERIFY_RESIZE")
    cloud.until_it_ticks(server, boots=2)
    user.compute.confirm_server_resize(server)
    cloud.until(server, "ACTIVE")
    target = cloud.until_at(server, both, port)
    assert target != source

    memory = cloud.until_it_ticks(server, boots=2).nonce
    user.compute.live_migrate_server(server, block_migration="auto")
    cloud.until(server, "ACTIVE")
    assert cloud.until_at(server, both, port) == source
    assert cloud.until_it_ticks(server, boots=2).nonce == memory

    user.compute.delete_volume_attachment(server, data.id)
    user.block_storage.wait_for_status(data, "available", wait=HANG_S)
    cloud.until_at(server, [boot_volume], port)
    cloud.prove()
    cloud.delete(server)
    wait_for(lambda: user.block_storage.find_volume(boot_volume), lambda seen: seen is None, "its volume is deleted")
    assert cloud.mounted() == []
    cloud.prove()


def test_a_volume_grows_and_changes_its_back_end_under_a_guest(
    cloud: GuestsBesideOpenstack, port: str, ending: ExitStack
) -> None:
    """The guest boots from it: Cinder extends it, and retypes it by a migration for which it asks for a swap."""
    user, picture = cloud.user, cloud.image()
    ending.callback(user.image.delete_image, picture)
    if user.block_storage.find_type(GROWING) is None:
        pytest.skip(f"this Cinder has no type {GROWING}, with a back end that extends volumes in use")
    root = {"source_type": "image", "destination_type": "volume", "uuid": picture, "boot_index": 0, "volume_size": 1}
    device = {**root, "delete_on_termination": True, "volume_type": GROWING}
    server = cloud.boot(block_device_mapping=[device], image_id="", networks=[{"port": port}])
    [volume] = [each.volume_id for each in user.compute.volume_attachments(server)]
    nonce = cloud.until_it_ticks(server, boots=1).nonce
    assert (cloud.size_gib(volume), cloud.share_of(volume)) == (1, GROWING)

    said = user.block_storage.post(
        f"/volumes/{volume}/action", json={"os-extend": {"new_size": 2}}, microversion="3.42"
    )
    assert said.status_code == 202, said.text
    wait_for(lambda: cloud.size_gib(volume), lambda seen: seen == 2, "the guest sees the new size")
    wait_for(lambda: cloud.actions(server), lambda seen: seen[0] == ("extend_volume", None), "the action is done")

    user.block_storage.retype_volume(volume, DEFAULT, migration_policy="on-demand")
    shown = wait_for(
        lambda: user.block_storage.get_volume(volume), lambda seen: seen.status != "retyping", "the volume is retyped"
    )
    assert (shown.volume_type, shown.status, shown.size) == (DEFAULT, "in-use", 2)
    wait_for(lambda: cloud.actions(server), lambda seen: seen[0] == ("swap_volume", None), "the action is done")
    assert (cloud.size_gib(volume), cloud.share_of(volume)) == (2, SHARE_NAME.rpartition("/")[2])
    ticked = cloud.until_it_ticks(server, boots=1)
    assert ticked.nonce == nonce
    wait_for(lambda: cloud.until_it_ticks(server, boots=1).ticks, lambda seen: seen > ticked.ticks, "it goes on")
    cloud.until_at(server, [volume], port)

    user.compute.reboot_server(server, "HARD")
    cloud.until(server, "ACTIVE")
    cloud.until_it_ticks(server, boots=2)  # of the same disk
    cloud.prove()
    cloud.delete(server)
    wait_for(lambda: user.block_storage.find_volume(volume), lambda seen: seen is None, "its volume is deleted")
    assert cloud.mounted() == []
    cloud.prove()


def test_snapshots_of_cinder_follow_a_guest_that_moves(
    cloud: GuestsBesideOpenstack, port: str, ending: ExitStack
) -> None:
    user, picture = cloud.user, cloud.image()
    ending.callback(user.image.delete_image, picture)
    root = {"source_type": "image", "destination_type": "volume", "uuid": picture, "boot_index": 0, "volume_size": 1}
    server = cloud.boot(
        block_device_mapping=[{**root, "delete_on_termination": True}], image_id="", networks=[{"port": port}]
    )
    [volume] = [each.volume_id for each in user.compute.volume_attachments(server)]
    cloud.until_it_ticks(server, boots=1)
    source = cloud.until_at(server, [volume], port)

    first = cloud.snapshot(volume)
    assert cloud.files(volume) == {f"volume-{volume}", f"volume-{volume}.{first}"}
    cloud.when_free(lambda: user.compute.migrate_server(server))
    cloud.until(server, "VERIFY_RESIZE")
    cloud.until_it_ticks(server, boots=2)
    second = cloud.snapshot(volume)
    assert cloud.active_file(volume) == f"volume-{volume}.{second}"
    cloud.when_free(lambda: user.compute.revert_server_resize(server))
    cloud.until(server, "ACTIVE")
    cloud.until_it_ticks(server, boots=3)
    assert cloud.until_at(server, [volume], port) == source
    assert cloud.active_file(volume) == f"volume-{volume}.{second}"

    cloud.delete_snapshot(first)
    assert cloud.files(volume) == {f"volume-{volume}", f"volume-{volume}.{second}"}
    memory = cloud.until_it_ticks(server, boots=3).nonce
    cloud.when_free(lambda: user.compute.live_migrate_server(server, block_migration="auto"))
    cloud.until(server, "ACTIVE")
    assert cloud.until_at(server, [volume], port) != source
    assert cloud.until_it_ticks(server, boots=3).nonce == memory
    cloud.delete_snapshot(second)
    assert cloud.files(volume) == {f"volume-{volume}.{second}"}
    assert cloud.until_it_ticks(server, boots=3).nonce == memory

    cloud.when_free(lambda: user.compute.migrate_server(server))
    cloud.until(server, "VERIFY_RESIZE")
    user.compute.confirm_server_resize(server)
    cloud.until(server, "ACTIVE")
    cloud.until_it_ticks(server, boots=4)
    assert cloud.until_at(server, [volume], port) == source
    cloud.prove()
    cloud.delete(server)
    wait_for(lambda: user.block_storage.find_volume(volume), lambda seen: seen is None, "its volume is deleted")
    assert cloud.files(volume) == set()


def test_a_guest_comes_back_from_an_image_in_glance(cloud: GuestsBesideOpenstack, port: str, ending: ExitStack) -> None:
    user, picture = cloud.user, cloud.image()
    ending.callback(user.image.delete_image, picture)
    server = cloud.boot(image_id=picture, networks=[{"port": port}])
    cloud.until_it_ticks(server, boots=1)
    shot = user.compute.create_server_image(server, cloud.name, wait=True, timeout=HANG_S)
    ending.callback(user.image.delete_image, shot.id)
    stored = user.image.get_image(shot.id)
    assert (stored.status, stored.disk_format, stored.owner_id) == ("active", "qcow2", user.current_project_id)

    user.compute.shelve_server(server)
    cloud.until(server, "SHELVED_OFFLOADED")
    user.compute.unshelve_server(server)
    cloud.until(server, "ACTIVE")
    cloud.until_it_ticks(server, boots=2)
    cloud.until_at(server, [], port)
    cloud.delete(server)

    again = cloud.boot(image_id=shot.id, networks=[{"port": port}])
    cloud.until_it_ticks(again, boots=2)
    cloud.delete(again)
    own = [each.id for each in user.image.images(owner=user.current_project_id, name=cloud.name)]
    assert sorted(own) == sorted([picture, shot.id]), "what carried the disk is gone"
    cloud.prove()
