"""Reads Nova's notification samples and writes nova_notifications.txt, which the tests compare payloads with.

Usage: python -m tools.nova_notifications DIRECTORY, the root of Nova's source. One line for each sample: sample, event,
priority, source, payload class, version, state, task state. Then one line for each class: "-", class, version, names of
its fields. Facts only: names and versions, no contents.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_suffix(".txt")
SAMPLES = "doc/notification_samples"
DATA, NAME, VERSION = "nova_object.data", "nova_object.name", "nova_object.version"


def resolved(value: Any, directory: Path) -> Any:
    """Return a JSON value with its references replaced: a reference's fields, overridden by those beside it."""
    if isinstance(value, list):
        return [resolved(each, directory) for each in value]
    if not isinstance(value, dict):
        return value
    own = {key: resolved(each, directory) for key, each in value.items() if key != "$ref"}
    if "$ref" not in value:
        return own
    file = directory / value["$ref"].rstrip("#")
    return merged(resolved(json.loads(file.read_text()), file.parent), own)


def merged(under: Any, over: Any) -> Any:
    if isinstance(under, dict) and isinstance(over, dict):
        return under | {key: merged(under.get(key), each) for key, each in over.items()}
    return over


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """Yield all versioned objects within a value, also nested ones."""
    if isinstance(value, dict):
        if NAME in value:
            yield value
        for each in value.values():
            yield from objects(each)
    elif isinstance(value, list):
        for each in value:
            yield from objects(each)


def table(nova: Path) -> list[str]:
    lines, parts = [], {}
    for file in sorted((nova / SAMPLES).glob("*.json")):
        sample = resolved(json.loads(file.read_text()), file.parent)
        payload = sample["payload"]
        data, source = payload[DATA], sample["publisher_id"].partition(":")[0]
        states = str(data.get("state")), str(data.get("task_state"))
        said = sample["event_type"], sample["priority"], source, payload[NAME], payload[VERSION], *states
        lines.append(" ".join((file.stem, *said)))
        for each in objects(payload):
            parts[each[NAME], each[VERSION]] = ",".join(sorted(each[DATA]))
    return lines + [f"- {name} {version} {fields}" for (name, version), fields in sorted(parts.items())]


if __name__ == "__main__":
    source = Path(sys.argv[1])
    head = "# Nova's notification samples (Apache License 2.0): names only. Written by tools/nova_notifications.py."
    TABLE.write_text("\n".join([head, *table(source)]) + "\n")
