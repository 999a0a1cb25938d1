"""Short names for servers in order of appearance: a timeline of ids is hard to read."""


class Names:
    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def of(self, server_id: str) -> str:
        return self._names.setdefault(server_id, f"s{len(self._names) + 1}")
