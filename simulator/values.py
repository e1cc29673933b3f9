"""`@dataclass` whose methods are made when the class is first used.

The standard library writes, compiles and executes the text of `__init__`, `__eq__`, `__repr__` and
others for each class while its module is imported: a quarter of the time of a short command, most
of it for classes of which that command makes no object, and for methods that it does not call. Here
fields are still the standard library's. Of the methods only `__init__` has a text of its own, which
is compiled when the class is first used; until then a class has methods in their places that have
it make the real ones.
"""

from __future__ import annotations

import dataclasses
import operator
import reprlib
from threading import RLock
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, **options):
        """Do what `dataclasses.dataclass` does, with the same options, but at the first use."""
        if cls is None:
            return lambda given: dataclass(given, **options)
        # Python itself gives a class that has `__eq__` a `__hash__`, None.
        if options.keys() - _OPTIONS or "__eq__" in cls.__dict__:
            return dataclasses.dataclass(cls, **options)
        if options.pop("slots", False):
            # A class with slots is another than the one that is decorated: there is no later for
            # it, but for its methods.
            cls = _with_fields(cls, options, slots=True)
            _Later(cls, options).place(())
        else:
            _Later(cls, options).place(_FACTS)
        return cls


_OPTIONS = {"frozen", "eq", "repr", "kw_only", "slots"}
_LOCK = RLock()  # threads may come to a class at once, and classes to their bases
_FIELDS = "__dataclass_fields__"
_FACTS = (_FIELDS, "__dataclass_params__", "__match_args__")


def is_frozen(cls: type) -> bool:
    """Whether a class is a frozen dataclass; it need not make its methods for that."""
    for each in cls.__mro__:
        if (found := each.__dict__.get("__dataclass_params__")) is not None:
            return bool(found.frozen)
    return False


def _is_dataclass(cls: type) -> bool:
    return any(_FIELDS in each.__dict__ for each in cls.__mro__)


class _Later:
    """What stands in the places of a class's methods until one of them is called."""

    def __init__(self, cls: type, options: Mapping[str, bool]) -> None:
        self._cls = cls
        self._options = options
        self._places: dict[str, object] = {}
        self.frozen = options.get("frozen", False)

    def place(self, facts: Iterable[str]) -> None:
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
        for name in facts:
            self._places[name] = _Fact(self, name)
        for name, stands in self._places.items():
            setattr(cls, name, stands)

    def _method(self, name: str) -> Callable[..., Any]:
        def first(*arguments: Any, **named: Any) -> Any:
            return getattr(self.made(), name)(*arguments, **named)

        return first

    def made(self) -> type:
        """Return the class, with its real methods."""
        cls = self._cls
        with _LOCK:
            places, self._places = self._places, {}
            left = [name for name, each in places.items() if cls.__dict__.get(name) is each]
            if _FIELDS in left:
                delattr(cls, "__match_args__")  # the others are written over
                _with_fields(cls, self._options)
            for name in left:
                if cls.__dict__.get(name) is places[name]:
                    setattr(cls, name, _MAKERS[name](cls))
        return cls


class _Fact:
    """An attribute of a class that `dataclasses` reads: `fields`, `replace`, `asdict`, `match`."""

    def __init__(self, later: _Later, name: str) -> None:
        self._later = later
        self._name = name
        self.frozen = later.frozen

    def __get__(self, instance: object, owner: type) -> Any:
        return getattr(self._later.made(), self._name)


def _with_fields(cls: type, options: Mapping[str, bool], slots: bool = False) -> type:
    """Have the standard library find the fields, and no more; with slots it is another class."""
    frozen = options.get("frozen", False)
    # It compiles `__setattr__` and `__delattr__` of frozen classes even so: they are to be frozen
    # only where that decides something else, how objects with slots are pickled, and whether a base
    # is frozen, too.
    decides = frozen and (slots or any(map(_is_dataclass, cls.__mro__[1:])))
    if decides and not slots:
        del cls.__setattr__, cls.__delattr__
    undocumented = cls.__doc__ is None
    if undocumented:
        cls.__doc__ = "none"  # else it would write one, of the signature, which takes long
    kinds = {"init": False, "repr": False, "eq": False, "frozen": decides, "slots": slots}
    found: type = dataclasses.dataclass(**kinds, kw_only=options.get("kw_only", False))(cls)
    if undocumented:
        cls.__doc__ = found.__doc__ = None
    found.__dataclass_params__.frozen = frozen  # type: ignore[attr-defined]  # for subclasses
    return found


def _make_init(cls: Any) -> Callable[..., None]:
    """Compile `__init__`."""
    frozen = cls.__dataclass_params__.frozen
    names: dict[str, Any] = {"__name__": cls.__module__, "_set": object.__setattr__}
    ordered, named, body = ["self"], list[str](), list[str]()
    for field in dataclasses.fields(cls):
        name = value = field.name
        default = f"_{name}_"  # no field is called so
        parameter = name
        if field.default_factory is not dataclasses.MISSING:
            names[f"{default}made"] = field.default_factory
            value = f"{default}made()"
            if field.init:
                names["_missing"] = _MISSING
                parameter = f"{name}=_missing"
                value += f" if {name} is _missing else {name}"
        elif field.default is not dataclasses.MISSING:
            names[default] = field.default
            parameter = f"{name}={default}"
        elif not field.init:
            continue
        if field.init:
            (named if field.kw_only else ordered).append(parameter)
        elif value == name:
            continue  # the class has its value
        if frozen and isinstance(slot := cls.__dict__.get(name), MemberDescriptorType):
            names[f"{default}set"] = slot.__set__  # which takes two thirds of the time of `_set`
            body.append(f"{default}set(self, {value})")
        else:
            body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join([*ordered, "*", *named] if named else ordered)
    lines = "\n ".join(body or ["pass"])
    exec(f"def __init__({parameters}):\n {lines}", names)
    made: Callable[..., None] = names["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


class _Missing:
    """What stands for an argument whose default is made anew each time."""

    def __repr__(self) -> str:
        return "<factory>"


_MISSING = _Missing()


def _make_repr(cls: Any) -> Callable[..., str]:
    names = [field.name for field in dataclasses.fields(cls) if field.repr]

    @reprlib.recursive_repr()
    def shown(self: Any) -> str:
        values = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        return f"{type(self).__qualname__}({values})"

    return shown


def _make_eq(cls: Any) -> Callable[..., Any]:
    values = _values([field.name for field in dataclasses.fields(cls) if field.compare])

    def equal(self: Any, other: Any) -> Any:
        if type(other) is type(self):
            return values(self) == values(other)
        return NotImplemented

    return equal


def _make_hash(cls: Any) -> Callable[..., int]:
    found = dataclasses.fields(cls)
    names = [each.name for each in found if (each.compare if each.hash is None else each.hash)]
    values = _values(names)

    def hashed(self: Any) -> int:
        return hash(values(self))

    return hashed


def _values(names: list[str]) -> Callable[[Any], Any]:
    """Return what reads the values of some fields, as a tuple."""
    if len(names) > 1:
        return operator.attrgetter(*names)
    return lambda each: tuple([getattr(each, name) for name in names])


def _make_setattr(cls: Any) -> Callable[..., None]:
    names = {field.name for field in dataclasses.fields(cls)}

    def refuse(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    return refuse


def _make_delattr(cls: Any) -> Callable[..., None]:
    names = {field.name for field in dataclasses.fields(cls)}

    def refuse(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return refuse


_MAKERS = {
    "__init__": _make_init,
    "__repr__": _make_repr,
    "__eq__": _make_eq,
    "__hash__": _make_hash,
    "__setattr__": _make_setattr,
    "__delattr__": _make_delattr,
}
