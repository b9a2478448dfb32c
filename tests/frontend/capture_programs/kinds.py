"""Programs of kinds of one's own: dataclasses, named tuples, enumerations, subclasses of Python's kinds, containers and operators of one's
own; also as results.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
from types import SimpleNamespace
from typing import Any, NamedTuple

import polyreme as paddle
from tests.frontend.capture_programs.driver import Run, program, three
from tests.frontend.capture_programs.objects import Base


class Pair(NamedTuple):
    left: Any
    right: Any = 1.0


@dataclasses.dataclass
class Box:
    value: Any
    scale: float = 2.0
    tags: list[Any] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Frozen:
    value: Any
    scale: float = 3.0


@dataclasses.dataclass
class Checked:
    value: Any
    double: Any = None

    def __post_init__(self) -> None:
        self.double = self.value * 2


class Mode(enum.Enum):
    ADD = 1
    MULTIPLY = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Rate(float):
    pass


class Triple(tuple):  # noqa: SLOT001
    pass


class Config(dict):  # type: ignore[type-arg]
    __getattr__ = dict.__getitem__


class Names(list):  # type: ignore[type-arg]
    pass


class Vector:
    def __init__(self, items: Any):
        self.items = list(items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.items[index]

    def __setitem__(self, index: int, value: Any) -> None:
        self.items[index] = value

    def __iter__(self) -> Any:
        return iter(self.items)

    def __contains__(self, value: Any) -> bool:
        return value in self.items

    def __add__(self, other: Any) -> Any:
        return Vector(a + b for a, b in zip(self.items, other.items, strict=True))

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Vector) and self.items == other.items

    def __hash__(self) -> int:
        return 3

    def __bool__(self) -> bool:
        return self.items[0] != 0

    def __str__(self) -> str:
        return f"vector of {len(self.items)}"


class Recorder:
    def __init__(self, log: list[str]):
        self.log = log

    def __enter__(self) -> Recorder:
        self.log.append("enter")
        return self

    def __exit__(self, *error: Any) -> None:
        self.log.append("exit" if error[0] is None else error[0].__name__)


@program()
def a_dataclass_comes_and_another_goes(p: Run) -> None:
    @p.static
    def function(box: Any) -> Any:
        return Box(box.value * box.scale, 4.0)

    for rows, scale in ((2, 2.0), (2, 3.0), (4, 3.0)):
        p.call(function, Box(p.g(rows, 3), scale))


@program()
def a_dataclass_given_is_changed(p: Run) -> None:
    @p.static
    def function(box: Any) -> Any:
        box.value = box.value * 2
        box.tags.append(box.scale)
        return box

    for rows in (2, 2, 4):
        p.call(function, Box(p.g(rows, 3)))


@program()
def a_frozen_dataclass_is_taken(p: Run) -> None:
    @p.static
    def function(box: Any) -> Any:
        return box.value * box.scale

    for rows, scale in ((2, 2.0), (2, 3.0), (4, 3.0)):
        p.call(function, Frozen(p.g(rows, 3), scale))


@program(whole=False)
def a_frozen_dataclass_is_made_and_replaced(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        return dataclasses.replace(Frozen(x), scale=5.0)

    three(p, function)


@program(whole=False)
def a_dataclass_that_computes_after_init(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        made = Checked(x)
        return made.double + made.value

    three(p, function)


@program()
def a_named_tuple_comes_and_goes(p: Run) -> None:
    @p.static
    def function(pair: Any) -> Any:
        left, right = pair
        return Pair(left * right, pair.right), pair._fields

    p.call(function, Pair(p.g(2, 3), p.g(3)))
    p.call(function, Pair(p.g(2, 3)))
    p.call(function, Pair(p.g(4, 3), 2.0))


@program(whole=False)
def a_named_tuple_is_replaced(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        pair = Pair(x, x * 2)
        return pair._replace(left=pair.right), pair._asdict()

    three(p, function)


@program()
def an_enumeration_chooses(p: Run) -> None:
    held = SimpleNamespace(mode=Mode.ADD, level=Level.LOW)

    @p.static
    def function(x: Any, mode: Any) -> Any:
        y = x + 1 if mode is Mode.ADD else x * 2
        return y * held.level if held.mode == Mode.ADD else y - held.level

    p.call(function, p.g(2, 3), Mode.ADD)
    p.call(function, p.g(2, 3), Mode.MULTIPLY)
    held.level = Level.HIGH
    p.call(function, p.g(2, 3), Mode.MULTIPLY)
    held.mode = Mode.MULTIPLY
    p.call(function, p.g(4, 3), Mode.MULTIPLY)


@program(whole=False)
def subclasses_of_numbers_and_containers(p: Run) -> None:
    held = SimpleNamespace(rate=Rate(2.0), triple=Triple((1.0, 2.0)), names=Names(["a"]))

    @p.static
    def function(x: Any) -> Any:
        y = x * held.rate + held.triple[0]
        return y * 2 if held.names else y

    three(p, function)
    held.rate = Rate(3.0)
    three(p, function)
    held.triple = Triple((5.0, 2.0))
    three(p, function)
    held.names.clear()
    three(p, function)
    held.names = Names(["b"])
    three(p, function)


@program()
def the_rate_is_a_subclass_of_float(p: Run) -> None:
    held = SimpleNamespace(rate=Rate(2.0))

    @p.static
    def function(x: Any) -> Any:
        return x * held.rate

    three(p, function)
    held.rate = Rate(3.0)
    three(p, function)


@program(whole=False)
def a_tuple_of_ones_own(p: Run) -> None:
    held = SimpleNamespace(triple=Triple((1.0, 2.0)))

    @p.static
    def function(x: Any) -> Any:
        return x * held.triple[0] + len(held.triple)

    three(p, function)
    held.triple = Triple((5.0, 2.0, 3.0))
    three(p, function)


@program(whole=False)
def a_list_of_ones_own_is_tested(p: Run) -> None:
    held = SimpleNamespace(names=Names(["a"]))

    @p.static
    def function(x: Any) -> Any:
        return x * 2 if held.names else x * 3

    three(p, function)
    held.names.clear()
    three(p, function)


@program(whole=False)
def a_list_of_ones_own_is_compared(p: Run) -> None:
    held = SimpleNamespace(names=Names(["a"]))

    @p.static
    def function(x: Any) -> Any:
        return x * 2 if held.names == ["a"] else x * 3

    three(p, function)
    held.names.append("b")
    three(p, function)


@program(whole=False)
def a_list_of_ones_own_is_shown(p: Run) -> None:
    held = SimpleNamespace(names=Names(["a"]))

    @p.static
    def function(x: Any) -> Any:
        return x * 2, f"{held.names}"

    three(p, function)
    held.names.append("b")
    three(p, function)


@program(whole=False)
def a_dict_with_attributes(p: Run) -> None:
    config = Config(scale=2.0, deep=Config(bias=1.0))

    @p.static
    def function(x: Any) -> Any:
        return x * config.scale + config.deep.bias

    three(p, function)
    config["scale"] = 3.0
    three(p, function)
    config["deep"]["bias"] = 4.0
    three(p, function)


@program()
def a_container_of_ones_own(p: Run) -> None:
    held = Vector([1.0, 2.0])

    @p.static
    def function(x: Any) -> Any:
        held[0] = held[1]
        return x * held[0] + len(held)

    p.watch(held)
    three(p, function)
    held.items.append(3.0)
    three(p, function)


@program(whole=False)
def operators_of_ones_own(p: Run) -> None:
    held = Vector([1.0, 2.0])
    other = Vector([1.0, 2.0])

    @p.static
    def function(x: Any) -> Any:
        total = held + other
        y = x * total[0] * 2 if held == other else x
        if held:
            y = y + 1
        for item in held:
            y = y + item
        return y * 2 if 1.0 in held else y, str(held)

    three(p, function)
    held[0] = 0.0
    three(p, function)
    held.items.append(1.0)
    other.items.append(4.0)
    three(p, function)


@program(whole=False)
def a_context_manager_of_ones_own(p: Run) -> None:
    log: list[str] = []

    @p.static
    def function(x: Any) -> Any:
        with Recorder(log):
            y = x * 2
        with contextlib.suppress(ValueError), Recorder(log):
            raise ValueError("inside")
        return y

    p.watch(log)
    three(p, function)


@program()
def nothing_numbers_and_objects_are_returned(p: Run) -> None:
    @p.static
    def nothing(x: Any) -> None:
        x * 2

    @p.static
    def numbers(x: Any) -> Any:
        return x.shape[0], 2.5, "text", None, True, x.dtype, slice(0, x.shape[0]), range(3), Mode.ADD

    three(p, nothing)
    three(p, numbers)


@program()
def an_object_is_made_and_returned(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        made = Base()
        made.count = x.shape[0]
        made.result = x * 2  # type: ignore[attr-defined]
        return made

    three(p, function)


FACTORS = {"scale": 2.0}


class Probability(float):
    def __mul__(self, other: Any) -> Any:
        return other * (float(self) * FACTORS["scale"])

    __rmul__ = __mul__


class Switch(int):
    def __bool__(self) -> bool:
        return FACTORS["scale"] > 2


class Scaled(NamedTuple("Scaled", [("first", Any), ("second", Any)])):  # noqa: UP014
    def __new__(cls, first: Any, second: Any = 1) -> Any:
        return super().__new__(cls, first * FACTORS["scale"], second)


class Key:
    def __init__(self, name: str):
        self.name = name

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        return FACTORS["scale"] > 2


@dataclasses.dataclass
class Twice:
    value: Any

    def _get(self) -> Any:
        return self._value

    def _set(self, value: Any) -> None:
        self._value = value * FACTORS["scale"]


Twice.value = property(Twice._get, Twice._set)


@program(whole=False)
def classes_with_operators_of_their_own(p: Run) -> None:
    first, second, chance, switch = Key("a"), Key("b"), Probability(0.5), Switch(1)

    @p.static
    def multiplies(x: Any) -> Any:
        return x * chance, chance * x

    @p.static
    def is_given_one(x: Any, chance: Any) -> Any:
        return x * chance

    @p.static
    def decides(x: Any) -> Any:
        return x if switch else -x

    @p.static
    def makes(x: Any) -> Any:
        return Scaled(x).first

    @p.static
    def takes(given: Any) -> Any:
        return given.first, given

    @p.static
    def makes_a_dataclass(x: Any) -> Any:
        return Twice(x).value

    @p.static
    def counts(x: Any) -> Any:
        return x * len({first, second}), len(dict.fromkeys((first, second), 1))

    for FACTORS["scale"] in (2.0, 3.0, 5.0):  # noqa: B007
        for function in (multiplies, decides, makes, makes_a_dataclass, counts):
            p.call(function, p.t(2))
        p.call(is_given_one, p.t(2), chance)
        p.call(takes, Scaled(p.t(2), p.t(2)))
    FACTORS["scale"] = 2.0


@program(whole=False)
def it_is_asked_whether_an_argument_is_a_parameter(p: Run) -> None:
    weight = paddle.nn.Linear(2, 2).weight

    @p.static
    def function(x: Any) -> Any:
        return isinstance(x, type(weight)), type(x) is paddle.Tensor, hasattr(x, "need_clip"), x * 2

    for given in (p.g(2, 2), weight, p.g(2, 2), weight):
        p.call(function, given)


@program()
def it_is_asked_whether_an_argument_is_a_list(p: Run) -> None:
    weight = paddle.nn.Linear(2, 2).weight

    @p.static
    def function(x: Any) -> Any:
        return x[0] if isinstance(x, (list, tuple)) else x * 2 if isinstance(x, paddle.Tensor) else None

    for given in (p.g(2, 2), weight, [p.g(2, 2)], weight):
        p.call(function, given)


@program()
def it_is_asked_for_what_only_some_arguments_have(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        return x * (2 if hasattr(x, "mask") else 3), getattr(x, "share", 1.5)

    p.call(function, p.g(2))
    p.call(function, p.g(2))
    p.call(function, p.g(3))
