"""Hardware options of flavors (`hw:name`) and images (`hw_name`), and whether they agree."""

from collections.abc import Collection, Mapping

from whimbrel.domain.errors import Invalid

TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})
FALSE = frozenset({"0", "f", "false", "off", "n", "no"})


class Options:
    """values: the allowed values; empty: any. namespace: hw or os."""

    def __init__(self, specs: Mapping[str, str], properties: Mapping[str, str]) -> None:
        self._specs = specs
        self._properties = properties

    def of_flavor(self, name: str, values: Collection[str] = (), namespace: str = "hw") -> str | None:
        key = f"{namespace}:{name}"
        return _checked(f"Flavor extra spec '{key}'", self._specs.get(key), values)

    def of_image(self, name: str, values: Collection[str] = (), namespace: str = "hw") -> str | None:
        key = f"{namespace}_{name}"
        return _checked(f"Image property '{key}'", self._properties.get(key), values)

    def agreed(self, name: str, values: Collection[str] = (), namespace: str = "hw") -> str | None:
        """Return the value of either. Raises: Invalid: they differ, or a value is not allowed."""
        flavors, images = self.of_flavor(name, values, namespace), self.of_image(name, values, namespace)
        if flavors is not None and images is not None and flavors != images:
            raise contradiction(name, flavors, images, namespace)
        return flavors or images

    def flag(self, name: str) -> bool:
        """Check whether either is true. Raises: Invalid: they differ, or a value is not a boolean."""
        key = f"'hw:{name}'"
        flavors = truth(f"Flavor extra spec {key}", self.of_flavor(name))
        images = truth(f"Image property 'hw_{name}'", self.of_image(name))
        if flavors is not None and images is not None and flavors != images:
            raise contradiction(name, self._specs[f"hw:{name}"], self._properties[f"hw_{name}"])
        return bool(flavors or images)


def contradiction(name: str, flavors: str, images: str, namespace: str = "hw") -> Invalid:
    return Invalid(
        f"Image property '{namespace}_{name}' is '{images}', which the flavor does not allow: its extra spec"
        f" '{namespace}:{name}' is '{flavors}'."
    )


def _checked(what: str, value: str | None, values: Collection[str]) -> str | None:
    if value is None or not values or value in values:
        return value
    raise Invalid(f"{what} cannot be '{value}': it is one of {', '.join(values)}.")


def truth(what: str, value: str | None) -> bool | None:
    """Read a boolean; None: it is not set. Raises: Invalid: it is none. what: the option, for the error."""
    if value is None:
        return None
    word = value.strip().lower()
    if word not in TRUE | FALSE:
        raise Invalid(f"{what} cannot be '{value}': it is true or false.")
    return word in TRUE
