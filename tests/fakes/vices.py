"""What a linker can do wrong, one function each, with what a record must say of it.

The fake numba acts a vice out where the linked code bears its name (`segfault.ptx`), or everywhere
where `$FAKE_VICE` names it. `scenarios` are those of `vicious.py` that meet the vice, and `seen` a
pattern of the record's reason; with an empty one the scenario must conform all the same.
"""

import atexit
import ctypes
import itertools
import os
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

_count = itertools.count()


@dataclass(frozen=True)
class Vice:
    """A vice: the moments at which it shows, the scenarios that meet it, and what is to be seen of it."""

    name: str
    act: Callable
    at: str
    scenarios: tuple[str, ...]
    seen: str


VICES: dict[str, Vice] = {}


def vice(at: str, scenarios: str = "", seen: str = ""):
    """Enter a function as a vice."""

    def enter(function):
        name = function.__name__.replace("_", "-")
        VICES[name] = Vice(name, function, at, tuple(scenarios.split()), seen)
        return function

    return enter


def act(at: str, names: list[str], *things):
    """Act out the vice of this moment, if code of that name is linked; what it returns is heeded."""
    for name in (os.environ.get("FAKE_VICE"), *names):
        if name in VICES and at in VICES[name].at.split():
            return VICES[name].act(*things)


# -- the linker -------------------------------------------------------------------------------------


@vice("choose", "value isolated", "linked by CudaPythonLinker instead of CtypesLinker")
def wrong_linker():
    from numba.cuda.cudadrv import driver

    return driver.CudaPythonLinker


@vice("choose", "value", "linked by Lookalike instead of CtypesLinker")
def unknown_linker():
    from numba.cuda.cudadrv import driver

    return type("Lookalike", (driver.CtypesLinker,), {})


@vice("complete", "value", r"linked by CtypesLinker\+CudaPythonLinker instead of CtypesLinker")
def second_linker():
    from numba.cuda.cudadrv import driver

    driver.CudaPythonLinker([])


@vice("choose", "repeating", r"CtypesLinker.*CudaPythonLinker")
def changing_linker():
    return wrong_linker() if next(_count) % 3 else None


# -- values -----------------------------------------------------------------------------------------


@vice("launch", "value isolated", r"WrongValue.*1 of 16 elements .*\(never written\)")
def unwritten():
    return 1


@vice("launched", "value", r"WrongValue.*1 of 16 elements .* \[7\]")
def wrong_element(out):
    out[7] += 1


@vice("launched", "value", "WrongValue.* uint32.* instead of int32")
def other_type(out):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out.dtype = "uint32"


@vice("launched", "value", "WrongValue.* instead of int32")
def other_shape(out):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out.shape = (4, 4)


@vice("launched", "repeating", "3 times gave: ")
def changing_value(out):
    out[0] += next(_count)


# -- warnings ---------------------------------------------------------------------------------------


@vice("complete", "warning")
def warns():
    warnings.warn("beware of the fake", stacklevel=2)


@vice("nowhere", "warning", "UserWarning 'beware' came 0 times instead of 1")
def silent():
    pass


@vice("complete", "warning", "UserWarning 'beware' came 2 times instead of 1")
def warns_twice():
    for _ in range(2):
        warns()


@vice("complete", "warning", "UserWarning 'beware' came 0 times.*unexpected FutureWarning: beware")
def warns_otherwise():
    warnings.warn("beware", FutureWarning, stacklevel=2)


@vice("complete", "value isolated", "unexpected UserWarning: beware of the fake")
def unexpected_warning():
    warns()


@vice("complete", "value isolated", r"unexpected UserWarning: \\udc80 and$")
def unwritable_warning():
    warnings.warn("\udc80 and\0", stacklevel=2)


@vice("complete", "value", "unexpected Mute: <no text: StopIteration>")
def mute_warning():
    """Says its text once, when it is raised, and never again."""
    texts = iter(["text"])
    warnings.warn(type("Mute", (UserWarning,), {"__str__": lambda _: next(texts)})(), stacklevel=2)


@vice("launch", "repeating", "3 times gave: ")
def changing_warning():
    if next(_count) % 3:
        warns()


# -- errors -----------------------------------------------------------------------------------------


@vice("nowhere", "missing")
def honest():
    pass


@vice("missing", "missing", "no error, where LinkerError is expected in phase add")
def swallowed(error):
    return False


@vice("missing", "missing", "OSError instead of LinkerError")
def other_class(error):
    raise OSError(*error.args)


@vice("missing", "missing", "SubError instead of LinkerError")
def subclass(error):
    raise type("SubError", (type(error),), {})(*error.args)


@vice("missing", "missing", "phase complete instead of add")
def other_phase(error):
    return error


@vice("missing", "missing", "the error has no text; no 'not found' in the error")
def empty_text(error):
    raise type(error)("")


@vice("launch", "value", "RuntimeError in phase launch: RuntimeError: unexpected")
def unexpected_error():
    raise RuntimeError("unexpected")


@vice("launch", "repeating", "3 times gave: .*(OSError.*ValueError|ValueError.*OSError)")
def changing_error():
    raise (OSError, ValueError)[next(_count) % 2]("unexpected")


@vice("launch", "value isolated", "Mute in phase launch: Mute: <no text: ZeroDivisionError>")
def mute_error():
    raise type("Mute", (Exception,), {"__str__": lambda _: str(1 / 0)})()


@vice("launch", "value isolated", "KeyError in phase launch: KeyError: 'b'\nValueError: a$")
def circular_error():
    one, other = ValueError("a"), KeyError("b")
    one.__cause__, other.__cause__ = other, one
    raise other


@vice("launch", "value isolated", r"ValueError: \\udc80\\ud800 and .* the end$")
def unwritable_error():
    raise ValueError("\udc80\ud800 and\0 \u2028\x85\x1b\r the end")


@vice("launch", "value isolated", "SystemExit in phase launch: SystemExit: enough")
def system_exit():
    sys.exit("enough")


@vice("launch", "value isolated", "Outsider in phase launch: Outsider: not even an Exception")
def base_exception():
    raise type("Outsider", (BaseException,), {})("not even an Exception")


# -- the process ------------------------------------------------------------------------------------


@vice("launch", "value isolated", "crash in phase launch: killed by SIGSEGV")
def segfault():
    ctypes.string_at(0)


@vice("complete", "value isolated", "crash in phase complete: killed by SIGABRT")
def abort():
    os.abort()


@vice("launch", "value isolated", "crash in phase launch: the process ended by itself with exit code 0")
def exit_0():
    os._exit(0)


@vice("launch", "value", "crash in phase launch: the process ended by itself with exit code 1")
def exit_1():
    os._exit(1)


@vice("launch", "value", "crash in phase launch: the process ended by itself with exit code 2")
def exit_2():
    os._exit(2)


@vice("launch", "value isolated", "timeout in phase launch: no end after 2 s")
def hang():
    time.sleep(600)


@vice("complete", "value isolated", "timeout in phase complete: no end after 2 s")
def hang_in_c():
    """Without giving Python's lock away."""
    ctypes.PyDLL(None).sleep(600)


@vice("complete launch", "value", "timeout in phase launch: no end after 2 s")
def hang_late():
    """In a scenario that has spent some of its time before."""
    time.sleep(600 if next(_count) else 0.8)


@vice("launch", "isolated", "MemoryError in phase launch")
def memory_hog():
    held = []
    while True:
        held.append(bytes(1 << 30))


@vice("launch", "isolated value")
def flood():
    for _ in range(100):
        os.write(1, b"x" * (1 << 20))


@vice("launch", "isolated")
def orphan():
    """A child that outlives its parent, and holds what it inherited."""
    child = os.fork()
    if child == 0:
        time.sleep(600)
        os._exit(0)
    with open(os.environ["FAKE_ORPHANS"], "a") as file:
        file.write(f"{child}\n")


@vice("launch", "isolated", "crash in phase launch: killed by SIGSEGV")
def orphan_and_crash():
    orphan()
    segfault()


@vice("launch", "alone")
def interrupt():
    raise KeyboardInterrupt


@vice("launch", "alone")
def abort_at_exit():
    atexit.register(os.abort)


# -- the import -------------------------------------------------------------------------------------


@vice("import", seen="RuntimeError in phase import: RuntimeError: nvJitLink requires")
def import_error():
    raise RuntimeError("nvJitLink requires the NVIDIA CUDA bindings")


@vice("import", seen="SystemExit in phase import: SystemExit: enough")
def import_exit():
    sys.exit("enough")


@vice("import", seen="crash in phase import: killed by SIGABRT")
def import_abort():
    os.abort()


@vice("import", seen="timeout in phase import: no end after 2 s")
def import_hang():
    time.sleep(600)


@vice("import")
def import_error_in_worker():
    if "PYTEST_XDIST_WORKER" in os.environ:
        raise RuntimeError("not in a worker")
