"""Ansible's collection openstack.cloud against a running cloud, where it is installed: it is large."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.live.running_cloud import running_cloud

VENV = "WHIMBREL_TEST_ANSIBLE"
PLAYBOOK = """
- hosts: localhost
  connection: local
  gather_facts: false
  vars: {ansible_python_interpreter: PYTHON}
  module_defaults:
    group/openstack.cloud.openstack: {cloud: whimbrel}
  tasks:
    - openstack.cloud.network: {name: public, external: true, cloud: whimbrel-admin}
    - openstack.cloud.subnet: {network_name: public, name: public, cidr: 192.0.2.0/24, cloud: whimbrel-admin}
    - openstack.cloud.network: {name: net}
    - openstack.cloud.subnet: {network_name: net, name: four, cidr: 10.20.0.0/24}
    - openstack.cloud.router: {name: r, network: public, interfaces: [four]}
    - openstack.cloud.routers_info: {name: r}
    - openstack.cloud.server: {name: one, image: tick, flavor: m1.tiny, network: net, auto_ip: false}
    - openstack.cloud.floating_ip: {server: one, network: public, wait: true}
      register: made
    - openstack.cloud.server_action: {server: one, action: pause}
    - openstack.cloud.server_action: {server: one, action: unpause}
    - openstack.cloud.server_action: {server: one, action: rebuild, image: tick}
    - openstack.cloud.floating_ip:
        {server: one, network: public, state: absent, purge: true,
         floating_ip_address: "{{ made.floating_ip.floating_ip_address }}"}
    - openstack.cloud.server: {name: one, state: absent, delete_ips: true}
    - openstack.cloud.router: {name: r, state: absent}
    - openstack.cloud.network: {name: net, state: absent}
"""


def test_ansible_s_modules(tmp_path: Path) -> None:
    if VENV not in os.environ:
        pytest.skip(
            f"{VENV} names no virtual environment with ansible and an openstacksdk that it supports, such as 4.7"
        )
    programs = Path(os.environ[VENV]) / "bin"
    playbook = tmp_path / "playbook.yml"
    playbook.write_text(PLAYBOOK.replace("PYTHON", str(programs / "python")))
    with running_cloud(tmp_path) as cloud:
        done = subprocess.run(
            [programs / "ansible-playbook", "-i", "localhost,", playbook],
            env=cloud.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout
