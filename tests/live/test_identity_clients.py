"""Unmodified clients of Keystone against a running cloud."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.live.openstack_client import openstack_client
from tests.live.running_cloud import ADMIN, RunningCloud, running_cloud

pytestmark = pytest.mark.long


def test_programs_groups_domains_and_services(tmp_path: Path) -> None:
    with running_cloud(tmp_path) as cloud:
        _program_lists_servers(cloud)
        cloud.say("domain", "create", "second", cloud=ADMIN)
        cloud.say("group", "create", "--domain", "second", "team", cloud=ADMIN)
        cloud.say("project", "create", "lab", cloud=ADMIN)
        cloud.say("group", "add", "user", "--group-domain", "second", "team", "demo", cloud=ADMIN)
        cloud.say(
            "role", "add", "--group", "team", "--group-domain", "second", "--project", "lab", "member", cloud=ADMIN
        )
        listed = cloud.openstack(
            "role", "assignment", "list", "--group", "team", "--group-domain", "second", "--names", cloud=ADMIN
        )
        assert [(line["Role"], line["Project"]) for line in listed] == [("member", "lab@Default")]
        assert "lab" in {project["Name"] for project in cloud.openstack("project", "list", "--my-projects")}
        assert "disable it first" in cloud.refusal("domain", "delete", "second", cloud=ADMIN)
        cloud.say("region", "create", "RegionTwo", cloud=ADMIN)
        cloud.say("service", "create", "--name", "swift", "object-store", cloud=ADMIN)
        place = ("--region", "RegionTwo", "object-store", "public", "http://127.0.0.1:8080/v1")
        cloud.say("endpoint", "create", *place, cloud=ADMIN)
        assert "swift" in {service["Name"] for service in cloud.openstack("catalog", "list")}
        keys = cloud.openstack("ec2", "credentials", "create")
        assert [line["Access"] for line in cloud.openstack("ec2", "credentials", "list")] == [keys["access"]]
        assert "not supported" in cloud.refusal("trust", "list", cloud=ADMIN)
        _reader_in_the_system_reads(cloud)


def _reader_in_the_system_reads(cloud: RunningCloud) -> None:
    admin, demo = (_in_system(cloud, name) for name in (ADMIN, "whimbrel"))
    admin("role", "add", "--system", "all", "--user", "demo", "reader")
    listed = cloud.openstack("role", "assignment", "list", "--system", "all", "--names", cloud=ADMIN)
    assert {(line["Role"], line["User"], line["System"]) for line in listed} == {
        ("admin", "admin@Default", "all"),
        ("reader", "demo@Default", "all"),
    }
    assert "admin" in demo("user", "list", "-f", "value", "-c", "Name").split()
    assert "403" in demo("user", "create", "other", fails=True)
    assert "403" in admin("server", "list", "--all-projects", fails=True)
    admin("role", "remove", "--system", "all", "--user", "demo", "reader")
    assert "401" in demo("user", "list", fails=True)


def _in_system(cloud: RunningCloud, name: str) -> Callable[..., str]:
    """Return what runs a command with a token for the system. name: of the user's entry in clouds.yaml."""
    auth = yaml.safe_load(cloud.home.clouds.read_text())["clouds"][name]["auth"]
    environment = {key: value for key, value in cloud.environment.items() if key != "OS_CLIENT_CONFIG_FILE"} | {
        "OS_AUTH_URL": auth["auth_url"],
        "OS_USERNAME": auth["username"],
        "OS_PASSWORD": auth["password"],
        "OS_USER_DOMAIN_ID": "default",
        "OS_SYSTEM_SCOPE": "all",
    }

    def run(*words: str, fails: bool = False) -> str:
        done = openstack_client().run(list(words), environment)
        assert (done.returncode != 0) is fails, (words, done.stderr)
        return done.stderr if fails else done.stdout

    return run


def _program_lists_servers(cloud: RunningCloud) -> None:
    made = cloud.openstack("application", "credential", "create", "program")
    environment = {name: value for name, value in cloud.environment.items() if name != "OS_CLIENT_CONFIG_FILE"} | {
        "OS_AUTH_TYPE": "v3applicationcredential",
        "OS_AUTH_URL": f"{cloud.home.running().url}/identity/v3",
        "OS_APPLICATION_CREDENTIAL_ID": made["ID"],
        "OS_APPLICATION_CREDENTIAL_SECRET": made["Secret"],
    }
    ours = ["server", "create", "--flavor", "1", "--image", "tick", "--network", "private", "--wait", "of-a-program"]
    assert openstack_client().run(ours, environment).returncode == 0
    assert [server["Name"] for server in cloud.openstack("server", "list")] == ["of-a-program"]
    cloud.say("application", "credential", "delete", "program")
    assert openstack_client().run(["server", "list"], environment).returncode != 0
