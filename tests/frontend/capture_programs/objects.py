"""Programs of Python's objects: attributes, properties, classes, dataclasses, partials, callables, arguments and results of every kind."""

from __future__ import annotations

import abc
import collections
import contextlib
import dataclasses
import enum
import functools
import itertools
import operator
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

import polyreme as paddle
from tests.frontend.capture_programs.driver import Run, program
from tests.frontend.capture_programs.outside import three


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


class Slotted:
    __slots__ = ("count", "value")

    def __init__(self, value: Any):
        self.value = value
        self.count = 0


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


class Base:
    scale = 2.0
    registry: list[Any] = []

    def __init__(self) -> None:
        self.count = 0
        self._gain = 1.0

    @property
    def gain(self) -> float:
        return self._gain * self.scale

    @gain.setter
    def gain(self, value: float) -> None:
        self._gain = value

    @classmethod
    def scaled(cls, x: Any) -> Any:
        return x * cls.scale

    @staticmethod
    def shifted(x: Any, by: float = 1.0) -> Any:
        return x + by

    def step(self, x: Any) -> Any:
        self.count += 1
        return self.scaled(x)


class Derived(Base):
    scale = 3.0

    def step(self, x: Any) -> Any:
        return super().step(x) + 1

    @classmethod
    def scaled(cls, x: Any) -> Any:
        return super().scaled(x) * 10


class Mixin:
    def step(self, x: Any) -> Any:
        return super().step(x) * 2  # type: ignore[misc]


class Mixed(Mixin, Derived):
    pass


class Abstract(abc.ABC):
    @abc.abstractmethod
    def rule(self, x: Any) -> Any: ...

    def __call__(self, x: Any) -> Any:
        return self.rule(x) + 1


class Concrete(Abstract):
    def rule(self, x: Any) -> Any:
        return x * 4


class Dynamic:
    def __init__(self) -> None:
        self.known = 1.0

    def __getattr__(self, name: str) -> Any:
        if name == "unknown":
            return self.known * 7
        raise AttributeError(name)


class Validated:
    def __set_name__(self, owner: Any, name: str) -> None:
        self.name = "_" + name

    def __get__(self, held: Any, owner: Any = None) -> Any:
        return getattr(held, self.name)

    def __set__(self, held: Any, value: Any) -> None:
        setattr(held, self.name, value * 2)


class WithDescriptor:
    rate = Validated()


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


@program(whole=False)
def an_attribute_counts_calls(p: Run) -> None:
    held = SimpleNamespace(count=0)

    @p.static
    def function(x: Any) -> Any:
        held.count += 1
        return x * held.count

    p.watch(held)
    three(p, function)
    three(p, function)


@program()
def an_attribute_of_a_plain_object_is_set(p: Run) -> None:
    held = Base()

    @p.static
    def function(x: Any) -> Any:
        held.last = x * 2  # type: ignore[attr-defined]
        held.shape = tuple(x.shape)  # type: ignore[attr-defined]
        return held.last + 1  # type: ignore[attr-defined]

    p.watch(held)
    three(p, function)


@program()
def an_attribute_is_deleted_and_asked_for(p: Run) -> None:
    held = Base()

    @p.static
    def function(x: Any) -> Any:
        if hasattr(held, "extra"):
            del held.extra
            return x * 5
        return x * getattr(held, "other", 2.0)

    p.watch(held)
    three(p, function)
    held.extra = 1  # type: ignore[attr-defined]
    three(p, function)
    held.other = 7.0  # type: ignore[attr-defined]
    three(p, function)


@program()
def setattr_and_getattr_by_computed_names(p: Run) -> None:
    held = Base()

    @p.static
    def function(x: Any) -> Any:
        for i in range(2):
            setattr(held, f"part{i}", x[i] + 1)
        return held.part0 + held.part1  # type: ignore[attr-defined]

    p.watch(held)
    three(p, function)


@program()
def a_property_computes_from_attributes(p: Run) -> None:
    held = Base()

    @p.static
    def function(x: Any) -> Any:
        return x * held.gain

    three(p, function)
    held._gain = 4.0
    three(p, function)


@program(whole=False)
def a_property_is_set(p: Run) -> None:
    held = Base()

    @p.static
    def function(x: Any) -> Any:
        held.gain = 6.0
        return x * held.gain

    p.watch(held)
    three(p, function)


@program(whole=False)
def a_descriptor_of_ones_own(p: Run) -> None:
    held = WithDescriptor()
    held.rate = 2.0

    @p.static
    def function(x: Any) -> Any:
        y = x * held.rate
        held.rate = 3.0
        return y

    p.watch(held)
    three(p, function)


@program(whole=False)
def a_getattr_of_ones_own(p: Run) -> None:
    held = Dynamic()

    @p.static
    def function(x: Any) -> Any:
        return x * held.unknown + held.known

    three(p, function)
    held.known = 2.0
    three(p, function)


@program(whole=False)
def slots_are_read_and_written(p: Run) -> None:
    held = Slotted(2.0)

    @p.static
    def function(x: Any) -> Any:
        held.count += 1
        return x * held.value

    three(p, function)
    p.note((held.count, held.value))
    held.value = 5.0
    three(p, function)
    p.note(held.count)


@program()
def a_class_attribute_is_changed(p: Run) -> None:
    held = Base()

    @p.static
    def function(x: Any) -> Any:
        return x * held.scale + Base.scale

    three(p, function)
    Base.scale = 5.0
    try:
        three(p, function)
        held.scale = 6.0
        three(p, function)
    finally:
        Base.scale = 2.0


@program(whole=False)
def a_class_attribute_is_set_inside(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        Base.scale = Base.scale + 1
        return x * Base.scale

    try:
        three(p, function)
        p.note(Base.scale)
    finally:
        Base.scale = 2.0


@program()
def a_list_of_the_class_is_shared(p: Run) -> None:
    Base.registry.clear()
    held = Base()

    @p.static
    def function(x: Any) -> Any:
        held.registry.append(x.sum())
        return x * len(Base.registry)

    p.watch(Base.registry)
    p.call(function, p.g(2, 3))
    p.call(function, p.g(4, 3))
    p.call(function, p.g(2, 3))
    Base.registry.clear()


@program()
def static_and_class_methods(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        return Base.shifted(x, by=3.0) + Derived.scaled(x) + Derived().shifted(x)

    three(p, function)


@program()
def super_through_three_classes(p: Run) -> None:
    held = Mixed()

    @p.static
    def function(x: Any) -> Any:
        return held.step(x)

    p.watch(held)
    p.call(function, p.g(2, 3))
    p.call(function, p.g(4, 3))
    held.count = 0
    p.call(function, p.g(2, 3))


@program()
def a_method_is_replaced_on_the_instance(p: Run) -> None:
    held = Base()

    @p.static
    def function(x: Any) -> Any:
        return held.shifted(x)

    three(p, function)
    held.shifted = lambda x: x * 11  # type: ignore[method-assign, assignment]
    three(p, function)


@program()
def a_method_is_replaced_on_the_class(p: Run) -> None:
    held = Concrete()

    @p.static
    def function(x: Any) -> Any:
        return held(x)

    three(p, function)
    saved, Concrete.rule = Concrete.rule, lambda self, x: x * 12  # type: ignore[method-assign]
    try:
        three(p, function)
    finally:
        Concrete.rule = saved  # type: ignore[method-assign]


@program()
def the_class_of_an_object_changes(p: Run) -> None:
    held = Base()

    @p.static
    def function(x: Any) -> Any:
        return held.step(x)

    p.watch(held)
    p.call(function, p.g(2, 3))
    held.count = 0
    held.__class__ = Derived
    p.call(function, p.g(2, 3))
    held.count = 0
    p.call(function, p.g(4, 3))


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
def a_partial_outside_and_inside(p: Run) -> None:
    def scaled(x: Any, scale: float, *, bias: float = 0.0) -> Any:
        return x * scale + bias

    twice = functools.partial(scaled, scale=2.0)

    @p.static
    def function(x: Any) -> Any:
        return twice(x, bias=1.0) + functools.partial(scaled, x)(3.0)

    three(p, function)


@program(whole=False)
def a_partial_is_replaced(p: Run) -> None:
    held = {"act": functools.partial(paddle.clip, min=0.0)}

    @p.static
    def function(x: Any) -> Any:
        return held["act"](x)

    three(p, function)
    held["act"] = functools.partial(paddle.clip, min=0.5)
    three(p, function)
    held["act"].keywords["min"] = -0.5
    three(p, function)


@program()
def a_partial_itself_is_compiled(p: Run) -> None:
    def scaled(x: Any, scale: float) -> Any:
        return x * scale

    three(p, p.static(functools.partial(scaled, scale=2.0)))


@program()
def a_partial_method(p: Run) -> None:
    held = Base()

    @p.static
    def function(x: Any) -> Any:
        step = held.step
        return step(x)

    p.watch(held)
    p.call(function, p.g(2, 3))
    held.count = 0
    p.call(function, p.g(2, 3))
    held.count = 0
    p.call(function, p.g(4, 3))


@program()
def callables_in_a_table(p: Run) -> None:
    table = {"relu": paddle.nn.functional.relu, "twice": lambda x: x * 2, "tanh": paddle.tanh}
    names = ["relu", "twice"]

    @p.static
    def function(x: Any) -> Any:
        for name in names:
            x = table[name](x)
        return x

    three(p, function)
    names[1] = "tanh"
    three(p, function)
    table["tanh"] = paddle.exp
    three(p, function)


@program()
def functions_given_as_arguments(p: Run) -> None:
    @p.static
    def function(x: Any, act: Any) -> Any:
        return act(x) + 1

    p.call(function, p.g(2, 3), paddle.tanh)
    p.call(function, p.g(2, 3), paddle.exp)
    p.call(function, p.g(4, 3), paddle.tanh)


@program()
def any_number_of_arguments(p: Run) -> None:
    @p.static
    def function(*args: Any, **kwargs: Any) -> Any:
        total = args[0]
        for value in args[1:]:
            total = total + value
        for name, value in kwargs.items():
            total = total * value if name.startswith("scale") else total - value
        return total

    p.call(function, p.g(2, 3), p.g(3))
    p.call(function, p.g(2, 3), p.g(3), 2.0, scale=3.0)
    p.call(function, p.g(4, 3), shift=p.g(3), scale_b=p.g(3))


@program()
def keyword_only_and_positional_only(p: Run) -> None:
    @p.static
    def function(x: Any, /, y: Any = 1.0, *, scale: Any, flag: bool = False) -> Any:
        return (x + y) * scale if flag else x * scale

    p.call(function, p.g(2, 3), scale=2.0)
    p.call(function, p.g(2, 3), p.g(3), scale=p.g(3), flag=True)
    p.call(function, p.g(4, 3), scale=2, flag=True)


@program()
def wrong_arguments_are_an_error_each_time(p: Run) -> None:
    @p.static
    def function(x: Any, y: Any) -> Any:
        return x + y

    p.call(function, p.g(2, 3))
    p.call(function, p.g(2, 3), p.g(3))
    p.call(function, p.g(2, 3), y=p.g(3), z=1)
    p.call(function, p.g(4, 3), p.g(3))


@program()
def comprehensions_of_every_kind(p: Run) -> None:
    weights = [1.0, 2.0, 3.0]

    @p.static
    def function(x: Any) -> Any:
        parts = [x * w for w in weights if w != 2.0]
        named = {f"p{i}": part + 1 for i, part in enumerate(parts)}
        sizes = {size + 1 for size in x.shape}
        total = sum(p * w for p, w in zip(parts, weights, strict=False))
        return named, len(sizes), total, [[a + b for a in parts] for b in parts][0][1]

    three(p, function)
    weights[0] = 4.0
    three(p, function)


@program()
def nested_functions_and_lambdas(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        scale = 2.0

        def outer(y: Any) -> Any:
            def inner(z: Any) -> Any:
                return z * scale + y

            return inner

        return outer(x)(x + 1) + (lambda a, b=3.0: a * b)(x)

    three(p, function)


@program(whole=False)
def a_nested_function_sets_what_is_around(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        total = x

        def add(value: Any) -> None:
            nonlocal total
            total = total + value

        for i in range(3):
            add(i * 1.0)
        return total

    three(p, function)


@program(whole=False)
def a_closure_is_returned(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        y = x * 2
        return lambda z: z + y

    for rows in (2, 2, 4):
        p.note(p.call(function, p.t(rows, 3))(p.t(rows, 3)))


@program(whole=False)
def a_generator_is_returned(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        return (x * i for i in range(3))

    for rows in (2, 2, 4):
        p.note(list(p.call(function, p.t(rows, 3))))


@program(whole=False)
def a_generator_function_itself(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        for i in range(3):
            yield x * i

    for rows in (2, 2, 4):
        p.note(list(p.call(function, p.t(rows, 3))))


@program()
def recursion_over_numbers_and_nests(p: Run) -> None:
    def power(x: Any, n: int) -> Any:
        return x if n == 1 else x * power(x, n - 1)

    def flat_sum(nest: Any) -> Any:
        return sum(map(flat_sum, nest)) if isinstance(nest, (list, tuple)) else nest.sum()

    @p.static
    def function(x: Any, depth: int) -> Any:
        return power(x, depth) + flat_sum([x, (x, [x * 2])])

    for rows, depth in ((2, 2), (2, 3), (4, 3)):
        p.call(function, p.g(rows, 3), depth)


@program()
def texts_are_formatted(p: Run) -> None:
    @p.static
    def function(x: Any, name: str) -> Any:
        label = f"{name}:{x.ndim:>3}|{tuple(x.shape)!r}" + "%s-%d" % (name, 3) + "{}-{k}".format(1, k=name)  # noqa: UP031, UP032
        return {label.upper(): x * len(label), "joined": ",".join([name, "x"]), "parts": name.split("a")}

    for rows, name in ((2, "bar"), (2, "baz"), (4, "baz")):
        p.call(function, p.g(rows, 3), name)


@program()
def kinds_are_asked_for(p: Run) -> None:
    @p.static
    def function(value: Any) -> Any:
        if isinstance(value, paddle.Tensor):
            return value * 2
        if isinstance(value, (list, tuple)):
            return value[0] * 3
        if isinstance(value, dict) and "x" in value:
            return value["x"] * 4
        return type(value) is Box and value.value * 5

    for value in (p.g(2, 3), [p.g(2, 3)], (p.g(4, 3),), {"x": p.g(2, 3)}, Box(p.g(2, 3)), None):
        p.call(function, value)


@program(whole=False)
def types_that_change_at_one_place(p: Run) -> None:
    held: dict[str, Any] = {"scale": 2}

    @p.static
    def function(x: Any) -> Any:
        scale = held["scale"]
        if scale is None:
            return x
        return x * scale if not isinstance(scale, bool) else x + scale

    for scale in (2, 2.0, True, None, np.float32(2), p.g(3), "no"):
        held["scale"] = scale
        p.call(function, p.t(2, 3))
    held["scale"] = 2
    p.call(function, p.g(4, 3))


@program(whole=False)
def errors_are_raised_and_caught(p: Run) -> None:
    @p.static
    def function(x: Any, kind: int) -> Any:
        try:
            if kind == 1:
                raise ValueError("one")
            if kind == 2:
                return {}["missing"]
            y = x * 2
        except ValueError as error:
            y = x * 3 if str(error) == "one" else x
        except (KeyError, IndexError):
            y = x * 4
        else:
            y = y + 1
        finally:
            x = x + 100
        return y + x

    for rows, kind in ((2, 0), (2, 1), (2, 2), (4, 1)):
        p.call(function, p.g(rows, 3), kind)


@program(whole=False)
def an_error_leaves_what_was_written_before(p: Run) -> None:
    log: list[Any] = []
    held = Base()

    @p.static
    def function(x: Any) -> Any:
        log.append(x.shape[0])
        held.count += 1
        if x.shape[0] == 4:
            raise RuntimeError("four rows")
        return x * held.count

    p.watch(log, held)
    for rows in (2, 4, 2, 4):
        p.call(function, p.g(rows, 3))


@program(whole=False)
def an_error_of_shapes_after_a_write(p: Run) -> None:
    weight = p.t(3)
    log: list[Any] = []

    @p.static
    def function(x: Any, y: Any) -> Any:
        weight.add_(paddle.ones([3]))
        log.append(1)
        return paddle.matmul(x, y) + weight.sum()

    p.watch(weight, log)
    p.call(function, p.t(2, 3), p.t(3, 2))
    p.call(function, p.t(2, 3), p.t(2, 2))
    p.call(function, p.t(4, 3), p.t(3, 2))


@program(whole=False)
def asserts_of_numbers_pass_and_fail(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        assert x.shape[0] == 2, f"expected two rows but got {x.shape[0]}"
        return x * 2

    three(p, function)
    three(p, function)


@program()
def the_walrus_and_chained_comparisons(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        if (n := x.shape[0]) > 1 and 0 < n < 3 <= x.shape[1]:
            return x * n
        return x - n

    three(p, function)


@program()
def match_over_structures(p: Run) -> None:
    @p.static
    def function(x: Any, how: Any) -> Any:
        first, *rest = how
        while rest:
            first, *rest = rest
            x = x * first
        return x

    for rows, how in ((2, (1, 2, 3)), (2, (1, 2)), (4, (1, 2, 3))):
        p.call(function, p.g(rows, 3), how)


@program(whole=False)
def a_match_statement(p: Run) -> None:
    @p.static
    def function(x: Any, how: Any) -> Any:
        match how:
            case {"scale": scale}:
                return x * scale
            case [a, b]:
                return x * a + b
            case Pair(left=left):
                return x * left
            case str():
                return x + 1
            case _:
                return x

    for how in ({"scale": 2.0}, [1.0, 2.0], "text", Pair(3.0), None):
        p.call(function, p.g(2, 3), how)
    p.call(function, p.g(4, 3), "text")


@program()
def functools_and_itertools(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        parts = functools.reduce(lambda a, b: a + b, [x, x * 2, x * 3])
        for a, b in itertools.product([1.0, 2.0], repeat=2):
            parts = parts * a + b
        for i, (c, d) in enumerate(itertools.chain([(1, 2)], [(3, 4)])):
            parts = parts + i * c - d
        return operator.mul(parts, 2.0), list(map(lambda v: v + x, [1.0, 2.0]))  # noqa: C417

    three(p, function)


@program(whole=False)
def getters_of_the_operator_module(p: Run) -> None:
    getter = operator.itemgetter("a")
    method = operator.methodcaller("sum", axis=0)

    @p.static
    def function(x: Any) -> Any:
        return getter({"a": x * 2}) + method(x) + operator.attrgetter("T")(x).sum()

    three(p, function)


@program()
def nested_containers_of_tensors(p: Run) -> None:
    @p.static
    def function(batch: Any) -> Any:
        (a, b), rest = batch["pair"], batch["rest"]
        return [{"sum": a + b, "rest": tuple(r * 2 for r in rest)}, (a, [b])]

    for rows in (2, 2, 4):
        p.call(function, {"pair": (p.g(rows, 3), p.t(rows, 3)), "rest": [p.g(2), p.t(1)]})
    p.call(function, {"rest": [], "pair": [p.g(2, 3), p.t(2, 3)]})


@program()
def containers_given_are_changed(p: Run) -> None:
    @p.static
    def function(batch: Any, more: Any) -> Any:
        batch["y"] = batch.pop("x") * 2
        more.append(batch["y"])
        more[0] = more[0] + 1
        return batch

    for rows in (2, 2, 4):
        p.call(function, {"x": p.g(rows, 3)}, [p.g(3)])


@program(whole=False)
def a_set_and_a_deque_are_given_and_returned(p: Run) -> None:
    @p.static
    def function(x: Any, names: Any, queue: Any) -> Any:
        queue.append(x * 2)
        names.add("new")
        return names, queue, collections.OrderedDict(a=x)

    for rows in (2, 2, 4):
        p.call(function, p.g(rows, 3), {"a"}, collections.deque([p.t(2)], maxlen=2))


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


@program()
def one_list_in_two_places_of_the_result(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        inner = [x * 2]
        return {"a": inner, "b": inner, "c": inner[0]}

    three(p, function)


@program(whole=False)
def bounded_deques_and_default_dicts_are_returned(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        last: Any = collections.deque([x, x * 2, x * 3], maxlen=2)
        found: Any = collections.defaultdict(list)
        found["a"].append(x)
        return last, found

    for rows in (2, 2, 4):
        last, found = p.call(function, p.g(rows, 3))
        last.append(1)
        p.note((len(last), last.maxlen, found["missing"]))


@program()
def a_method_of_a_plain_object_is_compiled(p: Run) -> None:
    held = Derived()
    step = p.static(held.step)
    p.watch(held)
    for rows in (2, 2, 4):
        held.count = 0
        p.call(step, p.g(rows, 3))


@program()
def a_callable_object_is_compiled(p: Run) -> None:
    held = Concrete()
    three(p, p.static(held))


@program(whole=False)
def equal_tensors_as_keys_and_members(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        y = x * 2
        held = {id(y): 1}
        return y * held[id(y)], any(y is v for v in [x, y])

    three(p, function)
