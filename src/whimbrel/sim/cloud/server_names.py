"""Short names for servers, in the order in which they come up: a timeline of ids is for nobody."""


class Names:
    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def of(self, server_id: str) -> str:
        return self._names.setdefault(server_id, f"s{len(self._names) + 1}")
