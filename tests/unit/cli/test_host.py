"""How hosts look on a terminal."""

from rich.console import Console

from tests.unit.cli.test_heal import lines
from whimbrel.api.views.hosts import HostInvitation, HostState
from whimbrel.cli import host

UP = HostState(name="n1", cell="one", zone="north", state="up", enabled=True, servers=7, driver="simulated", vcpus=8)
NEW = HostState(
    name="n17",
    cell="one",
    zone="south",
    state="down",
    disabled_reason="joined; enable it with: whimbrel host enable n17",
    session=3,
    release="0.4.0",
    forced_down=True,
    joined_at=86400.0,
)
JOINED = HostState(name="n18", cell="one", state="joined", joined_at=86400.0)


def test_hosts_are_listed_with_whether_they_take_servers() -> None:
    assert lines(host.listed([UP, NEW, JOINED])) == [
        "host  cell  zone   state                        servers  seen",
        "n1    one   north  up                           7        -",
        "n17   one   south  down, disabled, forced down  0        -     joined; enable it with: whimbrel host enable n17",  # noqa: E501
        "n18   one   -      joined                       0        -",
    ]


def test_a_list_fits_a_terminal() -> None:
    console = Console(width=80, record=True, file=None)
    with console.capture() as captured:
        console.print(host.listed([UP, NEW, JOINED]))
    assert max(map(len, captured.get().splitlines())) <= 80
    assert "whimbrel host enable" in " ".join(captured.get().split())


def test_a_host_is_shown_with_its_agent() -> None:
    shown = lines(host.shown(NEW))
    assert "agent      release 0.4.0, session 3" in shown
    assert "joined     1970-01-02 00:00:00" in shown
    assert "agent      in the process of the cloud" in lines(host.shown(UP))
    assert [line.split()[0] for line in lines(host.shown(JOINED))] == ["host", "cell", "state", "joined"]


def test_an_invitation_says_what_to_do_where() -> None:
    said = lines(host.invited(HostInvitation(host="n17", cell="one", expires_at=86400.0, token="whimbrel1.abc")))
    assert "whimbrel agent join whimbrel1.abc" in said
    assert said[-1].endswith("whimbrel host enable n17")
