"""Programs in which classes, methods, objects and modes are others at a later call than they were when it was captured."""

from __future__ import annotations

import enum
import types
from typing import Any, NamedTuple

import numpy as np

import polyreme as paddle
from polyreme import nn
from polyreme.nn import functional as F
from tests.frontend.capture_programs.driver import Run, program

FACTOR = 2.0


@program()
def a_class_between_gets_a_value_of_its_own(p: Run) -> None:
    class Base(nn.Layer):
        scale = 2.0

        def forward(self, x: Any) -> Any:
            return x * self.scale

    class Sub(Base):
        pass

    net = p.static(Sub())
    p.call(net, p.g(3))
    Sub.scale = 5.0
    p.call(net, p.g(3))
    del Sub.scale
    p.call(net, p.g(3))


@program()
def what_super_finds_changes(p: Run) -> None:
    class Base:
        bias = 2.0
        names = ["a"]
        own: Any = 3.0

        @property
        def scale(self) -> Any:
            return self.own * 2

        @classmethod
        def shifted(cls, x: Any) -> Any:
            return x + cls.bias

        @staticmethod
        def halved(x: Any) -> Any:
            return x / 2

        def __getitem__(self, key: Any) -> Any:
            return key

    class Sub(Base):
        @property
        def scale(self) -> Any:
            return super().scale + 1

        @classmethod
        def shifted(cls, x: Any) -> Any:
            return super().shifted(x) * 2

        def together(self, x: Any) -> Any:
            return super().halved(x) * super().bias * len(super().names) + super().__getitem__(4)

    held = Sub()

    @p.static
    def function(x: Any) -> Any:
        return x * held.scale, held.shifted(x), held.together(x)

    p.call(function, p.g(3))
    for name, value in (
        ("bias", 5.0),
        ("own", 7.0),
        ("scale", property(lambda self: 9.0)),
        ("shifted", classmethod(lambda cls, x: x * 70)),
        ("halved", staticmethod(lambda x: x * 50)),
    ):
        setattr(Base, name, value)
        p.call(function, p.g(3))
    Base.names.append("b")
    p.call(function, p.g(3))


@program()
def a_class_method_is_replaced(p: Run) -> None:
    class Held:
        @classmethod
        def make(cls, x: Any) -> Any:
            return x * 2

    @p.static
    def function(x: Any) -> Any:
        return Held.make(x)

    p.call(function, p.g(3))
    Held.make = classmethod(lambda cls, x: x * 5)  # type: ignore[method-assign,assignment]
    p.call(function, p.g(3))
    Held.make = staticmethod(lambda x: x * 7)  # type: ignore[method-assign,assignment]
    p.call(function, p.g(3))


class Pair(NamedTuple):
    first: Any
    second: Any = 1.0

    @property
    def scaled(self) -> Any:
        return self.first * FACTOR

    def plus(self, more: Any = 1) -> Any:
        return self.first + FACTOR * more


@program()
def a_named_tuple_with_properties(p: Run) -> None:
    global FACTOR
    held = {"pair": Pair(3.0)}

    @p.static
    def function(x: Any, pair: Any) -> Any:
        made = Pair(x, pair)
        return x * held["pair"].scaled, pair.plus(2), made.scaled, made._replace(second=x), pair._asdict()

    for FACTOR in (2.0, 5.0):  # noqa: B007
        p.call(function, p.g(3), held["pair"])
    before = Pair.plus
    Pair.plus = lambda self, more=1: self.first * 100  # type: ignore[method-assign,assignment]
    p.call(function, p.g(3), held["pair"])
    Pair.plus = before  # type: ignore[method-assign]
    FACTOR = 2.0


@program()
def a_number_of_ones_own_with_properties(p: Run) -> None:
    factors = {"scale": 2.0}

    class Count(int):
        bias = 1.0

        @property
        def scaled(self) -> Any:
            return self * factors["scale"]

    class Kind(str, enum.Enum):  # noqa: UP042
        FIRST = "first"

        @property
        def scale(self) -> Any:
            return factors["scale"]

    count = Count(3)

    @p.static
    def function(x: Any, kind: Any) -> Any:
        return x * count.scaled + count.bias * kind.scale, kind.name, kind.value

    p.call(function, p.g(3), Kind.FIRST)
    factors["scale"] = 4.0
    p.call(function, p.g(3), Kind.FIRST)
    Count.bias = 7.0
    p.call(function, p.g(3), Kind.FIRST)


@program()
def members_of_an_enumeration_tell_their_values(p: Run) -> None:
    class Mode(enum.Enum):
        FIRST = 1.5
        SECOND = 2.5

    class Odd(enum.Enum):
        ONLY = 1

        @property
        def value(self) -> Any:
            return 3.0

    held = {"mode": Mode.FIRST}

    @p.static
    def function(x: Any, mode: Any) -> Any:
        return x * held["mode"].value, mode.name, x * Odd.ONLY.value

    for mode in (Mode.FIRST, Mode.SECOND, Mode.FIRST):
        p.call(function, p.g(3), mode)
    held["mode"] = Mode.SECOND
    p.call(function, p.g(3), Mode.FIRST)


@program()
def zeros_change_their_sign(p: Run) -> None:
    held: dict[str, Any] = {"scale": np.float32(0.0), "turn": complex(0.0, 0.0)}

    @p.static
    def function(x: Any) -> Any:
        return (x * float(held["scale"])).atan2(x * 0 - 1), (x * 0 + held["turn"].imag).atan2(x * 0 - 1)

    p.call(function, p.t(3).abs())
    held["scale"] = np.float32(-0.0)
    p.call(function, p.t(3).abs())
    held["turn"] = complex(0.0, -0.0)
    p.call(function, p.t(3).abs())


@program()
def ranges_that_are_equal_are_replaced(p: Run) -> None:
    held: dict[str, Any] = {"range": range(1, 1), "slice": slice(0, 1)}

    @p.static
    def function(x: Any) -> Any:
        return x * held["range"].start, x[held["slice"]], type(held["slice"].stop).__name__

    p.call(function, p.g(3))
    held["range"] = range(5, 5)
    p.call(function, p.g(3))
    held["slice"] = slice(0, True)
    p.call(function, p.g(3))


@program()
def two_objects_become_one(p: Run) -> None:
    class Counter(nn.Layer):
        def __init__(self, value: float):
            super().__init__()
            self.value = value

        def forward(self, x: Any) -> Any:
            return x * self.value

    def an_object(value: float) -> Any:
        return types.SimpleNamespace(value=value)

    net, plain = nn.Layer(), types.SimpleNamespace(a=an_object(1.0), b=an_object(2.0), c={"k": 1.0}, d={"k": 2.0}, e=[], f=[1.0])
    net.a, net.b = Counter(1.0), Counter(2.0)

    @p.static
    def of_objects(x: Any) -> Any:
        plain.a.value = 5.0
        return x * plain.b.value

    @p.static
    def of_dicts(x: Any) -> Any:
        plain.c["k"] = 5.0
        return x * plain.d["k"]

    @p.static
    def of_lists(x: Any) -> Any:
        plain.e.append(3.0)
        return x * sum(plain.f)

    @p.static
    def of_layers(x: Any) -> Any:
        net.a.value = 5.0
        return net.b(x)

    def all_of_them() -> None:
        for function in (of_objects, of_dicts, of_lists, of_layers):
            p.call(function, p.g(3))

    p.watch(net, plain)
    all_of_them()
    all_of_them()
    plain.b, plain.d, plain.e, net.b = plain.a, plain.c, plain.f, net.a
    plain.b.value = plain.d["k"] = net.b.value = 2.0
    plain.f[:] = [1.0]
    all_of_them()


@program()
def an_argument_becomes_an_attribute(p: Run) -> None:
    held, given = types.SimpleNamespace(inner=types.SimpleNamespace(value=2.0)), types.SimpleNamespace(value=2.0)

    @p.static
    def function(x: Any, changed: Any) -> Any:
        changed.value = 7.0
        return x * held.inner.value

    p.watch(held)
    p.call(function, p.g(3), given)
    held.inner, given.value = given, 2.0
    p.call(function, p.g(3), given)
    p.call(function, p.g(3), held.inner)


@program()
def a_function_of_the_framework_is_replaced(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        return F.relu(x)

    p.call(function, p.g(3))
    before = F.relu
    try:
        F.relu = lambda x: x * 100  # type: ignore[assignment]
        p.call(function, p.g(3))
    finally:
        F.relu = before
    p.call(function, p.g(3))


@program()
def a_forward_of_the_framework_is_replaced(p: Run) -> None:
    factors = {"scale": 2.0}
    net = p.static(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
    before = nn.ReLU.forward
    p.call(net, p.g(2, 3))
    try:
        nn.ReLU.forward = lambda self, x: x * factors["scale"]  # type: ignore[method-assign,assignment]
        p.call(net, p.g(2, 3))
        factors["scale"] = 9.0
        p.call(net, p.g(2, 3))
    finally:
        nn.ReLU.forward = before  # type: ignore[method-assign]
    p.call(net, p.g(2, 3))


@program(whole=False)
def modes_are_another_when_the_call_has_ended(p: Run) -> None:
    @p.static
    def stops(x: Any) -> Any:
        paddle.set_grad_enabled(False)
        return x * 2

    @p.static
    def widens(x: Any) -> Any:
        paddle.set_default_dtype("float64")
        return x.astype("float64") + paddle.ones([3])

    for _ in range(3):
        p.call(stops, p.g(3))
        p.note(paddle.is_grad_enabled())
        paddle.set_grad_enabled(True)
        p.call(widens, p.g(3))
        p.note(paddle.get_default_dtype())
        paddle.set_default_dtype("float32")


@program()
def modes_are_switched_and_back(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        paddle.set_grad_enabled(False)
        y = x * 2
        paddle.set_grad_enabled(True)
        paddle.set_default_dtype("float64")
        wide = paddle.ones([3])
        paddle.set_default_dtype("float32")
        return x * y, wide

    for _ in range(3):
        p.call(function, p.g(3))
        p.note((paddle.is_grad_enabled(), paddle.get_default_dtype()))
