"""The metadata of guests: the documents of both formats, and their paths."""

import base64
import dataclasses
import json
from typing import Any

from msgspec.structs import replace

from whimbrel.domain.flavor import Flavor
from whimbrel.domain.guest_settings import GuestRules
from whimbrel.domain.ids import ProjectId, ServerId, UserId
from whimbrel.domain.server import RequestSpec, Server
from whimbrel.domain.server_devices import BlockDevice, FixedIp, Nic
from whimbrel.guest_data import openstack_format
from whimbrel.guest_data.described_guest import DescribedGuest, GuestNetwork
from whimbrel.guest_data.drive_files import drive_files
from whimbrel.guest_data.metadata_paths import look_up
from whimbrel.guest_data.network_data import network_data
from whimbrel.ports.services.network import NetworkInfo, Subnet

TODAY = "2026-11-23"
PORT = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
NIC = Nic(
    port_id=PORT,
    network_id="net",
    label="front",
    mac="fa:16:3e:00:00:01",
    addresses=(FixedIp("10.0.0.5", "s4"), FixedIp("2001:db8::5", "s6")),
    tag="front",
)
VOLUME = BlockDevice(
    id="1", volume_id="vol", attachment_id="a", host="h1", device="/dev/vdb", tag="data", delete_on_termination=True
)
S4 = Subnet(
    id="s4",
    network_id="net",
    cidr="10.0.0.0/24",
    version=4,
    gateway="10.0.0.1",
    name_servers=("9.9.9.9",),
    routes=(("192.168.0.0/16", "10.0.0.2"),),
)
S6 = Subnet(id="s6", network_id="net", cidr="2001:db8::/64", version=6, ipv6_address_mode="slaac", enable_dhcp=True)
NETWORK = NetworkInfo(id="net", name="front", project_id="p", is_shared=False, mtu=1450)


def a_guest(rules: GuestRules = GuestRules(), **fields: Any) -> DescribedGuest:  # noqa: B008
    server = Server(
        id=ServerId("12345678-bbbb-cccc-dddd-eeeeeeeeeeee"),
        project_id=ProjectId("p"),
        user_id=UserId("u"),
        name="Web 1",
        hostname="web-1",
        flavor=Flavor(flavor_id="1", name="small", vcpus=4, memory_mib=512, root_gib=1, ephemeral_gib=1, swap_mib=64),
        image_id="87654321-bbbb-cccc-dddd-eeeeeeeeeeee",
        spec=RequestSpec(),
        created_at=0.0,
        updated_at=0.0,
        reservation_id="r-1",
        random_seed="seed",
        nics=(NIC,),
        volumes=(VOLUME,),
    )
    network = GuestNetwork(nic=NIC, network=NETWORK, subnets=(S4, S6))
    return DescribedGuest(server=replace(server, **fields), zone="north", rules=rules, networks=(network,))


def read(guest: DescribedGuest, path: str) -> str | None:
    told = look_up(guest, path, TODAY)
    return told.body.decode() if told else None


def meta_data(guest: DescribedGuest, version: str = "latest") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(read(guest, f"/openstack/{version}/meta_data.json") or "")
    return found


# OpenStack's format


def test_vendor_data_is_that_of_the_providers() -> None:
    static = {"ntp": "a"}
    for providers, expected in (((), {}), (("StaticJSON",), static), (("DynamicJSON",), {})):
        guest = a_guest(GuestRules(vendor_data=static, vendordata_providers=providers))
        assert json.loads(read(guest, "/openstack/latest/vendor_data.json") or "") == expected
        both = {"static": static, "dns": [1]} if providers == ("StaticJSON",) else {"dns": [1]}
        dynamic = dataclasses.replace(guest, dynamic_vendor_data={"dns": [1]})
        assert json.loads(read(dynamic, "/openstack/latest/vendor_data2.json") or "") == both


def test_meta_data_grows_with_its_versions() -> None:
    guest = a_guest(metadata={"role": "web"}, key_name="k", key_data="ssh-rsa AAAA", launch_index=3)
    oldest, newest = meta_data(guest, "2012-08-10"), meta_data(guest)
    assert oldest == {
        "uuid": guest.server.id,
        "meta": {"role": "web"},
        "public_keys": {"k": "ssh-rsa AAAA"},
        "keys": [{"name": "k", "type": "ssh", "data": "ssh-rsa AAAA"}],
        "hostname": "web-1.novalocal",
        "name": "Web 1",
        "launch_index": 3,
        "availability_zone": "north",
    }
    assert newest.keys() - oldest.keys() == {"random_seed", "project_id", "devices", "dedicated_cpus"}
    assert "random_seed" in meta_data(guest, "2013-04-04")
    assert "project_id" not in meta_data(guest, "2013-10-17")


def test_the_seed_is_long_and_stays_the_same() -> None:
    seed = meta_data(a_guest())["random_seed"]
    assert len(base64.b64decode(seed)) == 512
    assert meta_data(a_guest(metadata={"a": "b"}))["random_seed"] == seed
    assert meta_data(a_guest(random_seed="other"))["random_seed"] != seed
    assert "random_seed" not in meta_data(a_guest(random_seed=""))


def test_tagged_devices_are_told() -> None:
    nic, disk = meta_data(a_guest())["devices"]
    assert nic == {
        "vf_trusted": False,
        "type": "nic",
        "mac": NIC.mac,
        "bus": "none",
        "address": "none",
        "tags": ["front"],
    }
    assert (disk["type"], disk["serial"], disk["path"], disk["tags"]) == ("disk", "vol", "/dev/vdb", ["data"])
    assert meta_data(a_guest(nics=(replace(NIC, tag=None),), volumes=()))["devices"] == []
    assert "vf_trusted" not in meta_data(a_guest(), "2017-02-22")["devices"][0]


def test_dedicated_cpus_are_those_of_the_policy() -> None:
    flavor = a_guest().server.flavor
    for specs, told in (
        ({}, []),
        ({"hw:cpu_policy": "dedicated"}, [0, 1, 2, 3]),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^0"}, [1, 2, 3]),
    ):
        assert meta_data(a_guest(flavor=replace(flavor, extra_specs=specs)))["dedicated_cpus"] == told


def test_versions_and_their_documents_are_listed() -> None:
    guest = a_guest(user_data=base64.b64encode(b"hello").decode())
    assert (read(guest, "/openstack") or "").split() == [*openstack_format.VERSIONS, "latest"]
    listed = look_up(guest, "/openstack/", "2018-01-01")
    assert listed is not None
    assert listed.body.split()[-2:] == [b"2017-02-22", b"latest"]
    assert (read(guest, "/openstack/2012-08-10") or "").split() == ["meta_data.json", "user_data"]
    assert (read(guest, "/openstack/latest/") or "").split() == [
        *("meta_data.json", "user_data", "password", "vendor_data.json", "network_data.json", "vendor_data2.json"),
    ]
    assert read(guest, "/openstack/latest/user_data") == "hello"
    for path in (
        "/openstack/1.0",
        "/openstack/latest/none",
        "/openstack/latest/user_data/x",
        "/openstack/content/0000",
    ):
        assert read(guest, path) is None
    assert read(a_guest(), "/openstack/latest/user_data") is None
    assert read(guest, "/openstack/2013-10-17/network_data.json") is None


def test_vendor_data_are_those_of_the_settings() -> None:
    guest = a_guest(rules=GuestRules(vendor_data={"ntp": "time.example.org"}, dhcp_domain=""))
    assert json.loads(read(guest, "/openstack/latest/vendor_data.json") or "") == {"ntp": "time.example.org"}
    assert json.loads(read(guest, "/openstack/latest/vendor_data2.json") or "") == {
        "static": {"ntp": "time.example.org"}
    }
    assert meta_data(guest)["hostname"] == "web-1"


# network_data.json


def test_networks_have_addresses_unless_they_are_told_by_dhcp() -> None:
    told = network_data(a_guest().networks)
    assert told["links"] == [
        {"id": "tapaaaaaaaa-bb", "vif_id": PORT, "type": "phy", "mtu": None, "ethernet_mac_address": NIC.mac}
    ]
    v4, v6 = told["networks"]
    assert v4 == {
        "id": "network0",
        "type": "ipv4",
        "link": "tapaaaaaaaa-bb",
        "network_id": "net",
        "ip_address": "10.0.0.5",
        "netmask": "255.255.255.0",
        "routes": [
            {"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "10.0.0.1"},
            {"network": "192.168.0.0", "netmask": "255.255.0.0", "gateway": "10.0.0.2"},
        ],
        "services": [{"type": "dns", "address": "9.9.9.9"}],
    }
    assert (v6["type"], v6["ip_address"], v6["netmask"]) == ("ipv6_slaac", "2001:db8::5", "ffff:ffff:ffff:ffff::")
    assert told["services"] == [{"type": "dns", "address": "9.9.9.9"}]


def test_a_network_with_dhcp_has_no_addresses() -> None:
    subnet = replace(S4, enable_dhcp=True)
    told = network_data([GuestNetwork(nic=NIC, network=NETWORK, subnets=(subnet,))])
    assert told["networks"] == [{"id": "network0", "type": "ipv4_dhcp", "link": "tapaaaaaaaa-bb", "network_id": "net"}]
    assert network_data([GuestNetwork(nic=NIC, network=NETWORK, subnets=(S4,))])["links"][0]["mtu"] == 1450
    assert network_data([GuestNetwork(nic=NIC, network=None, subnets=())])["links"] == []


# EC2's format


def test_ec2_metadata_is_a_tree() -> None:
    guest = a_guest(key_name="k", key_data="ssh-rsa AAAA")
    assert (read(guest, "/") or "").split()[0] == "1.0"
    assert read(guest, "/latest") == "meta-data/"
    assert (read(guest, "/latest/meta-data/") or "").split() == [
        *("ami-id", "ami-launch-index", "ami-manifest-path", "block-device-mapping/", "hostname", "instance-action"),
        *("instance-id", "instance-type", "local-hostname", "local-ipv4", "placement/", "public-hostname"),
        *("public-ipv4", "public-keys/", "reservation-id", "security-groups"),
    ]
    assert read(guest, "/latest/meta-data/public-keys/") == "0=k"
    assert read(guest, "/latest/meta-data/public-keys/0/openssh-key") == "ssh-rsa AAAA"
    assert read(guest, "/2009-04-04/meta-data/placement/availability-zone") == "north"
    assert read(guest, "/ec2/latest/meta-data/local-ipv4") == "10.0.0.5"
    assert read(guest, "/latest/meta-data/instance-id") == "i-12345678"
    assert read(guest, "/latest/meta-data/block-device-mapping/ebs0") == "/dev/vdb"
    assert read(guest, "/latest/meta-data/security-groups") == "default"
    assert "placement/" not in (read(guest, "/1.0/meta-data") or "").split()
    for path in (
        "/3000-01-01/meta-data",
        "/latest/meta-data/none",
        "/latest/meta-data/hostname/x",
        "/latest/user-data",
    ):
        assert read(guest, path) is None


# The config drive


def test_a_drive_has_both_formats_and_the_admin_password() -> None:
    files = drive_files(a_guest(admin_pass="secret", user_data="aGVsbG8=", key_name="k", key_data="ssh-rsa AAAA"))
    assert files["openstack/latest/user_data"] == files["ec2/latest/user-data"] == b"hello"
    assert json.loads(files["openstack/latest/meta_data.json"])["admin_pass"] == "secret"
    assert json.loads(files["ec2/2009-04-04/meta-data.json"])["public-keys"] == {"0": {"openssh-key": "ssh-rsa AAAA"}}
    assert json.loads(files["openstack/latest/network_data.json"]) == network_data(a_guest().networks)
    assert {path.split("/")[1] for path in files if path.startswith("openstack")} == {
        *openstack_format.VERSIONS,
        "latest",
    }
    assert not any(path.endswith("/password") for path in files)
    assert files == drive_files(
        a_guest(admin_pass="secret", user_data="aGVsbG8=", key_name="k", key_data="ssh-rsa AAAA")
    )
