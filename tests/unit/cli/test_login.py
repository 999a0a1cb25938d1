"""Commands log in to the cloud that the environment names, with every login that a clouds.yaml can have."""

import os
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from whimbrel.cli.client import Api
from whimbrel.cli.login import Login, find_login
from whimbrel.domain.errors import Invalid, NotFound, Refused

PASSWORD = {"auth_url": "http://k/identity", "username": "ann", "password": "p", "project_name": "one"}


def write(file: Path, clouds: dict[str, Any]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump({"clouds": clouds}))
    return file


def body(tmp_path: Path, auth: dict[str, str], **entry: Any) -> dict[str, Any]:
    return Login(write(tmp_path / "clouds.yaml", {"c": {"auth": auth, **entry}}), "c").body["auth"]


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory of the user without any file."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_environment_names_a_cloud_beside_that_of_up(places: Path) -> None:
    data = places / "data"
    up = write(data / "clouds.yaml", {"whimbrel": {"auth": PASSWORD}, "whimbrel-admin": {"auth": PASSWORD}})
    other = write(places / "config/openstack/clouds.yaml", {"other": {"auth": PASSWORD}})

    def found(os_cloud: str | None, data_dir_given: bool, **environment: str) -> tuple[Path, str]:
        login = find_login(data, os_cloud, data_dir_given, environment)
        return login.file, login.cloud

    assert found(None, False) == (up, "whimbrel-admin")
    assert found(None, False, OS_CLOUD="whimbrel") == (up, "whimbrel-admin")  # as `whimbrel up` prints it
    assert found("whimbrel", False) == (up, "whimbrel")
    assert found(None, False, OS_CLOUD="other") == (other, "other")
    assert found(None, True, OS_CLOUD="other") == (up, "whimbrel-admin")  # --data-dir says which cloud
    assert found(None, False, OS_CLOUD="other", OS_CLIENT_CONFIG_FILE=os.fspath(other)) == (other, "other")


def test_a_cloud_that_is_nowhere(places: Path) -> None:
    with pytest.raises(NotFound, match="start a cloud with `whimbrel up`"):
        find_login(places / "data", None, False, {})
    write(places / "data/clouds.yaml", {"whimbrel-admin": {"auth": PASSWORD}})
    with pytest.raises(NotFound, match=r"has no cloud 'other': .*; it has whimbrel-admin"):
        find_login(places / "data", None, False, {"OS_CLOUD": "other"})
    gone = {"OS_CLIENT_CONFIG_FILE": "/none/clouds.yaml"}
    with pytest.raises(NotFound, match=r"there is no /none/clouds\.yaml, which OS_CLIENT_CONFIG_FILE names"):
        find_login(places / "data", None, False, gone)


def test_a_password_with_the_default_domains(tmp_path: Path) -> None:
    default = {"id": "default"}
    assert body(tmp_path, PASSWORD) == {
        "identity": {
            "methods": ["password"],
            "password": {"user": {"name": "ann", "domain": default, "password": "p"}},
        },
        "scope": {"project": {"name": "one", "domain": default}},
    }
    by_id = {"auth_url": "http://k", "user_id": "u1", "password": "p", "project_id": "p1"}
    assert body(tmp_path, by_id)["scope"] == {"project": {"id": "p1"}}
    assert body(tmp_path, by_id)["identity"]["password"]["user"] == {"id": "u1", "password": "p"}


def test_an_application_credential_has_its_own_scope(tmp_path: Path) -> None:
    auth = {"auth_url": "http://k", "application_credential_id": "a", "application_credential_secret": "s"}
    assert body(tmp_path, auth, auth_type="v3applicationcredential") == {
        "identity": {"methods": ["application_credential"], "application_credential": {"id": "a", "secret": "s"}}
    }


def test_the_whole_system(tmp_path: Path) -> None:
    auth = {**PASSWORD, "system_scope": "all"}
    assert body(tmp_path, auth)["scope"] == {"system": {"all": True}}


def test_secrets_may_be_in_a_file_of_their_own(tmp_path: Path) -> None:
    write(tmp_path / "secure.yaml", {"c": {"auth": {"password": "from secure.yaml"}}})
    auth = {name: value for name, value in PASSWORD.items() if name != "password"}
    assert body(tmp_path, auth)["identity"]["password"]["user"]["password"] == "from secure.yaml"


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="cloud 'c' has no 'password' in its auth"):
        body(tmp_path, {name: value for name, value in PASSWORD.items() if name != "password"})


def endpoint(region: str, interface: str) -> dict[str, str]:
    return {"region_id": region, "interface": interface, "url": f"http://{region}/{interface}/v2.1"}


def logged_in(tmp_path: Path, **entry: Any) -> list[str]:
    """Return the URLs that a command asks for servers, with a catalog of two regions."""
    login = Login(write(tmp_path / "clouds.yaml", {"c": {"auth": PASSWORD, **entry}}), "c")
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/auth/tokens"):
            assert str(request.url) == "http://k/identity/v3/auth/tokens"
            endpoints = [endpoint(region, interface) for region in ("r1", "r2") for interface in ("public", "internal")]
            catalog = [{"type": "compute", "endpoints": endpoints}]
            return httpx.Response(201, headers={"x-subject-token": "t"}, json={"token": {"catalog": catalog}})
        asked.append(str(request.url))
        return httpx.Response(200, json={})

    api = Api(login, httpx.MockTransport(answer))
    api.log_in()
    api.get("compute", "/servers")
    return asked


def test_the_endpoint_is_that_of_the_region_and_interface(tmp_path: Path) -> None:
    assert logged_in(tmp_path, region_name="r1") == ["http://r1/public/v2.1/servers"]
    assert logged_in(tmp_path, region_name="r2", interface="internal") == ["http://r2/internal/v2.1/servers"]
    assert logged_in(tmp_path, compute_endpoint_override="http://c/v2.1/") == ["http://c/v2.1/servers"]
    with pytest.raises(Refused, match="has no compute service in region r3"):
        logged_in(tmp_path, region_name="r3")
