"""The kinds of moves of the map. To add a kind of move, add a line to the kinds here."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal

from tools.scenarios.moves import Story

Verdict = Literal["confirm", "revert"]

PLACES = {
    "resize": ("same host", "same cell", "other cell"),
    "cold migration": ("same cell", "other cell"),  # there is none to the same host
}
ROOTS = ("image", "volume")
DEVICES = ("none", "ports, bandwidth, volumes", "PCI", "ephemeral and swap disks")
VERDICTS: tuple[Verdict, ...] = ("confirm", "revert")


@dataclass(frozen=True)
class Variant:
    move: str
    place: str
    root: str  # boot from a disk made of an image, or from a volume
    devices: str
    verdict: Verdict

    @property
    def name(self) -> str:
        has = "" if self.devices == "none" else f", {self.devices}"
        return f"{self.move}, {self.place}, {self.root}{has}, {self.verdict}"

    @property
    def story(self) -> Story:
        return Story(
            self.name,
            self.verdict,
            same_host=self.place == "same host",
            flavor=self.move == "resize",
            devices=self.devices == DEVICES[1],
            function=self.devices == "PCI",
            local_disks=self.devices == DEVICES[3],
            crosses=self.place == "other cell",
            boots_from_volume=self.root == "volume",
        )


def variants() -> Iterator[Variant]:
    for move, places in PLACES.items():
        for place, root, devices, verdict in product(places, ROOTS, DEVICES, VERDICTS):
            if (root, devices) != ("volume", DEVICES[3]):  # they behave the same with either root
                yield Variant(move, place, root, devices, verdict)
