"""[keystone]: complete logins are accepted, what cannot work beside each other is refused with what to do."""

from pathlib import Path

import pytest

from whimbrel import settings
from whimbrel.domain.errors import Invalid

LOGIN = 'auth_url = "https://keystone.example.org/v3"\nusername = "whimbrel"\npassword_file = "keystone.password"\n'
CREDENTIAL = (
    'auth_url = "https://keystone.example.org/v3"\n'
    'application_credential_id = "a1"\napplication_credential_secret_file = "secret"\n'
)
HOST = (
    '[[cell]]\nname = "c1"\n[[cell.host]]\ndriver = "libvirt"\nname = "n1"\nzone = "z"\nvcpus = 1\nmemory_mib = 1\n'
    'disk_gib = 1\nuri = "qemu:///system"\nguest_nics = "{}"\n'
)


def load(tmp_path: Path, text: str) -> settings.CloudConfig:
    file = tmp_path / "whimbrel.toml"
    file.write_text(text)
    return settings.load(file, needs_cells=False)


def refusal(tmp_path: Path, text: str) -> str:
    with pytest.raises(Invalid) as refused:
        load(tmp_path, text)
    return refused.value.reason


def test_without_the_table_all_services_are_embedded(tmp_path: Path) -> None:
    config = load(tmp_path, "")
    assert (config.keystone, config.external) == (None, frozenset())


@pytest.mark.parametrize("login", [LOGIN, CREDENTIAL])
def test_a_keystone_has_all_services_unless_some_are_named(tmp_path: Path, login: str) -> None:
    assert load(tmp_path, f"[keystone]\n{login}").external == {"identity", "image", "network", "volume"}
    some = load(tmp_path, f'[keystone]\n{login}services = ["network"]\n')
    assert some.external == {"identity", "network"}
    assert load(tmp_path, f"[keystone]\n{login}services = []\n").external == {"identity"}


def test_the_files_of_secrets_are_found_as_others_are(tmp_path: Path) -> None:
    names = ("ca_file", "cert_file", "key_file")
    keystone = load(tmp_path, f"[keystone]\n{LOGIN}" + "".join(f'{name} = "{name}.pem"\n' for name in names)).keystone
    assert keystone is not None
    assert keystone.password_file == str(tmp_path / "keystone.password")
    assert [getattr(keystone, name) for name in names] == [str(tmp_path / f"{name}.pem") for name in names]
    with_secret = load(tmp_path, f"[keystone]\n{CREDENTIAL}").keystone
    assert with_secret is not None
    assert with_secret.application_credential_secret_file == str(tmp_path / "secret")


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ('auth_url = "https://k"\n', "has to have one login"),
        (LOGIN + 'application_credential_id = "a"\n', "has to have one login"),
        ('auth_url = "https://k"\nusername = "u"\n', "one of 'username' and 'password_file'; give it both"),
        ('auth_url = "https://k"\napplication_credential_id = "u"\n', "'application_credential_secret_file'; give it"),
        (LOGIN + 'user_domain_id = "a"\nuser_domain_name = "b"\n', "remove one of them"),
        (LOGIN.replace("https", "http"), "without TLS; write https://, or set 'insecure = true' in [keystone]"),
        (LOGIN + 'key_file = "k"\n', "'key_file' without 'cert_file'; give it both"),
        (LOGIN + 'services = ["volume"]\n', "add 'image', or remove 'volume'"),
        (LOGIN + 'services = ["compute"]\n', "it must be a list of 'image', 'network' and 'volume'"),
        (LOGIN + "password = 'x'\n", "[keystone] has an unknown key 'password'"),
        ('username = "u"\n', "[keystone] has no 'auth_url'; give it the URL of a Keystone"),
    ],
)
def test_what_cannot_work_is_refused(tmp_path: Path, table: str, says: str) -> None:
    assert says in refusal(tmp_path, f"[keystone]\n{table}")


def test_plain_http_is_used_on_loopback_and_where_the_settings_permit_it(tmp_path: Path) -> None:
    load(tmp_path, "[keystone]\n" + LOGIN.replace("https://keystone.example.org", "http://127.0.0.1:5000"))
    load(tmp_path, "[keystone]\n" + LOGIN.replace("https", "http") + "insecure = true\n")


@pytest.mark.parametrize("own", ["[volumes]\nvolumes_quota = 3\n", "[images]\nimages_quota = 3\n"])
def test_settings_of_a_service_that_is_not_embedded_are_refused(tmp_path: Path, own: str) -> None:
    assert "which this cloud does not have: remove the table" in refusal(tmp_path, f"[keystone]\n{LOGIN}{own}")
    load(tmp_path, f"[keystone]\n{LOGIN}services = []\n{own}")


def test_one_table_says_where_the_identity_service_is(tmp_path: Path) -> None:
    text = f'[keystone]\n{LOGIN}[services]\nidentity = "https://other"\n'
    assert "[services] has 'identity', and [keystone] says" in refusal(tmp_path, text)


def test_hosts_do_not_make_the_networks_of_an_external_service(tmp_path: Path) -> None:
    assert "write guest_nics = 'ovs' or 'tap'" in refusal(tmp_path, f"[keystone]\n{LOGIN}{HOST.format('bridge')}")
    load(tmp_path, f"[keystone]\n{LOGIN}{HOST.format('tap')}")
    load(tmp_path, f'[keystone]\n{LOGIN}services = ["image"]\n{HOST.format("bridge")}')


def test_a_relay_of_images_is_for_an_image_service_that_others_run(tmp_path: Path) -> None:
    relay = '[services]\nimage_relay = "https://relay/image_relay"\n'
    assert load(tmp_path, f"[keystone]\n{LOGIN}{relay}").services.image_relay == "https://relay/image_relay"
    for text in (relay, f'[keystone]\n{LOGIN}services = ["network"]\n{relay}'):
        assert "this cloud has its own: remove it" in refusal(tmp_path, text)
