"""ImagePropertiesWeigher: how many servers of a host have images with the properties of this one.

It applies to images, not to volumes: servers that boot from a volume do not count.
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
"""Images are not read unless the rule or an aggregate sets it."""


def alike(request: Request, snapshot: Snapshot) -> Floats | None:
    """Sum, over a host's servers, the properties in common, weighted by the setting; without one, each counts 1."""
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
    which: Numbers  # indices into images
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
