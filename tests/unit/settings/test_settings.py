"""cloud.toml: the default is good, and every mistake is one sentence with file, place and remedy."""

from pathlib import Path

import msgspec
import pytest

from whimbrel import settings
from whimbrel.domain.errors import Invalid
from whimbrel.domain.host_nics import HostNet, HostNic
from whimbrel.domain.numa import NumaNode
from whimbrel.domain.pci import PciAlias, PciDevice
from whimbrel.domain.quota_settings import QuotaRules
from whimbrel.ports.services.images import ImageLimits
from whimbrel.settings import LibvirtHost, SimulatedHost

GOOD = """
[[cell]]
name = "a"

[[cell.host]]
name = "n1"
zone = "z"
vcpus = 4
memory_mib = 4096
disk_gib = 40
driver = "simulated"
"""

PCI = """
[[cell.host.pci]]
address = "0000:81:00.1"
vendor_id = "8086"
product_id = "154c"
physnet = "data"
parent_ifname = "ens1f0"
"""

ALIAS = """
[[rules.pci_alias]]
name = "gpu"
vendor_id = "10de"
product_id = "1eb8"
"""

NIC = """
[[cell.host.nic]]
name = "ens5"
physnet = "physnet0"
"""

CARD = "[[cell.host.nic]] number 1"
HOST = "[[cell.host]] number 1 ('n1') of [[cell]] number 1 ('a')"


def load(tmp_path: Path, text: str) -> settings.CloudConfig:
    file = tmp_path / "cloud.toml"
    file.write_text(text)
    return settings.load(file)


def complaint(tmp_path: Path, text: str) -> str:
    with pytest.raises(Invalid) as caught:
        load(tmp_path, text)
    assert "\n" not in caught.value.reason
    assert caught.value.reason.startswith(str(tmp_path / "cloud.toml"))
    return caught.value.reason.removeprefix(str(tmp_path / "cloud.toml")).removeprefix(": ")


def test_the_default_cloud_has_two_zones_and_six_simulated_hosts() -> None:
    hosts = [host for _, host in settings.load(None).hosts()]
    assert len(hosts) == 6
    assert len({host.zone for host in hosts}) == 2
    assert all(isinstance(host, settings.SimulatedHost) for host in hosts)
    assert all(host.net.serves("physnet0", "normal") for host in hosts)


def test_every_table_is_taken(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        GOOD.replace('"simulated"', '"libvirt"\nuri = "qemu:///system"\nguest_nics = "user"')
        + "[rules]\nlease_s = 1.5\nallow_resize_to_same_host = true\n"
        + "[simulated]\ncopy_disk_s = 2\n[listen]\nport = 0\n"
        + '[database]\nurl = "postgresql://u@h/d"\n',
    )
    [(cell, host)] = config.hosts()
    assert cell.name == "a"
    assert isinstance(host, LibvirtHost)
    assert host.uri == "qemu:///system"
    assert host.guest_nics == "user"
    assert config.rules.lease_s == 1.5
    assert config.rules.allow_resize_to_same_host
    assert config.rules.max_attempts == 3
    assert config.simulated.copy_disk_s == 2
    assert config.listen.port == 0
    assert config.database
    assert config.database.url == "postgresql://u@h/d"


def test_the_old_name_of_a_rule_is_read_beside_no_new_one(tmp_path: Path) -> None:
    assert load(tmp_path, GOOD + "[rules]\npatience_s = 7\n").rules.step_timeout_s == 7
    assert "'patience_s'" in complaint(tmp_path, GOOD + "[rules]\npatience_s = 7\nstep_timeout_s = 8\n")


@pytest.mark.parametrize(
    ("was", "now", "place", "suggestion"),
    [
        ('name = "n1"', 'name = "a b"', "number 1 ('a b') of", "letters, digits"),
        ('name = "a"', 'name = "A-1"', "[[cell]] number 1 ('A-1'): 'name'", "small letters"),
        ('zone = "z"', 'zone = ""', f"{HOST}: 'zone' is ''", "letters, digits"),
        ('zone = "z"', 'zone = "internal"', f"{HOST}: 'zone' is 'internal'", "not 'internal'"),
        ('zone = "z"\n', "", f"{HOST} has no 'zone'", "give it"),
        ("vcpus = 4", "vcpus = 0", f"{HOST}: 'vcpus' is 0", "a whole number, 1 or more"),
        ("memory_mib = 4096", "memory_mib = -1", f"{HOST}: 'memory_mib' is -1", "of MiB"),
        ("disk_gib = 40", 'disk_gib = "40"', f"{HOST}: 'disk_gib' is '40'", "of GiB"),
        ('"simulated"', '"kvm"', f"{HOST}: 'driver' is 'kvm'", "'simulated' or 'libvirt'"),
        ('driver = "simulated"', "", f"{HOST} has no 'driver'", "'simulated' or 'libvirt'"),
        ('"simulated"', '"libvirt"', f"{HOST} has no 'uri'", "qemu:///system"),
        ("vcpus = 4", "vcpus = 4\ncpus = 5", f"{HOST} has an unknown key 'cpus'", "use one of: name, zone, vcpus"),
        ("vcpus = 4", "vcpus =", "is not valid TOML", "line 8"),
        ('"simulated"', '"libvirt"\nuri="x://"\nvirt_type="xen"', "'virt_type' is 'xen'", "'auto', 'kvm' or 'qemu'"),
        (
            '"simulated"',
            '"libvirt"\nuri="x://"\nguest_nics="macvtap"',
            "'guest_nics' is 'macvtap'",
            "'tap', 'ovs', 'bridge' or 'user'",
        ),
        (GOOD, GOOD + NIC.replace("ens5", "e 5"), f"{CARD} ('e 5') of {HOST}: 'name' is 'e 5'", "such as 'ens5'"),
        (GOOD, GOOD + NIC + "egress_kbps = -1\n", "'egress_kbps' is -1", "0 has it not counted"),
        (GOOD, GOOD + NIC + "speed = 1\n", f"{CARD} ('ens5') of {HOST} has an unknown key 'speed'", "egress_kbps"),
        (GOOD, GOOD + NIC + 'vnic_types = ["macvtap"]\n', "'vnic_types' is ['macvtap']", "['normal'] or ['direct']"),
        (
            GOOD,
            GOOD + NIC.replace("physnet =", "#"),
            f"{CARD} ('ens5') of {HOST} has no 'physnet'",
            "a physical network",
        ),
        (GOOD, GOOD + NIC + NIC, "host 'n1' has the network card 'ens5' twice", "remove one"),
        (GOOD, GOOD + "kpps = 5\negress_kpps = 5\n", "host 'n1' counts packets together and by direction", "give it"),
        (GOOD, GOOD + "kpps = 1.5\n", f"{HOST}: 'kpps' is 1.5", "thousands of packets"),
        (GOOD, "", "the file has no 'cell'", "[[cell]]"),
        (GOOD, '[[cell]]\nname = "a"\n', "('a') has no 'host'", "a [bus] at which hosts join"),
        (GOOD, GOOD + '[tls]\ncert_file = "c"\n', "[tls] has one of 'cert_file' and 'key_file'", "give it both"),
        (GOOD, GOOD + "[tls]\nkey = 1\n", "[tls] has an unknown key 'key'", "cert_file"),
        (GOOD, GOOD + '[services]\nurl = "ftp://x"\n', "[services]: 'url' is 'ftp://x'", "https://"),
        (GOOD, GOOD + '[services]\nurl = "http://c.example.org"\n', "'url' is http://c.example.org", "insecure"),
        (GOOD, GOOD + '[services]\nvolume = "http://10.0.0.1:80/v"\n', "'volume' is http://10.0.0.1", "insecure"),
        (GOOD, GOOD + '[bus]\nurls = ["http://x"]\n', "[bus]: 'urls' is ['http://x']", "tls://n1.example.org:4222"),
        (GOOD, GOOD + '[bus]\nurls = ["nats://10.0.0.1:4222"]\n', "[bus]: nats://10.0.0.1:4222", "write tls://"),
        (GOOD, GOOD + '[cloud]\nid = "x"\n', "[cloud]: 'id' is 'x'", "whimbrel db show"),
        (GOOD, GOOD + '[database]\nurl_file = "none"\n', "[database]: 'url_file'", "name a readable file"),
        (GOOD, GOOD + '[volumes]\nnbd_address = "0.0.0.0"\n', "[volumes] has the 'nbd_address'", "of [storage]"),
        (GOOD, GOOD + '[storage]\nnetwork = "10.0.0.1/8"\n', "[storage]: 'network' is", "10.1.0.0/24"),
        (
            GOOD,
            GOOD + '[volumes]\nnbd_address = "10.0.0.9"\n[storage]\nnetwork = "10.1.0.0/24"\n',
            "'nbd_address' '10.0.0.9'",
            "inside the 'network' of [storage]",
        ),
        (
            '"simulated"',
            '"libvirt"\nuri = "qemu:///system"\nnbd_address = "10.0.0.9"',
            "host 'n1' has the 'nbd_address' '10.0.0.9'",
            "127.0.0.1",
        ),
        (GOOD, 'cell = "a"', "the file: 'cell' is 'a'", "[[cell]]"),
        (GOOD, '[[cell]]\nname = "a"', "[[cell]] number 1 ('a') has no 'host'", "[[cell.host]]"),
        (GOOD, '[[cell]]\nname = "a"\nhost = [5]', "[[cell.host]] number 1 of", "must be a table"),
        ('name = "a"', 'name = "a"\ndatabase = "sqlite://"', "'database' is 'sqlite://'", "'sqlite:///DIRECTORY' or"),
        ('name = "a"', 'name = "a"\ndatabase = "mysql://x"', "'database' is 'mysql://x'", "without it the cloud's own"),
        ('name = "a"', 'name = "a"\ndatabase = "postgresql://h:x/d"', "cell 'a': the database URL", "no port number"),
        (GOOD, GOOD + '[database]\nurl = "postgresql://h/d?x=1"', "[database]: the database URL", 'parameter: "x"'),
        (GOOD, GOOD + '[database]\nurl = "sqlite://"', "[database]: 'url' is 'sqlite://'", "'sqlite:///DIRECTORY' or"),
        ('name = "a"', 'name = "a"\nenabled = 0', "[[cell]] number 1 ('a'): 'enabled' is 0", "true or false"),
        ('name = "a"', 'name = "a"\nphysnets = ["a b"]', "'physnets' is ['a b']", "its hosts reach; without it all"),
        ('name = "a"', 'name = "a"\nstorage = ["h@ceph#p"]', "'storage' is ['h@ceph#p']", "such as 'ceph'"),
        ('name = "a"', 'name = "a"\nstorage = "ceph"', "'storage' is 'ceph'", "a list of the storage back ends"),
        (GOOD, GOOD + GOOD, "two cells are called 'a'", "another name"),
        (GOOD, GOOD + GOOD.replace('"a"', '"b"'), "host 'n1' is there twice, in cell 'b' and in cell 'a'", "another"),
        (GOOD, GOOD + GOOD[GOOD.index("[[cell.host") :], "host 'n1' is there twice, in cell 'a'", "another name"),
        (GOOD, GOOD + "[rules]\nlease = 1", "[rules] has an unknown key 'lease'", "lease_s"),
        (GOOD, GOOD + "[rules]\nlease_s = 0", "[rules]: 'lease_s' is 0", "from 0.5"),
        (GOOD, GOOD + "[rules]\nlease_s = nan", "[rules]: 'lease_s' is nan", "from 0.5"),
        (GOOD, GOOD + "[rules]\nmax_attempts = 1.5", "[rules]: 'max_attempts' is 1.5", "a whole number from 1"),
        (GOOD, GOOD + "[rules]\nallow_resize_to_same_host = 1", "'allow_resize_to_same_host' is 1", "true or false"),
        (GOOD, GOOD + "[simulated]\nstart_s = -1", "[simulated]: 'start_s' is -1", "seconds from 0"),
        (GOOD, GOOD + "[listen]\nport = 70000", "[listen]: 'port' is 70000", "0 to 65535"),
        (GOOD, GOOD + "[volumes]\nnbd_port = -1", "[volumes]: 'nbd_port' is -1", "0 to 65535"),
        (GOOD, GOOD + "[consoles]\nsessions = 0", "[consoles]: 'sessions' is 0", "a whole number, 1 or more"),
        (GOOD, GOOD + '[consoles]\nallowed_origins = ["http://x"]', "'allowed_origins' is", "a list of host names"),
        (GOOD, GOOD + "[consoles]\ntoken_lifetime_s = 0", "'token_lifetime_s' is 0", "seconds from 1 to 86400"),
        (GOOD, GOOD + '[services]\nconsole = "http://c.example.org"', "'console' is http://c.example.org", "https://"),
        ("vcpus = 4", 'vcpus = 4\nconsole_address = "0.0.0.0"', "'console_address' is '0.0.0.0'", "an address of this"),
        (GOOD, GOOD + '[volumes]\nzones = ["a b"]', "'zones' is ['a b']", "a list of names"),
        (GOOD, GOOD + "[volumes]\nzones = []", "[volumes]: 'zones' is []", "a list of names"),
        (GOOD, GOOD + "[volumes]\ngigabytes_quota = -2", "'gigabytes_quota' is -2", "from -1"),
        (GOOD, GOOD + "[volumes]\nsize = 1", "[volumes] has an unknown key 'size'", "use one of: zones"),
        (GOOD, GOOD + "[metrics]\nport = -1", "[metrics]: 'port' is -1", "without it /metrics is on the cloud's port"),
        (GOOD, GOOD + '[metrics]\nenabled = "no"', "[metrics]: 'enabled' is 'no'", "true or false"),
        (GOOD, GOOD + "[metrics]\nurl = 1", "[metrics] has an unknown key 'url'", "use one of: enabled, open, host"),
        (GOOD, GOOD + "[http]\nurl_bytes = 5", "[http]: 'url_bytes' is 5", "from 1024 to 1048576"),
        (GOOD, GOOD + "[http]\nheader_timeout_s = 0", "[http]: 'header_timeout_s' is 0", "seconds from 0.01"),
        (GOOD, GOOD + "[http]\ntrusted_proxies = [5]", "[http]: 'trusted_proxies' is [5]", "a list of addresses"),
        (GOOD, GOOD + "[http]\nconnections = 0", "[http]: 'connections' is 0", "a whole number, 1 or more"),
        (GOOD, GOOD + "[http]\nport = 1", "[http] has an unknown key 'port'", "use one of: url_bytes"),
        (GOOD, "volumes = 5" + GOOD, "the file: 'volumes' is 5", "must be a table"),
        (
            GOOD,
            GOOD + '[database]\nurl = "postgresql://u@h/d"\nurl_file = "f"\n',
            "[database] has 'url' and 'url_file'",
            "remove one",
        ),
        (GOOD, GOOD + '[database]\nurl = "mysql://x"', "[database]: 'url' is 'mysql://x'", "postgresql://"),
        (GOOD, "rules = 5" + GOOD, "the file: 'rules' is 5", "must be a table"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, was: str, now: str, place: str, suggestion: str) -> None:
    said = complaint(tmp_path, GOOD.replace(was, now, 1))
    assert place in said
    assert suggestion in said


@pytest.mark.parametrize(
    "uri",
    ["qemu+ssh://n2/system", "qemu+tls://n2/system", "qemu+tcp://127.0.0.1/system", "qemu://n2/", "qemu+ssh:///s"],
)
def test_a_libvirt_of_another_machine_is_refused(tmp_path: Path, uri: str) -> None:
    said = complaint(tmp_path, GOOD.replace('"simulated"', f'"libvirt"\nuri = "{uri}"'))
    assert f"host 'n1' has the 'uri' '{uri}', a libvirt of another machine" in said
    assert "run an agent on the other one, which `whimbrel host invite` admits" in said


@pytest.mark.parametrize("uri", ["qemu:///system", "qemu:///session", "qemu+unix:///system?socket=/run/s", "test:///d"])
def test_a_libvirt_of_this_machine_is_taken(tmp_path: Path, uri: str) -> None:
    [(_, host)] = load(tmp_path, GOOD.replace('"simulated"', f'"libvirt"\nuri = "{uri}"')).hosts()
    assert isinstance(host, LibvirtHost)


def test_what_a_cell_is_is_taken(tmp_path: Path) -> None:
    [plain] = load(tmp_path, GOOD).cells
    assert (plain.database, plain.enabled, plain.physnets, plain.storage) == (None, True, None, None)
    said = 'name = "a"\ndatabase = "sqlite:///d"\nenabled = false\nphysnets = []\nstorage = ["ceph-a"]\n'
    [cell] = load(tmp_path, GOOD.replace('name = "a"', said)).cells
    assert (cell.database, cell.enabled, cell.physnets, cell.storage) == ("sqlite:///d", False, (), ("ceph-a",))


@pytest.mark.parametrize(("more", "physnet"), [(NIC, "physnet0"), (PCI, "data")])
def test_a_cell_reaches_what_its_hosts_are_on(tmp_path: Path, more: str, physnet: str) -> None:
    text = GOOD.replace('name = "a"', 'name = "a"\nphysnets = ["other"]') + more
    said = complaint(tmp_path, text)
    assert f"host 'n1' is on the physical network '{physnet}', which is not among the 'physnets' of its cell" in said
    load(tmp_path, text.replace("other", physnet))


def test_volumes_lie_in_the_zones_of_the_hosts_unless_others_are_named(tmp_path: Path) -> None:
    assert load(tmp_path, GOOD).volume_zones() == ("nova", "z")
    config = load(tmp_path, GOOD + '[volumes]\nzones = ["one", "two"]\nvolumes_quota = 3\n')
    assert config.volume_zones() == ("one", "two")
    assert config.volumes.limits["volumes"] == 3
    assert config.volumes.limits["gigabytes"] == 1000


def test_numa_nodes_are_taken(tmp_path: Path) -> None:
    text = GOOD + "[[cell.host.numa]]\ncpus = 4\nmemory_mib = 512\n[[cell.host.numa]]\ncpus = 2\nmemory_mib = 256\n"
    [(_, host)] = load(tmp_path, text).hosts()
    assert isinstance(host, SimulatedHost)
    assert host.numa == (NumaNode(cpus=4, memory_mib=512), NumaNode(cpus=2, memory_mib=256))
    said = complaint(tmp_path, text.replace("cpus = 2", "cpus = -2"))
    assert "[[cell.host.numa]] number 2 of" in said
    assert "'cpus' is -2; it must be a whole number from 0 to 4096" in said


def test_pci_devices_and_their_aliases_are_taken(tmp_path: Path) -> None:
    config = load(tmp_path, GOOD + PCI + PCI.replace("00.1", "00.2") + ALIAS)
    [(_, host)] = config.hosts()
    first = PciDevice(
        address="0000:81:00.1", vendor_id="8086", product_id="154c", physnet="data", parent_ifname="ens1f0"
    )
    assert host.pci == (first, msgspec.structs.replace(first, address="0000:81:00.2"))
    assert config.rules.pci_alias == (PciAlias(name="gpu", vendor_id="10de", product_id="1eb8"),)


@pytest.mark.parametrize(
    ("was", "now", "place", "suggestion"),
    [
        ("81:00.1", "81:00.8", f"[[cell.host.pci]] number 1 of {HOST}: 'address' is '0000:81:00.8'", "0000:81:00.1"),
        ('vendor_id = "8086"', "vendor_id = 8086", "'vendor_id' is 8086", "four hexadecimal digits"),
        ('product_id = "154c"', "", f"[[cell.host.pci]] number 1 of {HOST} has no 'product_id'", "four hexadecimal"),
        ('physnet = "data"', 'physnet = ""', "'physnet' is ''", "a physical network"),
        ("physnet", "network", "has an unknown key 'network'", "address, vendor_id, product_id, physnet"),
        ("[[cell.host.pci]]", "[cell.host.pci]", f"{HOST}: 'pci' is", "[[cell.host.pci]]"),
        (PCI, PCI + PCI, "host 'n1' has the PCI device '0000:81:00.1' twice", "remove one"),
        (ALIAS, ALIAS + ALIAS, "two PCI aliases are called 'gpu'", "another name"),
        ('"10de"', '"10DE"', "[[rules.pci_alias]] number 1 ('gpu'): 'vendor_id' is '10DE'", "letters small"),
        ('name = "gpu"', 'name = "a b"', "[[rules.pci_alias]] number 1 ('a b'): 'name'", "pci_passthrough:alias"),
        (ALIAS, "[rules]\npci_alias = 5", "[rules]: 'pci_alias' is 5", "[[rules.pci_alias]]"),
    ],
)
def test_a_mistake_about_pci_devices_is_one_sentence(
    tmp_path: Path, was: str, now: str, place: str, suggestion: str
) -> None:
    said = complaint(tmp_path, (GOOD + PCI + ALIAS).replace(was, now, 1))
    assert place in said
    assert suggestion in said


OFFERS = """dedicated_vcpus = 2
traits = ["CUSTOM_SSD", "HW_CPU_X86_AVX2"]
resources = { CUSTOM_GPU = 2, VGPU = 1 }
"""


def test_what_a_host_offers_besides_its_sizes_is_taken(tmp_path: Path) -> None:
    [(_, host)] = load(tmp_path, GOOD + OFFERS).hosts()
    assert host.dedicated_vcpus == 2
    assert host.traits == ("CUSTOM_SSD", "HW_CPU_X86_AVX2")
    assert host.resources == {"CUSTOM_GPU": 2, "VGPU": 1}


@pytest.mark.parametrize(
    ("was", "now", "place", "suggestion"),
    [
        ("vcpus = 2", "vcpus = -2", f"{HOST}: 'dedicated_vcpus' is -2", "0: it has none"),
        ("CUSTOM_SSD", "CUSTOM_ssd", f"{HOST}: 'traits' is", "such as 'CUSTOM_SSD'"),
        ("CUSTOM_SSD", "FAST_DISK", "host 'n1' has 'FAST_DISK' among its 'traits'", "begins with CUSTOM_"),
        ("CUSTOM_SSD", "COMPUTE_STATUS_DISABLED", "COMPUTE_STATUS_DISABLED among", "disable its service"),
        ("CUSTOM_GPU", "GPU", "host 'n1' has 'GPU' among its 'resources'", "begins with CUSTOM_"),
        ("CUSTOM_GPU", "PCPU", "host 'n1' has PCPU among its 'resources'", "set 'dedicated_vcpus'"),
        ("CUSTOM_GPU = 2", "CUSTOM_GPU = 0", f"{HOST}: 'resources' is", "{ CUSTOM_GPU = 2 }"),
        ("CUSTOM_GPU = 2", "gpu = 2", f"{HOST}: 'resources' is", "{ CUSTOM_GPU = 2 }"),
    ],
)
def test_a_mistake_about_what_a_host_offers_is_one_sentence(
    tmp_path: Path, was: str, now: str, place: str, suggestion: str
) -> None:
    said = complaint(tmp_path, GOOD + OFFERS.replace(was, now, 1))
    assert place in said
    assert suggestion in said


def test_a_long_value_is_not_repeated_whole(tmp_path: Path) -> None:
    assert len(complaint(tmp_path, GOOD.replace('zone = "z"', f'zone = "{"z" * 10_000}"'))) < 300


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"none.toml cannot be read \(No such file or directory\)"):
        settings.load(tmp_path / "none.toml")
    with pytest.raises(Invalid, match="Is a directory"):
        settings.load(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Invalid, match="not a text file"):
        settings.load(tmp_path / "binary")


def test_a_host_has_network_cards(tmp_path: Path) -> None:
    more = 'egress_kbps = 10_000_000\nvnic_types = ["direct"]\n'
    [(_, host)] = load(tmp_path, GOOD + "kpps = 7\n" + NIC + more).hosts()
    card = HostNic(name="ens5", physnet="physnet0", egress_kbps=10_000_000, vnic_types=("direct",))
    assert host.net == HostNet(host="n1", cards=(card,), kpps=7)


def test_limits_of_http_are_read_from_lines_of_its_table() -> None:
    limits = settings.http_limits(["connections=7", 'trusted_proxies=["10.0.0.1"]'])
    assert limits.connections == 7
    assert limits.trusted_proxies == ("10.0.0.1",)
    assert settings.http_limits([]) == settings.HttpTable()


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("connections=0", r"--http-limit: \[http\]: 'connections' is 0; it must be a whole number, 1 or more"),
        ("size=1", "unknown key 'size'.* use one of: url_bytes"),
        ("connections", "--http-limit is not valid TOML"),
    ],
)
def test_a_limit_of_http_that_is_wrong_is_refused(line: str, complaint: str) -> None:
    with pytest.raises(Invalid, match=complaint):
        settings.http_limits([line])


def test_limits_of_images_and_what_stays_free(tmp_path: Path) -> None:
    config = load(tmp_path, GOOD + "[images]\nimages_quota = -1\ngigabytes_quota = 2\n[storage]\nreserved_mib = 3\n")
    assert config.images.limits == ImageLimits(images=-1, size_bytes=2 << 30, image_bytes=100 << 30)
    assert config.storage.reserved_bytes == 3 << 20
    assert load(tmp_path, GOOD).storage.reserved_bytes is None


def test_the_driver_of_quotas_is_read(tmp_path: Path) -> None:
    assert load(tmp_path, GOOD).rules.quota == QuotaRules()
    text = GOOD + '[quota]\ndriver = "unified"\nunified_limits_resource_list = ["servers", "class:DISK_GB"]\n'
    rules = load(tmp_path, text).rules.quota
    assert (rules.driver, rules.is_required("class:DISK_GB"), rules.is_required("class:VCPU")) == (
        "unified",
        True,
        False,
    )
    assert "'projects' or 'unified'" in complaint(tmp_path, GOOD + '[quota]\ndriver = "nova.quota"\n')
    assert "list of resources" in complaint(tmp_path, GOOD + '[quota]\nunified_limits_resource_list = ["VCPU"]\n')
    assert load(tmp_path, GOOD + "[quota]\ncount_usage_from_placement = true\n").rules.quota.count_usage_from_placement
    assert "true or false" in complaint(tmp_path, GOOD + "[quota]\ncount_usage_from_placement = 1\n")


def test_what_guests_are_told_is_read(tmp_path: Path) -> None:
    (tmp_path / "vendor.json").write_text('{"ntp": ["time.example.org"]}')
    text = GOOD + '[guests]\ndhcp_domain = ""\nvendor_data_file = "vendor.json"\nforce_config_drive = true\n'
    rules = load(tmp_path, text).rules.guests
    assert (rules.dhcp_domain, rules.vendor_data) == ("", {"ntp": ["time.example.org"]})
    assert rules.force_config_drive
    assert load(tmp_path, GOOD).rules.guests.dhcp_domain == "novalocal"
    (tmp_path / "vendor.json").write_text("[1]")
    assert "has no JSON object" in complaint(tmp_path, text)
    (tmp_path / "vendor.json").unlink()
    assert "cannot be read" in complaint(tmp_path, text)
    assert "'dhcp_domain' is 'a b'" in complaint(tmp_path, GOOD + '[guests]\ndhcp_domain = "a b"\n')
    assert "unknown key 'guests'" in complaint(tmp_path, GOOD + "[rules.guests]\ndhcp_domain = 'a'\n")


def test_services_of_vendor_data_are_read(tmp_path: Path) -> None:
    text = GOOD + '[guests]\nvendordata_providers = ["StaticJSON", "DynamicJSON"]\nvendordata_dynamic_targets = '
    rules = load(tmp_path, text + '["dns@https://dns.example.org/v1"]\n').rules.guests
    assert rules.dynamic_targets == {"dns": "https://dns.example.org/v1"}
    assert load(tmp_path, GOOD).rules.guests.dynamic_targets == {}
    assert "NAME@URL" in complaint(tmp_path, text + '["https://dns.example.org"]\n')
    assert "'dns' twice" in complaint(tmp_path, text + '["dns@http://127.0.0.1:1", "dns@http://127.0.0.1:2"]\n')
    assert "'static'" in complaint(tmp_path, text + '["static@http://127.0.0.1:1"]\n')
    plain = text + '["dns@http://dns.example.org"]\n'
    assert load(tmp_path, plain).rules.guests.vendordata_dynamic_failure_fatal is False
    assert "without TLS" in complaint(tmp_path, plain + "vendordata_dynamic_auth = true\n")
