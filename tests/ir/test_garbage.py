"""When Python looks for garbage: each in a process of its own, which has no objects of other tests."""

from __future__ import annotations

import subprocess
import sys


def told(program: str) -> list[str]:
    start = "import gc, os\nfrom polyreme.ir.python import garbage\n"
    return subprocess.run([sys.executable, "-c", start + program], capture_output=True, text=True, check=True).stdout.split()


def test_what_was_made_without_searches_is_young_afterwards_or_old() -> None:
    program = """
for soon in (True, False):
    with garbage.without_collections(soon):
        made = [[] for _ in range(5000)]
        print(len(gc.get_objects(0)) >= 5000)
    print(len(gc.get_objects(0)) + len(gc.get_objects(1)) >= 5000, gc.isenabled())
"""
    assert told(program) == ["True", "True", "True", "True", "False", "True"]


def test_a_process_for_some_work_looks_at_nothing_that_it_was_given() -> None:
    program = """
gc.disable()
made = [[] for _ in range(5000)]
garbage.leave_garbage()
print(gc.isenabled(), gc.get_freeze_count() >= 5000, len(gc.get_objects()) < 1000)
cycle = []
cycle.append(cycle)
del cycle
garbage.collect_new()
print(gc.get_stats()[0]["collected"] >= 1)
garbage.leave_to_the_end()
print(len(gc.get_objects()) < 1000)
"""
    assert told(program) == ["False", "True", "True", "True", "True"]
