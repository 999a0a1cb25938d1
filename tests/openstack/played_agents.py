"""Plays the Open vSwitch agents of hosts towards a real Neutron; runs where Neutron is installed.

Neutron binds a port to a host only if an agent there has reported lately; its placement plugin passes on the bandwidth
that agents report; and a port is ACTIVE once its agent has plugged it. All of that is said here over the agents' RPC,
and nothing is plugged. Arguments: the hosts, the physical network, its bridge and its bandwidth, then Neutron's.
"""

import sys
import time
from typing import Any

from keystoneauth1 import exceptions, loading
from neutron.agent import rpc as agent_rpc
from neutron.common import config
from neutron.conf.agent import common as agent_config
from neutron_lib import context
from neutron_lib.agent import topics
from oslo_config import cfg

HEARTBEAT_S = 10.0
POLL_S = 0.3


def state(host: str, network: str, bridge: str, kbps: int) -> dict[str, Any]:
    """Return what the agent of a host reports."""
    inventory = {"allocation_ratio": 1.0, "min_unit": 1, "step_size": 1, "reserved": 0}
    configurations = {
        "bridge_mappings": {network: bridge},
        "tunnel_types": ["vxlan"],
        "tunneling_ip": "127.0.0.1",
        "datapath_type": "system",
        "ovs_hybrid_plug": False,
        "integration_bridge": "br-int",
        "resource_provider_bandwidths": {bridge: {"egress": kbps, "ingress": kbps}},
        "resource_provider_inventory_defaults": inventory,
        "resource_provider_hypervisors": {bridge: host},
    }
    return {
        "binary": "neutron-openvswitch-agent",
        "host": host,
        "topic": "N/A",
        "agent_type": "Open vSwitch agent",
        "configurations": configurations,
        "start_flag": True,
    }


def main(hosts: str, network: str, bridge: str, kbps: str, *arguments: str) -> None:
    config.register_common_config_options()
    agent_config.register_agent_state_opts_helper(cfg.CONF)
    loading.register_auth_conf_options(cfg.CONF, "placement")
    loading.register_session_conf_options(cfg.CONF, "placement")
    config.init(list(arguments))
    config.setup_logging()
    auth = loading.load_auth_from_conf_options(cfg.CONF, "placement")
    neutron = loading.load_session_from_conf_options(cfg.CONF, "placement", auth=auth)
    reports, plugs = agent_rpc.PluginReportStateAPI(topics.REPORTS), agent_rpc.PluginApi(topics.PLUGIN)
    admin = context.get_admin_context_without_session()
    states = {host: state(host, network, bridge, int(kbps)) for host in hosts.split(",")}
    reported = float("-inf")
    query = "/v2.0/ports?status=DOWN&fields=id&fields=binding:host_id&fields=binding:vif_type"
    while True:
        if time.monotonic() - reported >= HEARTBEAT_S:
            for each in states.values():
                reports.report_state(admin, each, use_call=True)
                each.pop("start_flag", None)
            if reported < 0:
                print("the agents have reported", flush=True)
            reported = time.monotonic()
        try:
            ports = neutron.get(query, endpoint_filter={"service_type": "network"}).json()["ports"]
        except (exceptions.ConnectFailure, exceptions.HttpError) as error:
            print("Neutron does not answer:", error, flush=True)
            ports = []
        for port in ports:
            host = port["binding:host_id"]
            if host in states and port["binding:vif_type"] == "ovs":
                plugs.update_device_up(admin, port["id"], f"ovs-agent-{host}", host)
        time.sleep(POLL_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
