"""`records.dataclass` makes what `dataclasses.dataclass` makes, later."""

import copy
import dataclasses
import inspect
import pickle
import re
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from polyreme.ir.passes import Pass
from polyreme.ir.python.records import dataclass, fields_of


class Point:
    """Two numbers, one of which is no part of what is compared."""

    kind: ClassVar[str] = "point"
    x: int
    y: int = 2
    seen: list[int] = field(default_factory=list, compare=False)
    hidden: int = field(default=7, repr=False)
    made: int = field(init=False, default=5)

    def double(self) -> int:
        return 2 * self.x


class Sum:
    """Its total is set when it is made."""

    parts: tuple[int, ...]
    total: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", sum(self.parts))


def both(cls: type, **options: bool) -> tuple[Any, Any]:
    """Ours and Python's."""
    return tuple(make(type(cls.__name__, (), dict(vars(cls))), **options) for make in (ours, dataclasses.dataclass))


def ours(cls: type, **options: bool) -> Any:
    return dataclass(**options)(cls)


@pytest.mark.parametrize("options", [{}, {"frozen": True}, {"frozen": True, "eq": False}, {"eq": False}])
def test_instances_are_those_of_dataclasses(options):
    for made in both(Point, **options):
        a, b = made(1), made(1, 2, [3])
        assert (a.x, a.y, a.seen, a.hidden, a.made, a.double()) == (1, 2, [], 7, 5, 2)
        assert made(1).seen is not a.seen
        assert repr(b) == "Point(x=1, y=2, seen=[3], made=5)"
        assert (a == b) is options.get("eq", True) and a != made(x=2) and a != 1
        assert [f.name for f in fields(made)] == ["x", "y", "seen", "hidden", "made"]
        assert replace(a, y=9).y == 9 and asdict(a)["hidden"] == 7
        assert dataclasses.is_dataclass(made) and made.__match_args__ == ("x", "y", "seen", "hidden")
        assert str(inspect.signature(made.double)) == "(self) -> int"
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
            made()


def test_hashes_are_of_what_is_compared():
    mine, theirs = both(Point, frozen=True)
    assert hash(mine(1)) == hash(mine(1, seen=[1])) == hash(theirs(1)) != hash(mine(2))
    assert all(made.__hash__ is None for made in both(Point))
    assert all(made.__hash__ is object.__hash__ for made in both(Point, eq=False, frozen=True))


def test_frozen_ones_take_no_new_values():
    for made in both(Sum, frozen=True):
        one = made((1, 2))
        assert one.total == 3
        with pytest.raises(FrozenInstanceError, match="cannot assign to field 'total'"):
            one.total = 4
        with pytest.raises(FrozenInstanceError, match="cannot delete field 'parts'"):
            del one.parts


def test_own_methods_stay():
    class Named:
        name: str = ""

        def __repr__(self):
            return "named"

        def __eq__(self, other):
            return True

        def __hash__(self):
            return 1

    for made in both(Named, frozen=True):
        assert repr(made("x")) == "named" and made("x") == 3 and hash(made("x")) == 1


@dataclass(frozen=True, slots=True)
class Slotted:
    """At the top of a module, as pickle wants it."""

    x: int
    y: tuple[int, ...] = ()


@dataclass(frozen=True)
class Derived(Slotted):
    """One more field."""

    z: int = 0


def test_slots_are_copied_and_pickled():
    one = Slotted(1, (2,))
    assert not hasattr(one, "__dict__") and Slotted.__slots__ == ("x", "y")
    assert pickle.loads(pickle.dumps(one)) == copy.copy(one) == one
    assert Derived(1, (2,), 3) != one and Derived(1, z=3) == replace(Derived(1), z=3)
    assert pickle.loads(pickle.dumps(Derived(1, z=3))).z == 3


def test_methods_are_written_when_they_are_called():
    class Late:
        x: int = 0

    made = ours(Late, frozen=True)
    assert made.__init__.__name__ == "first"
    assert made().x == 0 and made.__init__.__name__ == "__init__" and made.__eq__.__name__ == "first"
    assert made() == made(0) and made.__eq__.__qualname__.endswith("Late.__eq__")


def test_what_is_derived_from_frozen_ones_is_frozen():
    with pytest.raises(TypeError, match="expected Loose to be frozen as what it is derived from is"):

        @dataclass
        class Loose(Slotted):
            z: int = 0


def test_dataclasses_of_python_are_derived_from_ours_as_from_one_another():
    @dataclasses.dataclass(frozen=True)
    class Firm(Slotted):
        z: int = 0

    assert Firm(1, (2,), 3) == Firm(1, (2,), 3) and hash(Firm(1)) == hash(Firm(1)) and Firm(1, z=3).z == 3
    with pytest.raises(FrozenInstanceError):
        Firm(1).z = 1
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):

        @dataclasses.dataclass
        class Loose(Slotted):
            z: int = 0


def test_passes_without_options_need_no_dataclass():
    class Plain(Pass):
        name: ClassVar[str] = "plain"

    assert fields_of(Plain) == () == fields_of(3) and Plain().options() == {}
    assert [f.name for f in fields_of(Slotted)] == ["x", "y"]


def test_rooms_that_are_imported_to_compile_use_ours():
    root = Path(__file__).parents[2]
    files = [file for room in ("ir", "dialects", "lowering") for file in (root / room).rglob("*.py") if file.name != "records.py"]
    assert len(files) > 300
    assert not [file for file in files if re.search(r"^from dataclasses import .*\bdataclass\b", file.read_text(), re.MULTILINE)]
