"""`@dataclass` whose methods are made when the class is first used.

The standard library writes, compiles and executes the text of `__init__`, `__eq__`, `__repr__` and
others for each class while its module is imported: a tenth of the time of a short command, most of
it for classes of which that command makes no object. Everything else is the standard library's:
until then a class has methods in their places that have it make the real ones.
"""

from __future__ import annotations

import dataclasses
from threading import RLock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, **options):
        """Do what `dataclasses.dataclass` does, with the same options, but at the first use."""
        if cls is None:
            return lambda given: dataclass(given, **options)
        # A class with slots is another than the one that is decorated: there is no later for it.
        # And Python itself gives a class that has `__eq__` a `__hash__`, None.
        if options.keys() - {"frozen", "eq", "repr", "kw_only"} or "__eq__" in cls.__dict__:
            return dataclasses.dataclass(cls, **options)
        _Later(cls, options).place()
        return cls


_LOCK = RLock()  # threads may come to a class at once, and classes to their bases
_FACTS = ("__dataclass_fields__", "__dataclass_params__", "__match_args__")


class _Later:
    """What stands in the places of a class's methods until one of them is called."""

    def __init__(self, cls: type, options: dict[str, bool]) -> None:
        self._cls = cls
        self._options = options
        self._places: dict[str, object] = {}

    def place(self) -> None:
        cls, options = self._cls, self._options
        methods = ["__init__"]
        if options.get("repr", True):
            methods.append("__repr__")
        if options.get("eq", True):
            methods.append("__eq__")
            if options.get("frozen"):
                methods.append("__hash__")
            elif "__hash__" not in cls.__dict__:
                cls.__hash__ = None  # type: ignore[assignment]  # as for every class with __eq__
        if options.get("frozen"):
            methods += ["__setattr__", "__delattr__"]
        for name in methods:
            if name not in cls.__dict__:
                self._places[name] = self._method(name)
        for name in _FACTS:
            self._places[name] = _Fact(self, name)
        for name, stands in self._places.items():
            setattr(cls, name, stands)

    def _method(self, name: str) -> Callable[..., Any]:
        def first(*arguments: Any, **named: Any) -> Any:
            return getattr(self.made(), name)(*arguments, **named)

        return first

    def made(self) -> type:
        """Return the class, with the methods that the standard library makes."""
        cls = self._cls
        with _LOCK:
            places, self._places = self._places, {}
            for name, stands in places.items():
                if cls.__dict__.get(name) is stands:
                    delattr(cls, name)
            if places:
                dataclasses.dataclass(**self._options)(cls)
        return cls


class _Fact:
    """An attribute of a class that `dataclasses` reads: `fields`, `replace`, `asdict`, `match`."""

    def __init__(self, later: _Later, name: str) -> None:
        self._later = later
        self._name = name

    def __get__(self, instance: object, owner: type) -> Any:
        return getattr(self._later.made(), self._name)
