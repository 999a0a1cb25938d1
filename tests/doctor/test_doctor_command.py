"""`whimbrel doctor` on a terminal: its settings, its output, its exit codes."""

from datetime import UTC, datetime
from pathlib import Path

import httpx
import msgspec
import pytest

from tests.doctor.nova_copy import NOW, NovaCopy, server
from whimbrel.adapters.prometheus.doctor_metrics import DoctorFigures
from whimbrel.cli import doctor as command
from whimbrel.cli.client import Login
from whimbrel.cli.doctor_sources import Sources, sources
from whimbrel.cli.doctor_watch import Looked, watch
from whimbrel.domain.errors import Invalid, Unavailable


@pytest.fixture(autouse=True)
def no_cloud(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask no cloud of the developer's shell."""
    monkeypatch.delenv("OS_CLOUD", raising=False)


@pytest.fixture
def copy(tmp_path: Path) -> NovaCopy:
    made = NovaCopy.in_files(tmp_path)
    made.add_server(1)
    (tmp_path / "nova.conf").write_text(f"[DEFAULT]\nhost = a\n[api_database]\nconnection = {made.urls.api}\n")
    (tmp_path / "placement.conf").write_text(made.urls.placement)
    return made


def run(directory: Path, **options: object) -> int:
    files = {"nova_conf": directory / "nova.conf", "placement_conf": directory / "placement.conf"}
    return command.doctor(**{**files, "look_again": 0.0, **options})


def test_a_healthy_nova(copy: NovaCopy, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path) == 0
    assert "Nothing is wrong in 1 server" in capsys.readouterr().out


def test_findings_have_commands_in_80_columns(
    copy: NovaCopy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy.release(server(1))
    assert run(tmp_path) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Servers that hold nothing in Placement (1)"
    assert f"    $ nova-manage placement heal_allocations --instance {server(1)}" in lines
    assert all(len(line) <= 80 for line in lines if not line.startswith(("    $", "    SQL")))


def test_sql_says_when_to_stop(copy: NovaCopy, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy.add_server(2, vm_state="paused", task_state="image_snapshot")
    assert run(tmp_path) == 1
    assert "If an UPDATE that is printed changes no row" in capsys.readouterr().out


def test_findings_as_json(copy: NovaCopy, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy.release(server(1))
    assert run(tmp_path, json=True) == 1
    found = msgspec.json.decode(capsys.readouterr().out)["doctor"]
    (finding,) = found["findings"]
    assert (finding["kind"], finding["subject"], found["servers"]) == ("no_allocation", server(1), 1)
    assert finding["evidence"]["instances"][0]["host"] == "n1"


def test_a_file_without_a_url_is_wrong_use(copy: NovaCopy, tmp_path: Path) -> None:
    (tmp_path / "nova.conf").write_text("[DEFAULT]\nhost = a\n")
    with pytest.raises(Invalid, match=r"\[api_database\]"):
        run(tmp_path)


def test_the_url_of_a_cell_from_a_file(copy: NovaCopy, tmp_path: Path) -> None:
    (tmp_path / "cell.conf").write_text(f"sqlite:///{tmp_path}/elsewhere/one.sqlite")
    with pytest.raises(Exception, match="the database of cell one cannot be read"):
        run(tmp_path, cell_conf=(f"one={tmp_path / 'cell.conf'}",))


CLOUDS = "clouds: {nova: {auth: {auth_url: 'http://identity', username: u, password: p, project_name: p}}}"


@pytest.mark.parametrize(
    ("roles", "types", "left_out"),
    [
        (["Admin"], ["network", "volumev3"], ["guests on the hypervisors (no --libvirt)"]),
        (["member"], ["network"], ["ports and their bindings (the login has no role admin)"]),
        (["admin"], ["network"], ["volumes and attachments (the catalog has no block-storage service)"]),
    ],
)
def test_what_is_left_out_is_named(tmp_path: Path, roles: list[str], types: list[str], left_out: list[str]) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        places = [{"interface": "public", "url": "http://service/v2/id"}]
        catalog = [{"type": each, "endpoints": places} for each in types]
        token = {"roles": [{"name": role} for role in roles], "catalog": catalog}
        return httpx.Response(201, json={"token": token}, headers={"x-subject-token": "t"})

    (tmp_path / "clouds.yaml").write_text(CLOUDS)
    login = Login(tmp_path / "clouds.yaml", "nova")
    with Sources(login, None, httpx.MockTransport(answer)) as asked:
        checks, not_checked = asked.checks(NOW)
        assert {each.title for each in checks}.isdisjoint(not_checked)
        assert set(left_out) <= set(not_checked)


def test_a_login_is_kept_while_it_is_valid(tmp_path: Path) -> None:
    """Roles are those of now, and a token that Keystone refuses, or that expires soon, is not used any more."""
    asked: list[str] = []
    roles, valid = ["admin"], [True]

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.method)
        expires = datetime.fromtimestamp(NOW + 3600, UTC).isoformat().replace("+00:00", "Z")
        token = {"roles": [{"name": each} for each in roles], "catalog": [], "expires_at": expires}
        if request.method == "GET":
            assert (request.headers["x-auth-token"], request.headers["x-subject-token"]) == ("t", "t")
            return httpx.Response(200 if valid[0] else 404, json={"token": token})
        assert "x-auth-token" not in request.headers
        return httpx.Response(201, json={"token": token}, headers={"x-subject-token": "t"})

    (tmp_path / "clouds.yaml").write_text(CLOUDS)
    login = Login(tmp_path / "clouds.yaml", "nova")
    with Sources(login, None, httpx.MockTransport(answer)) as found:
        found.checks(NOW)
        roles[:] = ["member"]
        assert "ports and their bindings (the login has no role admin)" in found.checks(NOW + 300)[1]
        assert asked == ["POST", "GET"]
        found.checks(NOW + 3000)
        assert asked == ["POST", "GET", "POST"]
        valid[0] = False
        found.checks(NOW + 300)
    assert asked == ["POST", "GET", "POST", "GET", "POST"]


def test_without_a_cloud_only_the_databases_are_read() -> None:
    with sources(None, (), {}) as asked:
        checks, not_checked = asked.checks(NOW)
        assert checks == []
        assert "ports and their bindings (no --os-cloud)" in not_checked


def test_it_watches_until_it_is_told_to_end(copy: NovaCopy, tmp_path: Path) -> None:
    figures = DoctorFigures()
    shown, waits = [], iter((lambda: copy.release(server(1)), lambda: None))

    def wait(_: float) -> None:
        change = next(waits, None)
        if change is None:
            raise KeyboardInterrupt
        change()

    def look() -> Looked:
        if len(shown) == 1 and not failed:
            failed.append(True)
            raise Unavailable("no answer")
        return copy.look(), ()

    failed: list[bool] = []
    assert watch(look, lambda found, _: shown.append(len(found.findings)), 1.0, None, wait, figures) == 1
    assert shown == [0, 1]
    read = figures.registry.get_sample_value
    assert read("whimbrel_doctor_findings", {"kind": "no_allocation"}) == 1
    assert read("whimbrel_doctor_looks_total", {"outcome": "failed"}) == 1
    figures.failed()
    assert read("whimbrel_doctor_findings", {"kind": "no_allocation"}) is None


def test_metrics_without_watching_are_wrong_use(copy: NovaCopy, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="--watch"):
        run(tmp_path, metrics_port=0)
