"""A configuration whose values may come from a parent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqs_workers.utils import instantiate_from_dict, instantiate_from_string, string_to_object

__all__ = ["Config"]


@dataclass(frozen=True)
class Config:
    """Options by name, looked up in ``parent`` when they are not set here.

    :param parent: where to look next.
    :param options: own values; changed by ``config[name] = value``.
    :param maker_key: key of the class path in options that are dictionaries.
    """

    parent: Config | None = field(repr=False, default=None)
    options: dict[str, Any] = field(default_factory=dict)
    maker_key: str = "maker"

    def __setitem__(self, key: str, value: Any) -> None:
        self.options[key] = value

    def __getitem__(self, item: str) -> Any:
        if item in self.options:
            return self.options[item]
        if self.parent is not None:
            return self.parent[item]
        raise KeyError(f"{item} is undefined")

    def get(self, item: str, default: Any = None) -> Any:
        """The value, or ``default``."""
        try:
            return self[item]
        except KeyError:
            return default

    def get_object(self, item: str) -> Any:
        """Import the object whose path is the value."""
        return string_to_object(self[item])

    def get_instance(self, item: str, **kwargs: Any) -> Any:
        """Call the class whose path is the value, or is under ``maker_key`` of a dictionary."""
        value = self[item]
        if isinstance(value, Mapping):
            return instantiate_from_dict(value, maker_key=self.maker_key, **kwargs)
        return instantiate_from_string(value, **kwargs)

    def make_child(self, options: dict[str, Any] | None = None) -> Config:
        """A configuration that falls back on this one."""
        return Config(parent=self, options={} if options is None else options)
