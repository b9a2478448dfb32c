"""Programs of Python's objects: attributes, properties, descriptors, methods, classes and what they inherit."""

from __future__ import annotations

import abc
from types import SimpleNamespace
from typing import Any

from tests.frontend.capture_programs.driver import Run, program, three


class Slotted:
    __slots__ = ("count", "value")

    def __init__(self, value: Any):
        self.value = value
        self.count = 0


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


class Counting:
    """Compares itself by a number that every comparison raises."""

    def __init__(self) -> None:
        self.asked = 0

    def __eq__(self, other: Any) -> bool:
        self.asked += 1
        return self.asked % 3 == 0

    def __lt__(self, other: Any) -> bool:
        self.asked += 1
        return self.asked % 2 == 0

    __hash__ = None  # type: ignore[assignment]


@program(whole=False)
def elements_of_containers_compare_themselves(p: Run) -> None:
    one = Counting()
    p.watch(one)
    functions: list[Any] = [
        lambda x: x * ([one] == [3]),
        lambda x: x * ((1, one) != (1, 3)),
        lambda x: x * ({"a": one} == {"a": 3}),
        lambda x: x * (3 in [one]),
        lambda x: x * ([3] in [[one]]),
        lambda x: x * [one, 1].count(3),
        lambda x: x * (one, 1).count(3),
        lambda x: x * len(sorted([[one], [one]])),
        lambda x: x * ([one] < [one, 2]),
    ]
    for function in functions:
        static = p.static(function)
        for _ in range(4):
            p.call(static, p.t(2))


class Ending:
    """Counts how many of its kind are gone."""

    gone = 0

    def __del__(self) -> None:
        Ending.gone += 1


@program(whole=False)
def an_object_that_is_gone_says_so(p: Run) -> None:
    Ending.gone = 0

    @p.static
    def function(x: Any) -> Any:
        made = Ending()
        del made
        return x * Ending.gone

    for _ in range(4):
        p.call(function, p.t(2))


@program(whole=False)
def compiled_methods_of_instances_of_every_kind(p: Run) -> None:
    class Alike:
        def __init__(self, scale: float) -> None:
            self.scale = scale

        def __eq__(self, other: Any) -> bool:
            return isinstance(other, Alike)

        def __hash__(self) -> int:
            return 1

        @p.static
        def scaled(self, x: Any) -> Any:
            return x * self.scale

    class Unhashable(Alike):
        __hash__ = None  # type: ignore[assignment]

    class Small:
        __slots__ = ("scale",)

        def __init__(self, scale: float) -> None:
            self.scale = scale

        @p.static
        def scaled(self, x: Any) -> Any:
            return x * self.scale

    class Single(tuple[float]):
        @p.static
        def scaled(self, x: Any) -> Any:
            return x * self[0]

    held = [Alike(2.0), Alike(3.0), Unhashable(4.0), Unhashable(5.0), Small(6.0), Small(7.0), Single([8.0]), Single([9.0])]
    for one in held:
        for rows in (2, 2, 3):
            p.call(one.scaled, p.g(rows, 3))

    @p.static
    def function(x: Any) -> Any:
        return held[0].scaled(x) + held[1].scaled(x)

    p.call(function, p.g(2))
    p.call(function, p.g(2))
