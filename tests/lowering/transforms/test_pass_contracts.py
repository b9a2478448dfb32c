"""What every registered pass promises: it takes and leaves valid modules of the levels it declares, what they compute stays the same; and
cleaning up converges.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polyreme.cli.own_passes import load_passes
from polyreme.ir.builtin import Module
from polyreme.ir.convert import Conversion
from polyreme.ir.debug.tolerance import expect
from polyreme.ir.evaluate import evaluate
from polyreme.ir.passes import PASSES, Pass, make_pass, parse_passes, pass_text
from polyreme.ir.rewrite import rewrite_greedily
from polyreme.ir.structure import first_difference
from polyreme.ir.text import print_module
from polyreme.ir.verify import verify
from polyreme.lowering.debug.profile import ProfileKernels
from polyreme.lowering.machines.targets import find_target
from polyreme.lowering.pipeline import MakeKernels, pipeline
from polyreme.lowering.schedule.choose_schedules import OverrideSchedules
from polyreme.lowering.transforms.cleanup import CANONICAL, Canonicalize, Cse, Dce, fold_constants
from polyreme.lowering.transforms.solve_sizes import SolveDims
from tests.lowering.transforms.test_cleanup import FIRES, STAYS, cleaned
from tests.strategies import LEVELS, modules

load_passes()
SETTINGS = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
# Levels by the word that passes use for them; groups are tensor ops, too.
TAKEN = {"nn": ["nn"], "dist": ["dist"], "tensor": ["tensor", "fused"], "kernel": ["kernel"]}
# What a module of a level may consist of.
DIALECTS = {"nn": {"nn"}, "dist": {"nn", "dist"}, "tensor": {"tensor"}, "kernel": {"kernel"}}


def levels_of(name):
    taken = make_pass(name).takes
    return [sample for level in TAKEN if not taken or level in taken for sample in TAKEN[level]]


def level_word(sample):
    return next(word for word, samples in TAKEN.items() if sample in samples)


# Profiling adds an output, the times of the steps, so results before and after can't be compared: `debug/test_profile.py` does it.
# Overriding takes a file: `schedule/test_choose_schedules.py`.
APART = {ProfileKernels.name, OverrideSchedules.name}
CONTRACTS = [(name, level) for name in sorted(PASSES.keys() - APART) for level in levels_of(name)]


def prepared(name, level, data):
    """A random module that the pass takes at this level."""
    # Kernels are made of the groups that `fuse` forms, and gradients are put into buckets by their sizes in bytes.
    if name == MakeKernels.name:
        sample = data.draw(modules("tensor", max_ops=4))
        make_pass("fuse").run(sample.module)
        return sample
    return data.draw(modules(level, symbolic=False if name == "bucket-gradients" else None))


@pytest.mark.parametrize(("name", "level"), CONTRACTS, ids=[f"{n}-{level}" for n, level in CONTRACTS])
@SETTINGS
@given(st.data())
def test_a_pass_takes_and_leaves_valid_modules_that_compute_the_same(name, level, data):
    sample = prepared(name, level, data)
    made = make_pass(name)
    module = sample.module.clone()
    verify(module)
    expected = expect(module, [x.copy() for x in sample.inputs])
    made.run(module)
    verify(module)
    assert {op.dialect for op in module.walk()} - {"builtin", "func"} <= DIALECTS[made.leaves or level_word(level)]
    assert not expected.misfits(evaluate(module, [x.copy() for x in sample.inputs]))
    # The same module becomes the same again.
    again = sample.module.clone()
    make_pass(name).run(again)
    assert not first_difference(again, module, locations=True, names=True)


def test_every_pass_says_what_comes_before_and_after_and_can_be_written_as_text():
    for name, made in PASSES.items():
        assert set(make_pass(name).takes) <= set(TAKEN) and make_pass(name).leaves in ("", *TAKEN), name
        if isinstance(made(), Conversion):
            continue
        assert issubclass(made, Pass) and made.__doc__, name
        text = made.__doc__.lower()
        assert ("before" in text and "after" in text) or made is MakeKernels, name
    for stage in pipeline(find_target("aarch64")):
        for made in stage.passes:
            (read,) = parse_passes(pass_text(made))
            assert pass_text(read) == pass_text(made) or read.name == MakeKernels.name


def test_stages_of_the_pipeline_fit_together():
    level = "nn"
    for stage in pipeline(find_target()):
        for made in stage.passes:
            assert not made.takes or level in made.takes, f"{made.name} stands where modules are at the level {level}"
            level = made.leaves or level
        assert level == stage.name


# --- convergence

CLEANING = {"canonicalize": Canonicalize, "cse": Cse, "dce": Dce, "solve-dims": SolveDims}


def assert_settled(step, module):
    before = module.clone()
    step.run(module)
    difference = first_difference(before, module, locations=True, names=True)
    assert not difference, f"{difference}\n{print_module(before)}\n{print_module(module)}"


@pytest.mark.parametrize("level", LEVELS)
@SETTINGS
@given(st.data())
def test_cleaning_up_twice_changes_nothing_more(level, data):
    module = data.draw(modules(level)).module
    for name, step in CLEANING.items():
        alone = module.clone()
        step().run(alone)
        assert_settled(step(), alone), name


@pytest.mark.parametrize("level", LEVELS)
@SETTINGS
@given(st.data())
def test_repeated_cleaning_up_converges_soon(level, data):
    module = data.draw(modules(level)).module
    for _ in range(3):
        before = module.clone()
        for step in (Canonicalize(), Cse(), Dce()):
            step.run(module)
        if not first_difference(before, module):
            return
    raise AssertionError(f"expected three turns to be enough for\n{print_module(before)}\nbut the third made\n{print_module(module)}")


@SETTINGS
@given(st.data())
def test_canonical_forms_do_not_depend_on_the_order_of_independent_ops(data):
    sample = data.draw(modules("tensor"))
    ordered, shuffled = sample.module.clone(), sample.module.clone()
    shuffle(shuffled, data)
    verify(shuffled)
    for module in (ordered, shuffled):
        Canonicalize().run(module)
        Cse().run(module)
    assert signature(ordered) == signature(shuffled)


def shuffle(module: Module, data) -> None:
    """Another order of the ops of `main` in which everything is still defined before it is used."""
    block = module.function().block
    last = block.last
    waiting = block.ops[:-1]
    placed = set()
    for op in waiting:
        op.detach()
    while waiting:
        ready = [op for op in waiting if all(v.producer() is None or v.producer() in placed for v in op.operands)]
        op = data.draw(st.sampled_from(ready))
        waiting.remove(op)
        placed.add(op)
        block.insert(op, last)
    assert block.last is last


def signature(module: Module):
    """What the results are made of, without the order in which it is made."""

    def of(value):
        op = value.producer()
        if op is None:
            return value.index
        attributes = tuple(sorted((k, str(v) if not hasattr(v, "digest") else v.digest) for k, v in op.attributes.items()))
        operands = tuple(map(of, op.operands))
        return op.name, attributes, tuple(sorted(operands, key=repr)), value.index, str(value.type)

    return tuple(map(of, module.function().block.terminator.operands))


# --- every pattern has its examples

FOLD = fold_constants(4096)


def fired(pattern, types, body):
    """How often a pattern alone rewrites the module of an example, and whether it had an op to look at."""
    _, func = cleaned(types, body, [Nothing()])
    module = func.parent_op
    looked = any(isinstance(op, pattern.kinds) for op in module.walk())
    return rewrite_greedily(module, [pattern]), looked


class Nothing:
    """Leaves the module as it is."""

    def run(self, module):
        pass


@pytest.mark.parametrize("pattern", [*CANONICAL, FOLD], ids=lambda p: p.name)
def test_every_pattern_states_its_equation_and_has_examples_where_it_fires_and_where_it_must_not(pattern):
    assert "->" in pattern.equation
    assert any(fired(pattern, types, body)[0] for types, body, _ in FIRES.values()), "no example of FIRES shows it"
    assert any(fired(pattern, types, body) == (0, True) for types, body, _ in STAYS.values()), (
        "no example of STAYS has an op that it looks at and leaves alone"
    )


