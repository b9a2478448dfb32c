"""What has to hold for any text, and for any random module. A `Fault` says that it does not."""

import contextlib
import signal
import traceback
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from polyreme.ir.diagnostics import Diagnostic, PolyremeError
from polyreme.ir.evaluate import evaluate
from polyreme.ir.structure import first_difference
from polyreme.ir.text import parse_module, print_module
from polyreme.ir.verify import find_faults, verify
from polyreme.runtime.errors import RuntimeFault

FILE = "text.tir"


@dataclass
class Fault(Exception):
    """Something that must not be. `kind` is equal for faults with the same cause, as far as one can see from outside."""

    kind: str
    details: str = ""

    def __str__(self) -> str:
        return f"{self.kind}\n{self.details}".rstrip()


class _Late(BaseException):
    """Raised where the code is when its time is up; not an `Exception`, so that nobody takes it for one of theirs."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """A fault when the body takes more seconds of this process. Other processes on the machine do not count."""

    def late(*_: object) -> None:
        raise _Late

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    except _Late as error:
        raise Fault(f"hang: more than {seconds} s, {_innermost(error)}", _trace(error)) from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _innermost(error: BaseException) -> str:
    """The innermost frame of the project's own, since that of a library says little about the cause."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "site-packages" not in f.filename and "/fuzz/" not in f.filename] or frames
    return f"in {ours[-1].name}" if ours else "nowhere"


def _trace(error: BaseException) -> str:
    lines = traceback.format_exception(error)
    return "".join(lines if len(lines) < 16 else [*lines[:4], "  …\n", *lines[-10:]])[:6000]


@contextlib.contextmanager
def no_crash(doing: str) -> Iterator[None]:
    """Any exception but the framework's own is a fault."""
    try:
        yield
    except (PolyremeError, RuntimeFault, Fault):
        raise
    except Exception as error:
        raise Fault(f"{type(error).__name__} while {doing}, {_innermost(error)}", _trace(error)) from None


def check_text(text: str, seconds: float = 1.0) -> str:
    """What becomes of a text: "refused" by the parser, "invalid" to the verifier, or "valid"."""
    with time_limit(seconds):
        try:
            with no_crash("parsing"):
                module = parse_module(text, FILE)
        except PolyremeError as error:
            for diagnostic in error.diagnostics:
                _check_place(diagnostic, text)
            with no_crash("saying why a text is refused"):
                str(error)
            return "refused"
        with no_crash("verifying"):
            faults = find_faults(module)
        if faults:
            # A location that the text itself gives an op need not be one in the text.
            if "loc(" not in text:
                for diagnostic in faults:
                    _check_place(diagnostic, text)
            return "invalid"
        check_round_trip(module)
        return "valid"


def _check_place(diagnostic: Diagnostic, text: str) -> None:
    place = diagnostic.location
    if place.file != FILE or not 1 <= place.line <= text.count("\n") + 1 or place.column < 1:
        raise Fault(f"no position: {_without_names(diagnostic.message)}", f"{place!r}: {diagnostic.message[:500]}")


def _without_names(message: str) -> str:
    return " ".join(word for word in message.split()[:8] if "'" not in word and not any(c.isdigit() for c in word))


def check_round_trip(module) -> None:
    """Printed in any form and read back, a valid module is the same."""
    for generic, locations in ((False, False), (True, False), (True, True)):
        form = f"in the {'generic' if generic else 'readable'} form{' with locations' if locations else ''}"
        with no_crash(f"printing {form}"):
            text = print_module(module, generic, locations)
        try:
            with no_crash(f"reading back {form}"):
                again = parse_module(text, FILE)
                verify(again)
        except PolyremeError as error:
            raise Fault(
                f"refused when read back {form}: {_without_names(error.diagnostics[0].message)}", f"{str(error)[:2000]}\n{text}"
            ) from None
        difference = first_difference(module, again, locations=locations)
        if difference:
            raise Fault(f"another module when read back {form}", f"{difference}\n{text}")
        if print_module(again, generic, locations) != text:
            raise Fault(f"printed otherwise when read back {form}", f"{text}\n{print_module(again, generic, locations)}")


def check_sample(sample, seconds: float = 1.0) -> None:
    """A random module verifies, survives every form of text, and computes the same after that."""
    with time_limit(seconds):
        with no_crash("verifying a random module"):
            faults = find_faults(sample.module)
        if faults:
            raise Fault(f"invalid random module: {_without_names(faults[0].message)}", faults[0].render())
        check_round_trip(sample.module)
        again = parse_module(print_module(sample.module, generic=True))
        with no_crash("evaluating"):
            expected, got = evaluate(sample.module, sample.inputs), evaluate(again, sample.inputs)
        for x, y in zip(expected, got, strict=True):
            if x.dtype != y.dtype or not np.array_equal(x, y, equal_nan=True):
                raise Fault("computes something else when read back")
