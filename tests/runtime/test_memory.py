"""The memory plan: buffers that live together never overlap, and little is wasted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyreme.lowering.schedule.memory_plan import ALIGNMENT, Lifetime, most_live, plan_arena, plan_offsets, plan_slots

lifetimes = st.builds(
    lambda first, length, size: Lifetime(first, first + length, size),
    st.integers(0, 30),
    st.integers(0, 12),
    st.one_of(st.integers(0, 5000), st.just(0)),
)


def live_together(a: Lifetime, b: Lifetime) -> bool:
    return a.first <= b.last and b.first <= a.last


def assert_disjoint(buffers: list[Lifetime], offsets: list[int]) -> None:
    for i, a in enumerate(buffers):
        for j, b in enumerate(buffers[:i]):
            if live_together(a, b):
                assert offsets[i] + a.bytes <= offsets[j] or offsets[j] + b.bytes <= offsets[i], f"{a} and {b} overlap"


@given(st.lists(lifetimes, max_size=40))
def test_buffers_that_live_together_do_not_overlap(buffers: list[Lifetime]) -> None:
    offsets, total = plan_offsets(buffers)
    assert_disjoint(buffers, offsets)
    assert all(offset % ALIGNMENT == 0 and 0 <= offset and offset + b.bytes <= total for offset, b in zip(offsets, buffers, strict=True))


@given(st.lists(lifetimes, max_size=40))
def test_the_total_is_near_the_most_bytes_live_at_once(buffers: list[Lifetime]) -> None:
    _, total = plan_offsets(buffers)
    assert most_live(buffers) <= total <= most_live(buffers) * 1.5


@given(st.lists(st.integers(1, 100_000), min_size=1, max_size=60))
def test_a_chain_of_layers_takes_no_more_than_its_two_largest_neighbours(sizes: list[int]) -> None:
    buffers = [Lifetime(i, i + 1, size) for i, size in enumerate(sizes)]
    _, total = plan_offsets(buffers)
    assert total == most_live(buffers)


@given(st.lists(lifetimes, max_size=25))
def test_the_plan_depends_on_its_arguments_alone(buffers: list[Lifetime]) -> None:
    assert plan_offsets(buffers) == plan_offsets(list(buffers))


@given(
    st.lists(
        st.builds(lambda x, unit: Lifetime(x.first, x.last, x.bytes, unit), lifetimes, st.sampled_from([None, "N", "N*M"])), max_size=30
    ),
    st.integers(0, 9),
)
def test_symbolic_buffers_do_not_overlap_for_any_value_of_their_unit(buffers: list[Lifetime], n: int) -> None:
    values = {None: 1, "N": n, "N*M": n * 7}
    plan = plan_arena(buffers)
    bases, end = {}, 0
    for unit, size in plan.regions.items():
        bases[unit] = end
        end += size * values[unit]
    offsets = [bases[b.unit] + offset * values[b.unit] for b, offset in zip(buffers, plan.offsets, strict=True)]
    assert_disjoint([Lifetime(b.first, b.last, b.bytes * values[b.unit]) for b in buffers], offsets)
    assert all(offset % ALIGNMENT == 0 for offset in offsets)


def test_buffers_that_never_meet_share_bytes() -> None:
    offsets, total = plan_offsets([Lifetime(0, 1, 1000), Lifetime(2, 3, 1000), Lifetime(4, 4, 64)])
    assert offsets == [0, 0, 0]
    assert total == 1024


def test_no_buffers_need_no_memory() -> None:
    assert plan_offsets([]) == ([], 0)
    assert plan_arena([]).regions == {None: 0}


def test_a_lifetime_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(ValueError, match="expected first <= last"):
        Lifetime(3, 2, 10)


@given(st.lists(lifetimes, max_size=40))
def test_a_slot_holds_one_buffer_at_a_time(buffers: list[Lifetime]) -> None:
    slots = plan_slots(buffers)
    assert len(slots) == len(buffers)
    assert set(slots) == set(range(len(set(slots))))
    assert not any(slots[i] == slots[j] and live_together(a, buffers[j]) for i, a in enumerate(buffers) for j in range(i))
