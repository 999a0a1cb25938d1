"""The commands' errors: one sentence, the right exit code, nothing half-written."""

import socket
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from whimbrel.cli import main
from whimbrel.settings.datadir import DataDir


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(words)
    written = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, written.out, written.err


def refusal(capsys: pytest.CaptureFixture[str], code: int, *words: str) -> str:
    """Run a command that ends with this code and one sentence."""
    ended, out, err = run(capsys, *words)
    assert (ended, out) == (code, "")
    assert err.startswith("whimbrel: ")
    assert err.count("\n") == 1
    return err


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--version")
    assert (code, out.split()[0]) == (0, "whimbrel")
    commands: tuple[list[str], ...] = (
        [],
        ["up"],
        ["conductor"],
        ["placement"],
        ["status"],
        ["demo"],
        ["move"],
        ["move", "show"],
        ["move", "turn-back"],
        ["server"],
        ["server", "move"],
        ["server", "history"],
        ["zone"],
        ["zone", "list"],
        ["zone", "rename"],
        ["cell"],
        ["cell", "list"],
        ["cell", "add"],
        ["cell", "remove"],
        ["cell", "disable"],
        ["cell", "enable"],
        ["cell", "drain"],
        ["host"],
        ["host", "list"],
        ["host", "show"],
        ["host", "invite"],
        ["host", "enable"],
        ["host", "disable"],
        ["host", "retire"],
        ["host", "forget"],
        ["agent"],
        ["agent", "join"],
        ["bus"],
        ["bus", "push"],
        ["bus", "show"],
        ["plan"],
        ["plan", "resize"],
        ["plan", "migrate"],
        ["upgrade"],
        ["upgrade", "check"],
        ["pki"],
        ["pki", "init"],
        ["pki", "issue"],
        ["pki", "renew"],
        ["pki", "list"],
        ["backup"],
        ["backup", "verify"],
        ["heal"],
        ["heal", "ports"],
        ["api"],
        ["conductor"],
        ["dashboard"],
        ["image"],
        ["volume"],
        ["bootstrap"],
        ["processes"],
        ["bus", "init"],
        ["db", "upgrade"],
        ["db", "show"],
    )
    for words in commands:
        code, out, _ = run(capsys, *words, "--help")
        assert code == 0
        assert "Usage: whimbrel" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["prove"], "Exit code 0: every invariant holds"),
        (["host", "evacuate"], "The contents of local disks are lost"),
    ],
    ids=str,
)
def test_the_help_of_a_command_has_its_exit_codes_and_consequences(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    code, out, _ = run(capsys, *words, "--help")
    assert code == 0
    assert said in " ".join(out.split())


@pytest.mark.parametrize(
    "words", [["fly"], ["up", "--speed", "9"], ["up", "--port", "x"], ["move", "show"], ["zone", "rename", "a"]]
)
def test_a_wrong_command_ends_with_2(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert run(capsys, *words)[0] == 2


def test_words_too_many_are_named_with_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "backup", "check", "b1")  # the only word of `backup` is a directory
    assert (code, out) == (2, "")
    said = " ".join(err.split()).strip("╭╰─╮╯ ").removeprefix("Error").strip("╭╰─╮╯│ ")
    assert said == "Too many arguments: b1. See: whimbrel backup --help"


def test_a_wrong_cloud_file_ends_with_2_and_makes_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "cloud.toml"
    file.write_text("[[cell]\n")
    said = refusal(capsys, 2, "up", "--cloud", str(file), "--data-dir", str(tmp_path / "data"))
    assert "not valid TOML" in said
    assert "line 1" in said
    assert not (tmp_path / "data").exists()


def test_a_port_in_use_ends_with_1_and_makes_no_databases(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refusal(capsys, 1, "up", "--data-dir", str(tmp_path / "data"), "--port", str(port))
    assert "the port is in use" in said
    assert {file.suffix for file in (tmp_path / "data").iterdir()} == {".lock"}


def test_plain_http_beyond_this_machine_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for command in (["up", "--data-dir", str(tmp_path)], ["placement", "--db", "sqlite:///x", "--auth", "noauth2"]):
        said = refusal(capsys, 2, *command, "--host", "0.0.0.0", "--port", "0")
        assert "set 'cert_file' and 'key_file' in [tls] of the settings" in said


def test_a_dashboard_has_neither_a_database_nor_a_login(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "dashboard.toml"
    keystone = 'auth_url = "https://k"\nusername = "u"\npassword_file = "p"\n'
    for table in ('[database]\nurl = "sqlite:////x"\n', f"[keystone]\n{keystone}"):
        file.write_text(table)
        said = refusal(capsys, 2, "dashboard", "--settings", str(file), "--port", "0")
        assert "remove [database] and [keystone]" in said
    assert "give --api" in refusal(capsys, 2, "dashboard", "--port", "0")
    for url, reason in (("http://cloud.example.org", "without TLS"), ("cloud", "is no URL")):
        assert reason in refusal(capsys, 2, "dashboard", "--api", url, "--port", "0")


def test_a_data_directory_in_use_is_left_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    home = DataDir(tmp_path / "data")
    home.make()
    with home.used_as("up"):
        said = refusal(capsys, 1, "up", "--data-dir", str(home.path), "--port", "0")
    assert "in use by another whimbrel up" in said
    assert [file.name for file in home.path.iterdir()] == ["up.lock"]


def test_a_second_up_is_told_of_the_first_and_not_of_its_port(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    home = DataDir(tmp_path / "data")
    home.make()
    with socket.create_server(("127.0.0.1", 0)) as taken, home.used_as("up"):
        said = refusal(capsys, 1, "up", "--data-dir", str(home.path), "--port", str(taken.getsockname()[1]))
    assert "in use by another whimbrel up" in said


def test_a_data_directory_that_cannot_be_made(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = refusal(capsys, 1, "up", "--data-dir", str(tmp_path / "file" / "data"), "--port", "0")
    assert "--data-dir" in said


def test_a_conductor_needs_a_cloud(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "whimbrel up --data-dir" in refusal(capsys, 1, "conductor", "--name", "c1", "--data-dir", str(tmp_path))


def test_reasons_are_not_watched(capsys: pytest.CaptureFixture[str]) -> None:
    assert "do not go together" in refusal(capsys, 2, "move", "show", "x", "--why", "--watch")
    assert "--why" in refusal(capsys, 2, "move", "show", "x", "--all")


def test_a_plan_of_a_resize_needs_a_flavor_and_a_cloud(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(capsys, "plan", "resize", "x")[0] == 2
    said = refusal(capsys, 1, "plan", "migrate", "x", "--data-dir", str(tmp_path))
    assert "start a cloud with `whimbrel up`" in said


def test_a_move_needs_a_cloud(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    said = refusal(capsys, 1, "move", "list", "--data-dir", str(tmp_path))
    assert "start a cloud with `whimbrel up`" in said


CLOUDS = """
clouds:
  whimbrel-admin:
    auth: {auth_url: "http://127.0.0.1:1/v3", username: a, password: p, project_name: x,
           user_domain_id: default, project_domain_id: default}
  half:
    auth: {auth_url: "http://127.0.0.1:1/v3"}
"""


@pytest.mark.parametrize(
    ("text", "cloud", "code", "said"),
    [
        (CLOUDS, "whimbrel-admin", 1, "does not answer"),
        (CLOUDS, "nobody", 1, "has no cloud 'nobody'"),
        (CLOUDS, "half", 2, "has no 'user"),
        ("clouds: [", "half", 2, "is not a YAML file"),
        ("- a", "half", 2, "has no clouds in it"),
    ],
)
def test_a_login_that_fails(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, cloud: str, code: int, said: str
) -> None:
    (tmp_path / "clouds.yaml").write_text(text)
    assert said in refusal(capsys, code, "move", "show", "x", "--data-dir", str(tmp_path), "--os-cloud", cloud)


@pytest.mark.parametrize("said", [b"<html>Welcome!</html>", b"[]", b'{"token": {}}'])
def test_a_login_at_something_else(capsys: pytest.CaptureFixture[str], tmp_path: Path, said: bytes) -> None:
    class Welcome(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(201)
            self.send_header("x-subject-token", "t")
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with HTTPServer(("127.0.0.1", 0), Welcome) as server:
        (tmp_path / "clouds.yaml").write_text(CLOUDS.replace(":1/v3", f":{server.server_port}/v3"))
        answering = Thread(target=server.handle_request)
        answering.start()
        words = ("move", "show", "x", "--data-dir", str(tmp_path), "--os-cloud", "whimbrel-admin")
        assert "is no Keystone: is the URL right?" in refusal(capsys, 1, *words)
        answering.join()


@pytest.mark.parametrize("words", [[], ["n1", "--zone", "north"], ["--cell", "one", "--aggregate", "a"]])
def test_a_maintenance_is_of_one_thing(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert "name the hosts, or give one of" in refusal(capsys, 2, "maintenance", "plan", *words)


def test_a_time_that_is_none_is_refused_with_what_one_is(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    said = refusal(capsys, 2, "move", "list", "--since", "yesterday", "--data-dir", str(tmp_path))
    assert "give an age such as 30m" in said
    assert "start a cloud" in refusal(capsys, 1, "move", "list", "--since", "2026-01-31", "--data-dir", str(tmp_path))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name a server, or a group"),
        (["one", "--group", "g"], "name a server, or a group"),
        (["one", "--confirm"], "--confirm is for --group"),
        (["--group", "g", "--flavor", "2"], "--flavor is for one server"),
        (["--group", "g", "--leave-zone"], "--leave-zone is for one server"),
        (["--group", "g", "--wait"], "--wait is for one server"),
    ],
)
def test_a_server_or_a_group_is_moved(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert said in refusal(capsys, 2, "server", "move", *words)
