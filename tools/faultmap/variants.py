"""The kinds of moves of the map, and what else happens to servers. A new kind of move is a line of the kinds here."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from typing import Literal

from tests.stories import attaching
from tests.stories.lifecycle import Scenario
from tests.stories.test_lifecycle import SCENARIOS
from tools.scenarios.evacuations import STORIES as EVACUATIONS
from tools.scenarios.evacuations import Evacuating
from tools.scenarios.moves import Story

Verdict = Literal["confirm", "revert"]

PLACES = {
    "resize": ("same host", "same cell", "other cell"),
    "cold migration": ("same cell", "other cell"),  # there is none to the same host
    "live migration": ("same cell", "other cell"),
}
ROOTS = ("image", "volume")
DEVICES = ("none", "ports, bandwidth, volumes", "PCI", "ephemeral and swap disks")
PCI_OF_FLAVOR = "PCI of the flavor"
MOVABLE_PCI = "PCI of the flavor that can be moved live"
VERDICTS: tuple[Verdict, ...] = ("confirm", "revert")

LIVE_ENDS: dict[Verdict, str] = {"confirm": "completed", "revert": "aborted"}
"""Ends of live migrations, which wait for no verdict: an aborted one does not converge."""


@dataclass(frozen=True)
class Variant:
    move: str
    place: str
    root: str  # boot from a disk made of an image, or from a volume
    devices: str
    verdict: Verdict
    server: str = ""  # "in a group and a zone", "stopped" or "paused"

    @property
    def is_live(self) -> bool:
        return self.move.endswith("live migration")

    @property
    def head(self) -> dict[str, str]:
        """Return what describes it in the JSON document."""
        return asdict(self)

    @property
    def name(self) -> str:
        has = "" if self.devices == "none" else f", {self.devices}"
        state = self.server and f", {self.server}"
        end = LIVE_ENDS[self.verdict] if self.is_live else self.verdict
        return f"{self.move}, {self.place}, {self.root}{has}{state}, {end}"

    @property
    def story(self) -> Story:
        return Story(
            self.name,
            self.verdict,
            same_host=self.place == "same host",
            flavor=self.move == "resize",
            devices=self.devices == DEVICES[1],
            function=self.devices == "PCI",
            alias=self.devices in (PCI_OF_FLAVOR, MOVABLE_PCI),
            movable=self.devices == MOVABLE_PCI,
            bound=self.server == "in a group and a zone",
            stopped=self.server == "stopped",
            paused=self.server == "paused",
            local_disks=self.devices == DEVICES[3],
            crosses=self.place == "other cell",
            boots_from_volume=self.root == "volume",
            live=self.is_live,
            maintained=self.move.startswith("maintenance"),
        )


@dataclass(frozen=True, eq=False)
class LifeVariant:
    """A scenario of the stories of servers' lives."""

    story: Scenario

    @property
    def name(self) -> str:
        return self.story.name

    @property
    def head(self) -> dict[str, str]:
        return {"move": self.name.split(" ")[0], "place": "", "root": "", "devices": "", "verdict": ""}


@dataclass(frozen=True, eq=False)
class DeviceVariant:
    """A scenario of the stories of servers' devices, in which the data of a guest are moved."""

    story: attaching.Scenario

    @property
    def name(self) -> str:
        return self.story.name

    @property
    def head(self) -> dict[str, str]:
        return {"move": DEVICE_MOVES[self.story.saga], "place": "", "root": "", "devices": "", "verdict": ""}


@dataclass(frozen=True)
class EvacuationVariant:
    """A story of an evacuation."""

    story: Evacuating

    @property
    def name(self) -> str:
        return self.story.name

    @property
    def head(self) -> dict[str, str]:
        place = "other cell" if self.story.crosses else "same cell"
        root = ROOTS[self.story.boots_from_volume]
        return {"move": "evacuation", "place": place, "root": root, "devices": self._devices, "verdict": ""}

    @property
    def _devices(self) -> str:
        story = self.story
        has = (not (story.devices or story.function or story.alias or story.local_disks), story.devices)
        return DEVICES[(*has, story.function or story.alias, story.local_disks).index(True)]


LEFT_OUT = (
    *("tidy", "confirm", "follow_power of a guest that went off", "follow_power of a paused one"),  # begun by a round
    "delete of one that waits for its verdict",  # another run ends first, so that its touches are not always the same
)
"""How the names of scenarios begin that the map does not have."""


DEVICE_MOVES = {
    "swap_volume": "swap of a volume",
    "take_volume_snapshot": "snapshot of files",
    "merge_volume_files": "merge of files",
}
"""Saga -> what the map calls it."""

AnyVariant = Variant | EvacuationVariant | LifeVariant | DeviceVariant


def variants() -> Iterator[AnyVariant]:
    yield from move_variants()
    yield from further_move_variants()
    yield from maintenance_variants()
    yield from map(EvacuationVariant, EVACUATIONS)
    for scenario in SCENARIOS:
        if not scenario.name.startswith(LEFT_OUT):
            yield LifeVariant(scenario)
    yield from (DeviceVariant(one) for one in attaching.SCENARIOS if one.saga in DEVICE_MOVES)


def move_variants() -> Iterator[Variant]:
    for move, places in PLACES.items():
        for place, root, devices, verdict in product(places, ROOTS, DEVICES, VERDICTS):
            is_same = (root, devices) == ("volume", DEVICES[3])  # they behave the same with either root
            is_refused = (move, devices) == ("live migration", "PCI")
            if not (is_same or is_refused):
                yield Variant(move, place, root, devices, verdict)


def maintenance_variants() -> Iterator[Variant]:
    """Yield moves that a maintenance begins and confirms: live ones, and cold ones of servers that are stopped."""
    for root, devices in product(ROOTS, DEVICES[:2]):
        yield Variant("maintenance, live migration", "same cell", root, devices, "confirm")
        yield Variant("maintenance, cold migration", "same cell", root, devices, "confirm", "stopped")


def further_move_variants() -> Iterator[Variant]:
    """Yield moves of servers in other states, and with devices that their flavors request."""
    for move, places in PLACES.items():
        is_live = move == "live migration"
        for place, root, verdict in product(places, ROOTS, VERDICTS):
            yield Variant(move, place, root, "none", verdict, "in a group and a zone")
            if not is_live:
                yield Variant(move, place, root, "none", verdict, "stopped")
                yield Variant(move, place, root, PCI_OF_FLAVOR, verdict)
            if is_live and root == "image":
                yield Variant(move, place, root, MOVABLE_PCI, verdict)
            if is_live and verdict == "confirm":  # a paused guest writes nothing, so that its transfer always ends
                yield Variant(move, place, root, "none", verdict, "paused")
        for place, verdict in product(places, VERDICTS):
            yield Variant(move, place, "image", DEVICES[1], verdict, "in a group and a zone")
