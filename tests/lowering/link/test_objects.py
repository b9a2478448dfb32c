"""Objects of a module's kernels: split, made by several processes, kept by content."""

import errno
import faulthandler
import os
import signal
import threading
import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from polyreme.ir import config
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.text import parse_module, print_module
from polyreme.ir.timing import APART, timed
from polyreme.lowering.emit.llvm import emit_module
from polyreme.lowering.emit.llvm.codegen import CodegenError, assemble
from polyreme.lowering.emit.llvm.emit_module import split_llvm
from polyreme.lowering.link import artifact as linking
from polyreme.lowering.link import objects, workers
from polyreme.lowering.link.artifact import MODEL, build_artifact, load
from polyreme.lowering.link.objects import EarlyObjects
from polyreme.lowering.link.workers import EarlyWorks, run_in_child, share_out, workers_for
from polyreme.lowering.machines.compile_costs import COMPILE_COSTS
from polyreme.lowering.machines.targets import find_target, host
from polyreme.lowering.pipeline import compile_module, lower
from polyreme.lowering.schedule.arena import plan_memory
from polyreme.lowering.schedule.bufferize import outline_constants
from polyreme.runtime.artifact import Artifact
from polyreme.runtime.cache import Cache, cache_in
from polyreme.runtime.library import load_compiled

TWO_PRODUCTS = """
func @main(%x: tensor<{n}x40xf32>, %a: tensor<40x50xf32>, %b: tensor<50x30xf32>) -> tensor<{n}x30xf32> {{
  %y = nn.linear %x, %a : tensor<{n}x50xf32>
  %h = nn.relu %y : tensor<{n}x50xf32>
  %z = nn.linear %h, %b : tensor<{n}x30xf32>
  return %z
}}
"""

CONSTANTS = """
func @main(%x: tensor<17x40xf32>) -> tensor<17x600xf32> {
  %a = nn.constant () {value = dense<0.5>} : tensor<40x1000xf32>
  %b = nn.constant () {value = dense<0.25>} : tensor<1000x600xf32>
  %y = nn.linear %x, %a : tensor<17x1000xf32>
  %z = nn.linear %y, %b : tensor<17x600xf32>
  return %z
}
"""


def kernels(n=17):
    """A module with two kernels of their own objects, memory planned."""
    module = lower(parse_module(TWO_PRODUCTS.format(n=n)))
    outline_constants(module)
    return module


def arrays(n=17):
    random = np.random.default_rng(1)
    x, a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((n, 40), (40, 50), (50, 30)))
    return [x, a, b], np.maximum(x @ a, 0) @ b


@pytest.fixture
def split(monkeypatch, tmp_path):
    """Every module is split, and objects are kept in an empty folder."""
    monkeypatch.setattr(objects, "COMPILE_COSTS", replace(COMPILE_COSTS, fork=0))
    monkeypatch.setenv("POLYREME_CACHE", str(tmp_path / "cache"))
    cache_in.cache_clear()


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_split_module_computes_the_same_however_many_processes_make_it(split, monkeypatch, jobs):
    monkeypatch.setenv("POLYREME_JOBS", jobs)
    inputs, expected = arrays()
    artifact = build_artifact(kernels(), host())
    assert len(artifact.objects) > 2
    np.testing.assert_allclose(load(artifact).run(inputs)[0], expected, rtol=1e-5, atol=1e-4)


def test_objects_are_the_same_bytes_from_one_process_or_two(split, monkeypatch):
    made = []
    for jobs in ("1", "2"):
        monkeypatch.setenv("POLYREME_JOBS", jobs)
        monkeypatch.setenv("POLYREME_CACHE", "off")
        made.append(build_artifact(kernels(), host()).code)
    assert made[0] == made[1]


def test_an_artifact_of_several_objects_survives_its_file(split):
    inputs, expected = arrays()
    artifact = build_artifact(kernels(), host())
    again = Artifact.from_bytes(artifact.to_bytes())
    assert again.objects == artifact.objects
    np.testing.assert_allclose(load(again).run(inputs)[0], expected, rtol=1e-5, atol=1e-4)


def test_kernels_are_found_again_by_another_model_with_the_same_layer(split, monkeypatch):
    monkeypatch.setenv("POLYREME_JOBS", "1")
    build_artifact(kernels(), host())
    made = []
    monkeypatch.setattr(objects, "assemble", lambda text, *how: made.append(text) or assemble(text, *how))
    other = (
        TWO_PRODUCTS.format(n=17)
        .replace("%x", "%image")
        .replace("nn.relu %y", "nn.tanh %y")
        .replace("@main(", "@main(%more: tensor<2xf32>, ")
    )
    module = lower(parse_module(other))
    outline_constants(module)
    build_artifact(module, host())
    # `main` and the first product, which ends in another function now; the second product is there.
    # A kernel's tasks are functions of their own where it is worth more than one thread.
    defined = [name for text in made for name in _defined(text)]
    assert len({name.split(".")[1] for name in defined if name.startswith("kernel.contract")}) == 1, defined


def test_a_kernels_text_says_nothing_of_the_model_it_stands_in():
    def texts(source):
        module = lower(parse_module(source, "somewhere.tir"))
        return [part.text() for part in split_llvm(module, host(), MODEL)[1:]]

    plain = TWO_PRODUCTS.format(n=17)
    assert texts(plain) == texts("\n\n" + plain.replace("%x", "%image").replace("%h", "%hidden"))


def test_products_say_that_their_addresses_are_final_and_llvm_looks_for_no_others(split, monkeypatch):
    monkeypatch.setenv("POLYREME_JOBS", "1")
    monkeypatch.setattr(emit_module, "COMPILE_COSTS", replace(COMPILE_COSTS, object=0))
    searched = {}
    monkeypatch.setattr(
        objects,
        "assemble",
        lambda text, target, reduce, quick: searched.update(dict.fromkeys(_defined(text), reduce)) or assemble(text, target, reduce, quick),
    )
    module = lower(
        parse_module(TWO_PRODUCTS.format(n=17).replace("return %z", "%s = nn.cumsum %z {axis = 0} : tensor<17x30xf32>\n  return %s"))
    )
    outline_constants(module)
    # What the kernels say of themselves stands in their text.
    build_artifact(parse_module(print_module(module)), host())
    kernels_of = {name: reduce for name, reduce in searched.items() if name.startswith("kernel.")}
    assert {name.split(".")[1].split("_")[0]: reduce for name, reduce in kernels_of.items()} == {"contract": False, "cumulate": True}, (
        kernels_of
    )


def test_what_runs_once_for_each_call_takes_less_of_llvms_time(split):
    module = lower(parse_module(TWO_PRODUCTS.format(n=17)))
    plan_memory(module.function("main"))
    main, *others = split_llvm(module, host(), MODEL)
    assert [func.sym_name for func in main.functions] == ["main"] and main.quick
    assert _defined(main.text()) == [f"{MODEL}_run", f"{MODEL}_arena_bytes", f"{MODEL}_output_shapes"]
    assert others and not any(part.quick for part in others)
    if host().arch == "x86_64":
        assert len(assemble(main.text(), host(), quick=True)) > len(assemble(main.text(), host()))
    (whole,) = split_llvm(module, host(), MODEL, worth=10**6)
    assert whole.functions[0].sym_name == "main" and not whole.quick


def _defined(text):
    return [line.split("@")[1].split("(")[0] for line in text.splitlines() if line.startswith("define")]


@pytest.mark.parametrize("name", ["x86-64", "aarch64", "riscv64"])
def test_parts_are_valid_for_other_targets(name):
    target = find_target(name)
    module = lower(parse_module(TWO_PRODUCTS.format(n=3)), target)
    plan_memory(module.function("main"))
    for part in split_llvm(module, target, MODEL):
        assert assemble(part.text(), target)[:4] == b"\x7fELF"


def test_a_damaged_object_is_made_again(split, tmp_path, monkeypatch):
    monkeypatch.setenv("POLYREME_JOBS", "1")
    code = build_artifact(kernels(), host()).code
    files = [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]
    assert files
    for file in files:
        data = bytearray(file.read_bytes())
        data[-9] ^= 1
        file.write_bytes(data)
    cache_in.cache_clear()
    assert build_artifact(kernels(), host()).code == code


@pytest.fixture
def forked(monkeypatch):
    """The processes that are forked; they are, whatever threads earlier tests have left."""
    children, fork = [], os.fork
    monkeypatch.setattr(workers, "_may_fork", lambda: True)
    monkeypatch.setattr(os, "fork", lambda: children.append(fork()) or children[-1])
    return children


def test_works_come_back_in_their_order():
    assert share_out([partial(pow, n, 2) for n in range(50)], 3) == [n * n for n in range(50)]
    assert share_out([], 1) == []


def test_an_error_in_another_process_is_raised_here_and_leaves_no_child(forked):
    here = os.getpid()

    def work():
        if os.getpid() != here:
            raise CodegenError("expected valid LLVM IR but got: nothing")
        # Long enough for the other process to take one, too.
        threading.Event().wait(0.2)

    with pytest.raises(PolyremeError, match="expected valid LLVM IR but got: nothing"):
        share_out([work] * 4, 2)
    assert len(forked) == 1
    for child in forked:
        with pytest.raises(ChildProcessError):
            os.waitpid(child, os.WNOHANG)


def test_what_fails_in_another_process_in_a_way_of_its_own_shows_where_here(forked):
    def work(i):
        # Long enough for the other process to take one, too.
        threading.Event().wait(0.2)
        if os.getpid() != HERE or i == 3:
            raise KeyError(i)
        return i

    assert share_out([partial(work, i) for i in range(3)], 2) == [0, 1, 2]
    with pytest.raises(KeyError, match="3") as caught:
        share_out([partial(work, i) for i in range(4)], 2)
    assert caught.traceback[-1].path.name == "test_objects.py"
    assert len(forked) == 2


def test_where_the_system_has_no_process_to_give_all_is_done_in_this_one(monkeypatch):
    def refused():
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setenv("POLYREME_JOBS", "2")
    monkeypatch.setattr(config, "processors", lambda: 2)
    monkeypatch.setattr(os, "fork", refused)
    before = os.listdir("/proc/self/fd")
    assert share_out([os.getpid] * 3, 3) == [HERE] * 3
    assert run_in_child(os.getpid) == HERE
    with EarlyWorks() as early:
        early.add(os.getpid)
        early.start()
        assert early.take_back() == set() and early.outcomes() == {}
    assert os.listdir("/proc/self/fd") == before


def test_a_process_with_threads_is_not_forked():
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        assert workers_for(100) == 1
    finally:
        stop.set()
        thread.join()
    assert workers_for(1) == 1


def test_work_done_apart_leaves_nothing_but_its_outcome(forked):
    assert run_in_child(lambda: (os.getpid() != HERE, b"x" * (1 << 20))) == (True, b"x" * (1 << 20))
    with pytest.raises(CodegenError, match="like this"):
        run_in_child(partial(_fail, CodegenError("like this")))
    assert len(forked) == 2
    for child in forked:
        with pytest.raises(ChildProcessError):
            os.waitpid(child, os.WNOHANG)


def test_a_fault_apart_is_shown_where_it_happens_here(forked):
    with pytest.raises(ZeroDivisionError) as caught:
        run_in_child(lambda: 1 // 0)
    assert caught.traceback[-1].path.name == "test_objects.py"
    assert run_in_child(lambda: os._exit(9) if os.getpid() != HERE else "done here") == "done here"


HERE = os.getpid()


def _fail(error):
    raise error


# --- processes that do not end, or end too early


@pytest.fixture
def impatient(monkeypatch, forked):
    """Processes that are waited for no longer than a second; none may be left in the end."""
    monkeypatch.setenv("POLYREME_COMPILE_SECONDS", "1")
    yield
    for child in forked:
        with pytest.raises(ChildProcessError):
            os.waitpid(child, os.WNOHANG)


def _signalled(number):
    """What another process does not get done because of a signal, and this one does."""
    if os.getpid() != HERE:
        os.kill(os.getpid(), number)
        # A process that is stopped goes on no further than this.
        threading.Event().wait(0.1)
    return "done here"


@pytest.mark.parametrize("number, why", [(signal.SIGSTOP, "did not end within 1 seconds"), (signal.SIGKILL, "was ended by SIGKILL")])
def test_work_of_a_process_that_is_stopped_or_killed_is_done_here(impatient, number, why):
    with pytest.warns(RuntimeWarning, match=f"a process that compiles {why}.*: what it was to do is done in this one"):
        assert run_in_child(partial(_signalled, number)) == "done here"


@pytest.mark.parametrize("number, why", [(signal.SIGSTOP, "did not end"), (signal.SIGKILL, "was ended by SIGKILL")])
def test_the_share_of_a_process_that_is_stopped_or_killed_is_done_here(impatient, number, why):
    def work(i):
        # Long enough for the other process to take one, too.
        threading.Event().wait(0.2)
        return i, _signalled(number)

    with pytest.warns(RuntimeWarning, match=why):
        assert share_out([partial(work, i) for i in range(4)], 2) == [(i, "done here") for i in range(4)]


@pytest.mark.parametrize("way", [run_in_child, lambda work: share_out([work] * 4, 2)])
def test_what_makes_a_process_crash_is_not_tried_here(impatient, way):
    def work():
        threading.Event().wait(0.2)
        if os.getpid() != HERE:
            # It need not be told where.
            faulthandler.disable()
        _signalled(signal.SIGSEGV)

    with pytest.raises(PolyremeError, match=r"E0807.*the process that generates it failed: it crashed \(SIGSEGV\)"):
        way(work)


def test_whoever_is_given_up_takes_its_own_processes_along(impatient, tmp_path):
    def waits():
        (tmp_path / str(os.getpid())).touch()
        threading.Event().wait(30)

    def work():
        return share_out([waits] * 2, 2) if os.getpid() != HERE else "done here"

    with pytest.warns(RuntimeWarning, match="did not end"):
        assert run_in_child(work) == "done here"
    started = [int(path.name) for path in tmp_path.iterdir()]
    assert len(started) == 2
    deadline = time.monotonic() + 10
    while any(_runs(process) for process in started):
        assert time.monotonic() < deadline, "a process is left"
        time.sleep(0.01)


def _runs(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            # Whoever is dead waits for its parent to hear of it.
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


# --- works that are begun before all are known


def test_early_works_are_done_by_another_process_until_they_are_taken_back(forked, monkeypatch):
    monkeypatch.setenv("POLYREME_JOBS", "2")
    monkeypatch.setattr(config, "processors", lambda: 2)
    with EarlyWorks() as early:
        assert early.may_start()
        numbers = [early.add(partial(lambda i: (threading.Event().wait(0.05), i, os.getpid() != HERE)[1:], i)) for i in range(60)]
        early.start()
        assert not early.may_start()
        later = early.add(os.getpid)
        threading.Event().wait(0.2)
        begun = early.take_back()
        assert begun and begun == set(numbers[: len(begun)]) and len(begun) < 60 and later not in begun
        assert early.outcomes() == {i: (i, True) for i in begun}
    assert len(forked) == 1


def test_early_works_of_a_process_that_is_killed_are_nobodys(impatient, monkeypatch):
    monkeypatch.setenv("POLYREME_JOBS", "2")
    monkeypatch.setattr(config, "processors", lambda: 2)
    with EarlyWorks() as early:
        early.add(partial(_signalled, signal.SIGKILL))
        early.start()
        while not early.may_start():
            time.sleep(0.01)
        with pytest.warns(RuntimeWarning, match="was ended by SIGKILL"):
            assert early.outcomes() == {}


def test_an_error_of_an_early_work_is_raised_with_the_outcomes(impatient, monkeypatch):
    monkeypatch.setenv("POLYREME_JOBS", "2")
    monkeypatch.setattr(config, "processors", lambda: 2)
    with EarlyWorks() as early:
        early.add(partial(_fail, CodegenError("like this")))
        early.start()
        while not early.may_start():
            time.sleep(0.01)
        with pytest.raises(CodegenError, match="like this"):
            early.outcomes()


def test_early_works_end_with_their_block(impatient, monkeypatch):
    monkeypatch.setenv("POLYREME_JOBS", "2")
    monkeypatch.setattr(config, "processors", lambda: 2)
    with pytest.raises(ValueError, match="on the way"), EarlyWorks() as early:
        early.add(partial(threading.Event().wait, 30))
        early.start()
        raise ValueError("something else fails on the way")


# `tanh` of what the caller keeps, and of what nobody reads again: the second call writes where it reads.
SHARED = """
func @main(%x: tensor<64x33xf32>) -> (tensor<64x33xf32>, tensor<64x33xf32>) {
  %a = nn.tanh %x : tensor<64x33xf32>
  %b = nn.cumsum %a {axis = 0} : tensor<64x33xf32>
  %c = nn.tanh %b : tensor<64x33xf32>
  %d = nn.cumsum %c {axis = 0} : tensor<64x33xf32>
  return %a, %d
}
"""


def _compiled(monkeypatch, text, jobs):
    """The artifact of a module whose kernels all have objects of their own, and the names of those that were made early and were right."""
    right = []
    made = EarlyObjects.made

    def noted(self, parts):
        found = made(self, parts)
        right.extend(part.functions[0].sym_name for part in found)
        return found

    monkeypatch.setenv("POLYREME_JOBS", jobs)
    monkeypatch.setattr(config, "processors", lambda: 2)
    monkeypatch.setattr(EarlyObjects, "made", noted)
    for module in (objects, emit_module):
        monkeypatch.setattr(module, "COMPILE_COSTS", replace(COMPILE_COSTS, fork=0, object=0))
    artifact = compile_module(parse_module(text), host()).artifact
    monkeypatch.setattr(EarlyObjects, "made", made)
    return artifact, right


@pytest.mark.parametrize("text", [TWO_PRODUCTS.format(n=17), TWO_PRODUCTS.format(n="N"), CONSTANTS])
def test_kernels_that_are_compiled_while_others_are_planned_are_the_same(split, forked, monkeypatch, text):
    monkeypatch.setenv("POLYREME_CACHE", "off")
    alone, _ = _compiled(monkeypatch, text, "1")
    assert not forked
    early, right = _compiled(monkeypatch, text, "2")
    assert forked and right
    assert early.code == alone.code


def test_a_kernel_whose_promise_a_later_call_breaks_is_compiled_anew(split, forked, monkeypatch):
    monkeypatch.setenv("POLYREME_CACHE", "off")
    alone, _ = _compiled(monkeypatch, SHARED, "1")
    # The first process has all the time it needs for what it knows.
    monkeypatch.setattr(EarlyWorks, "start", lambda self, start=EarlyWorks.start: (start(self), threading.Event().wait(0.3)))
    artifact, right = _compiled(monkeypatch, SHARED, "2")
    assert right and not any("tanh" in name for name in right)
    assert artifact.code == alone.code
    x = np.random.default_rng(3).standard_normal((64, 33)).astype(np.float32)
    a, d = load(artifact).run([x])
    np.testing.assert_allclose(a, np.tanh(x), rtol=1e-5)
    np.testing.assert_allclose(d, np.cumsum(np.tanh(np.cumsum(np.tanh(x), axis=0)), axis=0), rtol=1e-4, atol=1e-4)


def test_an_interrupted_wait_leaves_no_process(forked):
    def interrupt(*_):
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            run_in_child(lambda: threading.Event().wait(30))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    with pytest.raises(ChildProcessError):
        os.waitpid(forked[0], os.WNOHANG)


def test_a_compiled_library_links_all_objects(split, tmp_path):
    from polyreme.lowering.link.artifact import write_library
    from polyreme.runtime.library import load_compiled

    inputs, expected = arrays()
    artifact = compile_module(parse_module(TWO_PRODUCTS.format(n=17)), host()).artifact
    assert len(artifact.objects) > 1
    write_library(artifact, tmp_path / "two.so")
    np.testing.assert_allclose(load_compiled(tmp_path / "two.so").run(inputs)[0], expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_the_code_of_a_library_is_made_beside_its_kernels(split, forked, monkeypatch, tmp_path, jobs):
    monkeypatch.setenv("POLYREME_JOBS", jobs)
    module, path = parse_module(TWO_PRODUCTS.format(n=17)), tmp_path / "net.so"
    library = linking.LibraryCode.of(path, host())
    linking.NATIVES.clear()
    made = compile_module(module, host(), name="net", library=library).artifact
    [interface] = library.interface_sources(made.manifest, len(made.pieces))
    assert interface in linking.NATIVES
    if jobs == "2":
        assert set(library.system_works()) <= linking.NATIVES.keys()
    # What is left for when all is known is short.
    assembled = []
    assemble = linking.assemble
    monkeypatch.setattr(linking, "assemble", lambda text, target: assembled.append(text) or assemble(text, target))
    linking.write_library(made, path)
    assert all(len(text) < 2000 for text in assembled if "@polyreme_parallel" not in text)
    inputs, expected = arrays()
    np.testing.assert_allclose(load_compiled(path).run(inputs)[0], expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_constants_are_written_by_the_processes_that_make_the_code(split, monkeypatch, tmp_path, jobs):
    monkeypatch.setenv("POLYREME_JOBS", jobs)
    monkeypatch.setattr(workers, "_may_fork", lambda: True)
    module = parse_module(CONSTANTS)
    plain = compile_module(module, host()).artifact
    cache = Cache(tmp_path / "kept")
    artifact = compile_module(module, host(), room=cache.draft).artifact
    assert plain.draft is None and artifact.draft is not None
    assert artifact.to_bytes() == plain.to_bytes()
    assert cache.keep_draft("0" * 64, artifact.draft, artifact.finish) and cache.mapped("0" * 64) == plain.to_bytes()


def test_constants_that_the_disk_does_not_take_are_made_in_memory(split, monkeypatch, tmp_path):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    module = parse_module(CONSTANTS)
    plain = compile_module(module, host()).artifact
    monkeypatch.setattr(os, "pwrite", full)
    artifact = compile_module(module, host(), room=Cache(tmp_path / "kept").draft).artifact
    assert artifact.draft is None and artifact.to_bytes() == plain.to_bytes()
    assert not [p for p in (tmp_path / "kept").rglob("*") if p.is_file()]


def test_steps_of_other_processes_are_told_where_somebody_measures(monkeypatch):
    # Other tests of this process may have left threads, with which none is forked.
    monkeypatch.setattr(workers, "_may_fork", lambda: True)

    def work(outer):
        with timed(outer), timed("inner"):
            return os.getpid()

    assert run_in_child(partial(work, "alone")) != os.getpid()
    with timed("whole") as whole:
        assert run_in_child(partial(work, "one")) != os.getpid()
        assert run_in_child(partial(work, "one")) != os.getpid()
    (apart,) = whole.parts.values()
    assert [(depth, step.name, step.count) for depth, step in apart.walk()] == [(0, APART, 2), (1, "one", 2), (2, "inner", 2)]
    assert apart.seconds == apart.parts["one"].seconds >= apart.parts["one"].parts["inner"].seconds > 0
