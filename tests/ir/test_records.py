"""Data classes of `ir/records.py` beside Python's own: the same classes by both."""

import copy
import dataclasses
import pickle
from dataclasses import asdict, field, fields, replace
from functools import cached_property
from typing import ClassVar

import pytest

from polyreme.ir import records

MAKERS = pytest.mark.parametrize("maker", [records.dataclass, dataclasses.dataclass], ids=["ours", "Python's"])


@records.dataclass(frozen=True, slots=True)
class Place:
    """At the top, where pickles find it."""

    row: int
    column: int = 3


def _point(maker, **options):
    @maker(**options)
    class Point:
        kinds: ClassVar[int] = 2
        x: int
        y: int = 4
        names: list[str] = field(default_factory=list)
        note: str = field(default="", compare=False, repr=False)
        area: int = field(init=False, default=7)

    return Point


@MAKERS
@pytest.mark.parametrize("options", [{}, {"frozen": True}, {"slots": True}, {"frozen": True, "slots": True}, {"eq": False}, {"frozen": True, "eq": False}], ids=str)
def test_objects_are_made_compared_printed_and_replaced(maker, options):
    Point = _point(maker, **options)
    one, same, other = Point(1), Point(x=1, note="aside"), Point(1, 2, ["a"])
    assert (one.x, one.y, one.names, one.note, one.area) == (1, 4, [], "", 7)
    assert one.names is not Point(1).names
    assert (one == same) is options.get("eq", True) and one != other and one != (1, 4, [], 7)
    assert repr(other) == "_point.<locals>.Point(x=1, y=2, names=['a'], area=7)"
    assert replace(other, x=5).names is other.names
    assert [f.name for f in fields(Point)] == ["x", "y", "names", "note", "area"]
    assert asdict(other) == {"x": 1, "y": 2, "names": ["a"], "note": "", "area": 7}
    assert Point.__match_args__ == ("x", "y", "names", "note")
    assert hasattr(one, "__dict__") is not options.get("slots", False)
    assert copy.deepcopy(other).names == ["a"] and copy.copy(other).names is other.names
    with pytest.raises(TypeError, match=r"__init__\(\) missing 1 required positional argument: 'x'"):
        Point()
    with pytest.raises(TypeError, match="area"):
        Point(1, area=2)


@MAKERS
def test_what_is_frozen_has_a_hash_and_no_changes(maker):
    @maker(frozen=True)
    class Pair:
        a: int
        b: str = ""

        @cached_property
        def both(self):
            return f"{self.a}{self.b}"

    pair = Pair(1, "x")
    assert hash(pair) == hash(Pair(1, "x")) == hash((1, "x")) and {pair, Pair(1, "x")} == {pair}
    assert pair.both == "1x"
    for change in (lambda: setattr(pair, "a", 2), lambda: setattr(pair, "new", 2), lambda: delattr(pair, "a")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()
    with pytest.raises(TypeError, match="unhashable"):
        hash(_point(maker)(1))


@MAKERS
def test_a_class_keeps_its_own_methods(maker):
    @maker(frozen=True, slots=True)
    class Own:
        a: int

        def __init__(self):
            object.__setattr__(self, "a", 5)

        def __hash__(self):
            return 11

        def __str__(self):
            return "own"

        __repr__ = __str__

    @maker(frozen=True)
    class Alike:
        a: int

        def __eq__(self, other):
            return True

    @maker
    class Checked:
        a: int

        def __post_init__(self):
            self.a += 1

    assert (Own().a, hash(Own()), repr(Own())) == (5, 11, "own")
    assert Alike(1) == 2 and hash(Alike(1)) == hash(Alike(1))
    assert Checked(1).a == 2


@pytest.mark.parametrize("base", [records.dataclass, dataclasses.dataclass], ids=["ours", "Python's"])
@MAKERS
@pytest.mark.parametrize("options", [{}, {"frozen": True}], ids=str)
def test_either_may_be_the_base_of_the_other(base, maker, options):
    @base(**options)
    class Base:
        a: int
        b: int = 2

    @maker(**options)
    class Derived(Base):
        c: int = 3

    class Plain(Derived):
        pass

    assert Derived(1) == Derived(1, 2, 3) != Derived(1, 2, 4) and Derived(1) != Base(1)
    assert repr(Derived(1)).endswith("Derived(a=1, b=2, c=3)")
    plain = Plain(1)
    plain.other = 4
    if options:
        assert hash(Derived(1)) == hash((1, 2, 3))
        with pytest.raises(dataclasses.FrozenInstanceError):
            plain.a = 5
        with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):
            maker(type("Open", (Base,), {}))


def test_what_has_slots_and_is_frozen_travels():
    place = Place(1)
    assert pickle.loads(pickle.dumps(place)) == place == copy.deepcopy(place)
    assert not hasattr(place, "__dict__")


def test_what_contains_itself_is_printed():
    @records.dataclass
    class Node:
        next: object = None

    node = Node()
    node.next = node
    assert repr(node).endswith("Node(next=...)")
