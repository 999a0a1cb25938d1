"""The version document: needs no token."""

from typing import Any

from whimbrel.placement_api.microversions import FIRST, LAST

DOCUMENT: dict[str, Any] = {
    "versions": [
        {
            "id": "v1.0",
            "min_version": f"1.{FIRST}",
            "max_version": f"1.{LAST}",
            "status": "CURRENT",
            "links": [{"rel": "self", "href": ""}],
        }
    ]
}
