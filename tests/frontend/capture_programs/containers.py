"""Programs of lists, dicts, sets, deques and iterators: outside, given, and returned."""

from __future__ import annotations

import collections
import functools
import itertools
import math
import operator
import os
from types import SimpleNamespace
from typing import Any

import polyreme as paddle
from tests.frontend.capture_programs.driver import Run, program, three
from tests.frontend.capture_programs.kinds import Level, Mode, Pair


class Key:
    """A key whose printed form is no text to run."""

    def __init__(self, number: int):
        self.number = number

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Key) and other.number == self.number

    def __repr__(self) -> str:
        return "__import__('os').environ.update(RUN='1')"


class Text(str):
    __slots__ = ()
    __repr__ = Key.__repr__


KEYS = (math.inf, Pair(1, 2), Level.HIGH, Mode.ADD, Key(1), Text("key"), True, b"key", None, (1, "a"), -1, 0.5, "it's")


@program(whole=False)
def keys_of_every_kind(p: Run) -> None:
    tables = [{key: float(i + 1)} for i, key in enumerate(KEYS)]
    held = SimpleNamespace()
    name = Text("name")

    def function(x: Any, given: Any, key: Any) -> Any:
        return [x * given[key]] + [x * table[k] for table, k in zip(tables, KEYS, strict=True)] + [x * getattr(held, name)]

    one, given = p.static(function), tables[1]
    for change in (0.0, 1.0, 0.0):
        given[KEYS[1]] += change
        setattr(held, name, 1.0 + change)
        p.call(one, p.g(2, 3), given, KEYS[1])
    p.note(os.environ.get("RUN"))


@program(whole=False)
def one_table_with_keys_of_a_kind(p: Run) -> None:
    """Alone, each of these is read and checked by its key, where its printed form would be no text to run."""
    for key in KEYS:
        table = {key: 2.0}
        one = p.static(functools.partial(lambda table, key, x: x * table[key], table, key))
        for value in (2.0, 3.0, 2.0):
            table[key] = value
            p.call(one, p.g(2, 3))
    p.note(os.environ.get("RUN"))


@program(whole=False)
def a_list_is_appended_and_popped(p: Run) -> None:
    held = [1.0, 2.0]

    @p.static
    def function(x: Any) -> Any:
        held.append(3.0)
        first = held.pop(0)
        return x * first + sum(held)

    p.watch(held)
    for rows in (2, 2, 4, 2):
        p.call(function, p.g(rows, 3))


@program()
def a_list_of_tensors_is_read_and_its_elements_replaced(p: Run) -> None:
    held = [p.g(3), p.g(3)]

    @p.static
    def function(x: Any) -> Any:
        for weight in held:
            x = x * weight
        return x

    p.watch(held)
    three(p, function)
    held[1] = p.g(3)
    three(p, function)
    held.append(p.t(3))
    p.call(function, p.g(2, 3))


@program()
def a_list_element_is_replaced_by_the_result(p: Run) -> None:
    held = [paddle.zeros([3]), paddle.ones([3])]

    @p.static
    def function(x: Any) -> Any:
        held[0] = held[0] + x.detach().sum(0)
        return x + held[0] * held[1]

    p.watch(held)
    three(p, function)


@program()
def a_dict_gains_and_loses_keys(p: Run) -> None:
    cache: dict[str, Any] = {"first": 1}

    @p.static
    def function(x: Any) -> Any:
        if "y" not in cache:
            cache["y"] = x.sum()
        cache.pop("first", None)
        return x + cache["y"]

    p.watch(cache)
    three(p, function)


@program()
def a_dict_counts_calls(p: Run) -> None:
    counts = {"calls": 0}

    @p.static
    def function(x: Any) -> Any:
        counts["calls"] += 1
        return x * 2

    p.watch(counts)
    p.call(function, p.g(2, 3))
    p.call(function, p.g(2, 3))
    p.call(function, p.g(4, 3))
    p.note(counts["calls"])


@program(whole=False)
def a_dict_counts_many_calls(p: Run) -> None:
    counts = {"calls": 0}

    @p.static
    def function(x: Any) -> Any:
        counts["calls"] += 1
        return x * counts["calls"]

    p.watch(counts)
    for i in range(7):
        p.call(function, p.g(2 + i % 2, 3))


@program(whole=False)
def a_defaultdict_collects_shapes(p: Run) -> None:
    seen: Any = collections.defaultdict(list)

    @p.static
    def function(x: Any) -> Any:
        seen[x.shape[0]].append(x.ndim)
        return x + len(seen)

    p.watch(seen)
    three(p, function)


@program(whole=False)
def a_counter_counts_names(p: Run) -> None:
    counted: Any = collections.Counter()

    @p.static
    def function(x: Any) -> Any:
        counted["calls"] += 1
        counted.update(["a", "b"])
        return x * 2

    p.watch(counted)
    three(p, function)


@program()
def a_set_remembers_names(p: Run) -> None:
    seen: set[str] = set()

    @p.static
    def function(x: Any, name: str) -> Any:
        new = name not in seen
        seen.add(name)
        return x * 2 if new else x * 3

    p.watch(seen)
    for rows, name in ((2, "a"), (2, "a"), (4, "a"), (2, "b"), (2, "b")):
        p.call(function, p.g(rows, 3), name)


@program(whole=False)
def a_deque_with_a_bound_drops_the_oldest(p: Run) -> None:
    history: Any = collections.deque([0.0, 0.0], maxlen=2)

    @p.static
    def function(x: Any) -> Any:
        history.append(x.mean())
        return x - history[0]

    p.watch(history)
    for rows in (2, 2, 4, 2):
        p.call(function, p.t(rows, 3))


@program(whole=False)
def a_bounded_deque_is_made_inside(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        last: Any = collections.deque(maxlen=2)
        for i in range(4):
            last.append(x * i)
        return list(last)

    three(p, function)


@program()
def a_list_is_sorted_and_reversed(p: Run) -> None:
    held = [3.0, 1.0, 2.0]

    @p.static
    def function(x: Any) -> Any:
        held.sort()
        held.reverse()
        return x * held[0] - held[-1]

    p.watch(held)
    three(p, function)
    held.append(7.0)
    three(p, function)


@program()
def a_slice_of_a_list_is_replaced(p: Run) -> None:
    held = [1.0, 2.0, 3.0]

    @p.static
    def function(x: Any) -> Any:
        held[1:] = [5.0]
        del held[0]
        held.insert(0, 4.0)
        return x * held[0] + held[1]

    p.watch(held)
    three(p, function)


@program()
def a_list_grows_by_an_operator(p: Run) -> None:
    held = [1.0]

    @p.static
    def function(x: Any) -> Any:
        more = held
        more += [2.0]
        return x * len(more)

    p.watch(held)
    p.call(function, p.g(2, 3))
    p.call(function, p.g(2, 3))
    p.call(function, p.g(4, 3))


@program()
def a_dict_is_updated_with_tensors(p: Run) -> None:
    state: dict[str, Any] = {}

    @p.static
    def function(x: Any) -> Any:
        state.update(mean=x.mean(), x=x)
        return state.get("mean") * 2

    p.watch(state)
    three(p, function)


@program()
def setdefault_keeps_what_was_there(p: Run) -> None:
    state: dict[str, Any] = {}

    @p.static
    def function(x: Any) -> Any:
        first = state.setdefault("first", x.detach() * 1)
        return x.sum() + first.sum()

    p.watch(state)
    three(p, function)


@program(whole=False)
def an_iterator_outside_goes_on(p: Run) -> None:
    numbers = iter([1.0, 2.0, 3.0, 4.0, 5.0])

    @p.static
    def function(x: Any) -> Any:
        return x * next(numbers)

    three(p, function)


@program(whole=False)
def a_generator_outside_goes_on(p: Run) -> None:
    def endless() -> Any:
        n = 0.0
        while True:
            n += 1
            yield n

    numbers = endless()

    @p.static
    def function(x: Any) -> Any:
        return x * next(numbers)

    three(p, function)


@program()
def the_same_object_in_two_places(p: Run) -> None:
    shared = [1.0]
    both = {"a": shared, "b": shared}

    @p.static
    def function(x: Any) -> Any:
        both["a"].append(2.0)
        return x * len(both["b"])

    p.watch(both)
    three(p, function)
    both["b"] = [5.0]
    three(p, function)


@program()
def nested_lists_are_compared(p: Run) -> None:
    held: dict[str, Any] = {"spec": [[1, 2], [3]], "pair": (1, [2]), "deep": {"a": {"b": 1}}}

    @p.static
    def function(x: Any) -> Any:
        y = x * 2 if held["spec"] == [[1, 2], [3]] else x * 3
        y = y + 1 if [3] in held["spec"] else y
        y = y * 5 if held["pair"] == (1, [2]) else y
        y = y * 7 if max(held["spec"]) == [3] else y
        return y - 3 if held["deep"] == {"a": {"b": 1}} else y

    three(p, function)
    held["spec"][0][0] = 9
    p.call(function, p.t(2, 3))
    held["spec"][1][0] = 4
    p.call(function, p.t(2, 3))
    held["pair"][1].append(1)
    p.call(function, p.t(2, 3))
    held["deep"]["a"]["b"] = 2
    p.call(function, p.t(2, 3))


@program()
def built_in_functions_over_containers_outside(p: Run) -> None:
    held: dict[str, Any] = {"list": [3.0, 1.0], "names": ["b", "a"], "flags": [True, True], "dict": {"k": 2.0}}

    @p.static
    def function(x: Any) -> Any:
        y = x * max(held["list"]) + sum(held["dict"].values()) + len(",".join(sorted(held["names"])))
        y = y * 2 if all(held["flags"]) else y
        return (
            y + dict(held["dict"])["k"] + tuple(held["list"])[1],
            list(zip(held["names"], held["list"], strict=False)),
            "k" in held["dict"],
        )

    three(p, function)
    held["list"][1] = 7.0
    p.call(function, p.t(2, 3))
    held["names"].append("c")
    p.call(function, p.t(2, 3))
    held["flags"][0] = False
    p.call(function, p.t(2, 3))
    held["dict"]["k"] = 4.0
    p.call(function, p.t(2, 3))


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


@program(whole=False)
def equal_tensors_as_keys_and_members(p: Run) -> None:
    @p.static
    def function(x: Any) -> Any:
        y = x * 2
        held = {id(y): 1}
        return y * held[id(y)], any(y is v for v in [x, y])

    three(p, function)


@program(whole=False)
def equal_members_of_other_kinds(p: Run) -> None:
    held = SimpleNamespace(members=None)

    def function(x: Any, given: Any) -> Any:
        return [x * (m[0] if isinstance(m, tuple) else m) for m in [*held.members, *given]]

    kinds: list[list[Any]] = [
        [{1}, {1.0}, {True}, {1}],
        [{0, 8}, {8, 0}, {0, 8}],
        [{1: 2}, {1.0: 2}, {True: 2}],
        [{(1, 2): 3}, {(1.0, 2): 3}, {(True, 2): 3}],
        [{0.0: 1, 2: 1}, {-0.0: 1, 2: 1}, {2: 1, 0.0: 1}],
        [frozenset([1]), frozenset([1.0]), frozenset([True])],
    ]
    for members in kinds:
        one = p.static(function)
        for held.members in members:
            p.call(one, p.t(2, dtype="int32"), members[0])
        for given in members:
            p.call(one, p.t(2, dtype="int32"), given)


@program(whole=False)
def iterators_outside_go_on_at_calls_of_one_kind(p: Run) -> None:
    numbers = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]

    def taken(made: Any) -> None:
        held = SimpleNamespace(one=made(), others=[made()])
        one, two = made(), made()

        def by_next(x: Any) -> Any:
            return x * next(one) + next(held.one)

        def by_a_loop(x: Any) -> Any:
            for number in held.others[0]:
                x = x * number
                if number % 2 == 0:
                    break
            return x

        def by_a_built_in(x: Any) -> Any:
            return x * sum(a * b for a, b in zip(two, [1.0, 2.0], strict=False))

        for function in (by_next, by_a_loop, by_a_built_in):
            static = p.static(function)
            for _ in range(3):
                p.call(static, p.t(2))

    for made in (
        lambda: iter(numbers),
        lambda: itertools.count(1.0),
        lambda: (n for n in numbers),
        lambda: map(abs, numbers),
        lambda: reversed(numbers),
        lambda: itertools.chain(numbers),
    ):
        taken(made)


@program(whole=False)
def views_of_a_dict_that_were_there_before(p: Run) -> None:
    table = {1: 2.0}
    keys, values, items = table.keys(), table.values(), table.items()

    def summed(x: Any) -> Any:
        return x * sum(values)

    def counted(x: Any) -> Any:
        return x * len(keys), (3 in keys)

    def gone_through(x: Any) -> Any:
        return [x * value for _, value in items]

    for function in (summed, counted, gone_through):
        static = p.static(function)
        for _ in range(3):
            p.call(static, p.t(2))
            table[len(table) + 1] = 3.0


@program(whole=False)
def functions_of_the_module_operator_write(p: Run) -> None:
    table: dict[int, int] = {}
    numbers = [1, 2]
    queue = collections.deque([1])
    p.watch(table, numbers, queue)

    def set_item(x: Any) -> Any:
        operator.setitem(table, len(table), 1)
        return x * len(table)

    def add_in_place(x: Any) -> Any:
        operator.iadd(numbers, [3])
        operator.iadd(queue, [3])
        return x * len(numbers)

    def delete_item(x: Any) -> Any:
        operator.delitem(numbers, 0)
        return x * numbers[0]

    for function in (set_item, add_in_place, delete_item):
        static = p.static(function)
        for _ in range(3):
            p.call(static, p.t(2))


@program()
def parts_of_one_result_are_kept_as_well(p: Run) -> None:
    kept = SimpleNamespace(pair=None, inner=None, log=[])

    def in_a_pair(x: Any) -> Any:
        made = [x * 2]
        kept.pair = (made, made)
        return {"made": made}

    def the_inner_one(x: Any) -> Any:
        made = [[x * 2]]
        kept.inner = made[0]
        kept.log.append(made)
        return made

    for function in (in_a_pair, the_inner_one):
        static = p.static(function)
        for _ in range(3):
            p.call(static, p.t(2))
            p.note(kept)
        p.note([kept.pair, kept.log, kept.inner])
    result = p.call(p.static(in_a_pair), p.t(2))
    p.note([kept.pair[0] is result["made"], kept.pair[1] is result["made"]])
    result = p.call(p.static(the_inner_one), p.t(2))
    p.note([kept.inner is result[0], kept.log[-1] is result])


@program()
def a_slice_is_set_by_a_list_that_grows(p: Run) -> None:
    outside = [1.0, 2.0, 3.0]

    @p.static
    def function(x: Any) -> Any:
        made = [5.0]
        outside[0:1] = made
        made.append(9.0)
        return x * sum(outside)

    p.watch(outside)
    for _ in range(3):
        p.call(function, p.g(2))
        outside[0] = 1.0
