"""The pytest plugin, as somebody uses it who tests a tool: a new cloud for each test, faults, restarts."""

import subprocess
import sys
from pathlib import Path

TESTS = '''
import openstack
import pytest

HOSTS = """
[[cell]]
name = "one"
[[cell.host]]
name = "lonely"
zone = "north"
vcpus = 4
memory_mib = 4096
disk_gib = 50
driver = "simulated"
"""

def boot(cloud, name):
    c = cloud.connection()
    image, flavor = c.image.find_image("tick"), c.compute.find_flavor("m1.tiny")
    server = c.compute.create_server(name=name, image_id=image.id, flavor_id=flavor.id, networks="none")
    return c, c.compute.wait_for_server(server, status="ACTIVE", interval=0.05, wait=None)

def names(cloud):
    return [server.name for server in cloud.connection().compute.servers()]

@pytest.mark.parametrize("round", range(3))
def test_each_test_has_a_cloud_of_its_own(whimbrel_cloud, round):
    assert names(whimbrel_cloud) == []
    boot(whimbrel_cloud, f"s{round}")
    assert [server.name for server in openstack.connect().compute.servers()] == [f"s{round}"]

def test_the_next_create_fails_on_all_hosts_and_the_one_after_it_does_not(whimbrel_cloud):
    whimbrel_cloud.fail_next("create", reason="the disk is full")
    with pytest.raises(openstack.exceptions.ResourceFailure):
        boot(whimbrel_cloud, "first")
    assert boot(whimbrel_cloud, "second")[1].status == "ACTIVE"

def test_a_move_that_gets_no_answer_goes_on_when_the_host_answers_again(whimbrel_cloud):
    c, server = boot(whimbrel_cloud, "mobile")
    whimbrel_cloud.fail_next("stop", unavailable=True, times=2)
    c.compute.stop_server(server)
    c.compute.wait_for_server(server, status="SHUTOFF", interval=0.05, wait=None)

def test_a_killed_cloud_goes_on_where_it_was(whimbrel_cloud):
    c, server = boot(whimbrel_cloud, "survivor")
    url = whimbrel_cloud.url
    whimbrel_cloud.kill()
    whimbrel_cloud.start()
    assert whimbrel_cloud.url == url
    assert names(whimbrel_cloud) == ["survivor"]

@pytest.mark.whimbrel(settings=HOSTS)
def test_hosts_of_its_own(whimbrel_cloud):
    hosts = [each.name for each in whimbrel_cloud.admin().compute.hypervisors()]
    assert hosts == ["lonely"]
    whimbrel_cloud.silence("lonely")
    c = whimbrel_cloud.connection()
    image, flavor = c.image.find_image("tick"), c.compute.find_flavor("m1.tiny")
    server = c.compute.create_server(name="waits", image_id=image.id, flavor_id=flavor.id, networks="none")
    assert c.compute.get_server(server).status == "BUILD"
    whimbrel_cloud.answer_again("lonely")
    c.compute.wait_for_server(server, status="ACTIVE", interval=0.05, wait=None)

def test_a_fault_that_would_never_happen_is_refused(whimbrel_cloud):
    with pytest.raises(ValueError, match="no operation 'creat'; there are create, resize, "):
        whimbrel_cloud.fail_next("creat")
    with pytest.raises(ValueError, match="no host 'n9'; there are n1, n2, n3, s1, s2, s3"):
        whimbrel_cloud.fail_next("create", host="n9")
    with pytest.raises(ValueError, match="no host 'n9'"):
        whimbrel_cloud.silence("n9")
    whimbrel_cloud.fail_next("create_disk", host="n1")  # an order of the hypervisor

def test_a_cloud_that_does_not_start_says_why(whimbrel_clouds):
    from whimbrel.testing.clouds import CloudFailed
    with pytest.raises(CloudFailed, match="cell"):
        with whimbrel_clouds.started("[[cell]]"):
            pass
'''


def test_the_plugin_gives_each_test_a_cloud(tmp_path: Path) -> None:
    (tmp_path / "test_tool.py").write_text(TESTS)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:randomly",
        "-p",
        "no:cacheprovider",
        "--durations=9",
        ".",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "9 passed" in done.stdout
