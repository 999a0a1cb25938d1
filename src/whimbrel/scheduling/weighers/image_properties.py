"""ImagePropertiesWeigher: how many servers of a host were made of images with the properties of this one.

It is known of images, not of volumes: who boots from a volume counts for nothing here.
Source: Nova's weigher of this name.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from whimbrel.ports.arrays import Floats, Numbers
from whimbrel.ports.stores.fleet import Fleet
from whimbrel.scheduling.filters.ratios import ratios
from whimbrel.scheduling.request import Request
from whimbrel.scheduling.snapshot import Snapshot

MULTIPLIER = "image_props_weight_multiplier"
"""Where neither the rule nor an aggregate has it, images are not even read."""


def alike(request: Request, snapshot: Snapshot) -> Floats | None:
    """Count, for each property that they have in common, as often as the setting says; without one, each once."""
    fleet, asked = snapshot.fleet, request.image_properties
    if not (asked and fleet.images):
        return None
    counted = fleet.once(_counted)
    setting = ratios(snapshot.rules.image_props_weight_setting)
    worth = np.array(
        [_worth(asked, fleet.image_properties.get(image, {}), setting) for image in counted.images], np.float64
    )
    total: Floats = np.bincount(counted.host_indices, counted.numbers * worth[counted.which], len(fleet)).astype(
        np.float64
    )
    return total


def _worth(asked: Mapping[str, str], has: Mapping[str, str], setting: Mapping[str, float]) -> float:
    common = [name for name, value in asked.items() if has.get(name) == value]
    return sum(setting.get(name, 0.0) for name in common) if setting else float(len(common))


class _Counted(NamedTuple):
    """A row for each image of each host."""

    images: list[str]
    host_indices: Numbers
    which: Numbers  # of these images
    numbers: Numbers  # of servers


def _counted(fleet: Fleet) -> _Counted:
    rows = [
        (fleet.row[host], image, number)
        for host, images in fleet.images.items()
        if host in fleet.row
        for image, number in images.items()
    ]
    code = {image: number for number, image in enumerate(dict.fromkeys(image for _, image, _ in rows))}
    columns = np.array([(host_index, code[image], number) for host_index, image, number in rows], np.int64).reshape(
        -1, 3
    )
    return _Counted(list(code), *columns.T)
