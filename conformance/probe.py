"""Asks numba-cuda which linker it chooses under given settings. Runs inside an environment (Python 3.10 on).

    python -m conformance.probe             a server: questions by line on stdin, answers on stdout
    python -m conformance.probe --separate  one question, in this very process from its beginning to its end

The server has imported what cannot influence the decision (NumPy, llvmlite, numba without numba.cuda) and
forks a process for each question. What numba read from its variables meanwhile is read again there.

A question: `variables` (the process's environment variables), `config` (entries of numba.config, set before
numba.cuda is imported), `hidden` (packages that shall not be found), `driver` (its version, or "none"),
`linkers` (class names), `ltoir` (a file to link), `lto` (the values to ask for, each answered by a process
of its own). An answer: for each of `lto` the outcome, linker, engine and warnings; or the outcome alone
where the process died; or `{"names": ...}`.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
import warnings

from conformance.spy import Spy

_SECONDS = 60
_LTO = {"unset": None, "true": True}
# The least that can be linked.
_PTX = b".version 6.5\n.target sm_52\n.address_size 64\n.visible .entry nothing()\n{\n    ret;\n}\n"
# What downstream projects import from numba.cuda.cudadrv.driver.
_NAMES = (
    "Linker", "Linker.new", "_Linker", "_Linker.new", "LinkerError",
    "CtypesLinker", "CudaPythonLinker", "MVCLinker", "PyNvJitLinker",
)  # fmt: skip


def _is_hidden(name: str, hidden: list[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in hidden)


class Without:
    """A finder of modules that does not find the hidden ones."""

    def __init__(self, finder, hidden: list[str]) -> None:
        self._finder = finder
        self._hidden = hidden

    def find_spec(self, name, path=None, target=None):
        """None for a hidden package and all within it, else what the real finder says."""
        if _is_hidden(name, self._hidden):
            return None
        return self._finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self._finder, name)


def answer(question: dict, fork: bool) -> dict:
    """Apply the settings, import numba.cuda, and ask once for each value of `lto`."""
    spy = Spy()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        failed = _enter(spy, question)
    at_import = [_warning(w) for w in caught]
    if question.get("names"):
        return {"names": _names()}
    if failed:
        return {lto: {**failed, "warnings": at_import} for lto in question["lto"]}
    asked = {lto: functools.partial(_ask, spy, question, lto, at_import) for lto in question["lto"]}
    return {lto: _forked(ask) if fork else ask() for lto, ask in asked.items()}


def _settle(question: dict) -> None:
    """Hide packages and set the entries of numba.config, as a program does before it imports numba.cuda."""
    sys.meta_path[:] = [Without(finder, question["hidden"]) for finder in sys.meta_path]
    for name in [n for n in sys.modules if _is_hidden(n, question["hidden"])]:
        del sys.modules[name]  # a .pth file of cuda.bindings imports `cuda` at the interpreter's start
    served = "numba" in sys.modules
    from numba.core import config

    if served:  # what it read at its import was the server's environment
        config.reload_config()
    for name, value in question["config"].items():
        setattr(config, name, value)


def _enter(spy: Spy, question: dict) -> dict | None:
    spy.phase = "import"
    try:
        _settle(question)
        import numba.cuda  # noqa: F401
        from numba.cuda.cudadrv import driver, runtime

        # libcudart 11.8 wants tables that only the real driver has (see conformance/examine.py).
        if hasattr(runtime.Runtime, "get_version") and question["driver"] != "none":
            version = tuple(int(part) for part in question["driver"].split("."))
            runtime.Runtime.get_version = lambda self: version
        spy.install(driver, question["linkers"])
    except BaseException as error:
        return _failure(error, spy)
    return None


def _ask(spy: Spy, question: dict, lto: str, before: list[dict]) -> dict:
    """Decorate a kernel, construct the linker that it would get, and link the least there is."""
    spy.reset()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            _link(_LTO[lto], question["ltoir"])
            outcome = {"kind": "value", "phase": spy.phase, "type": "", "message": ""}
            said = {"outcome": outcome, "linker": spy.linker, "engine": spy.engine}
        except BaseException as error:
            said = _failure(error, spy)
    return {**said, "warnings": before + [_warning(w) for w in caught]}


def _link(wanted: bool | None, ltoir: str) -> None:
    from numba import cuda
    from numba.cuda.cudadrv import driver

    def kernel():
        pass

    options = {} if wanted is None else {"lto": wanted}
    kernel = cuda.jit(**options)(kernel)
    # Without a signature the decorator forgets what it was asked for (docs/findings).
    lto = kernel.targetoptions.get("lto", False) if wanted is None else wanted
    cc = tuple(cuda.get_current_device().compute_capability)
    linker = getattr(driver, "_Linker", None) or driver.Linker
    made = getattr(linker, "new", linker)(cc=cc, lto=lto)
    # As in a user's program: a kernel comes as LTO-IR where LTO is on, as PTX elsewhere.
    if lto:
        made.add_file_guess_ext(ltoir)
    else:
        made.add_ptx(_PTX, "nothing.ptx")
    made.complete()


def _failure(error: BaseException, spy: Spy) -> dict:
    outcome = {"kind": "error", "phase": spy.phase, "type": type(error).__name__, "message": _chain(error)}
    return {"outcome": outcome, "linker": spy.linker, "engine": spy.engine}


def _chain(error: BaseException | None) -> str:
    """The texts of an exception and of what it came from, outermost first."""
    texts = []
    while error is not None and len(texts) < 8:
        texts.append(f"{type(error).__name__}: {str(error).strip()}")
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return _shorten("\n".join(texts))


def _warning(caught: warnings.WarningMessage) -> dict:
    return {"category": caught.category.__name__, "message": _shorten(str(caught.message))}


def _shorten(text: str) -> str:
    """Without what belongs to this machine."""
    return text.replace(sys.prefix, "<environment>").replace(os.path.expanduser("~"), "~")[:1000]


def _names() -> dict[str, str]:
    """Which names the driver module has: where each comes from, and how it is called."""
    from numba.cuda.cudadrv import driver

    found = {}
    for name in _NAMES:
        owner, _, method = name.partition(".")
        thing = getattr(driver, owner, None)
        thing = getattr(thing, method, None) if method else thing
        if thing is not None:
            found[name] = f"{thing.__module__}{_signature(thing)}"
    return found


def _signature(thing) -> str:
    import inspect

    if isinstance(thing, type) and issubclass(thing, Exception):
        return f"({thing.__base__.__name__})"
    try:
        return str(inspect.signature(thing))
    except (TypeError, ValueError):
        return "(...)"


def _forked(work) -> dict:
    """What `work` returns in a process of its own; a process that dies is an outcome."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _child(work, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    if said:
        return json.loads(said)
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGALRM:
        kind, why = "timeout", f"no end after {_SECONDS} s"
    else:
        kind, why = "crash", f"the process ended with exit code {code}"
    outcome = {"kind": kind, "phase": "import", "type": "", "message": why}
    return {"outcome": outcome, "linker": "", "engine": "", "warnings": []}


def _child(work, writing: int) -> None:
    code = 1
    try:
        signal.alarm(_SECONDS)
        said = json.dumps(work()).encode()
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(said)
        code = 0
    finally:
        os._exit(code)


def _serve() -> None:
    import numba  # noqa: F401

    for line in sys.stdin:
        print(json.dumps(_forked(functools.partial(_changed, json.loads(line)))), flush=True)


def _changed(question: dict) -> dict:
    os.environ.update(question["variables"])
    return answer(question, fork=True)


if __name__ == "__main__":
    if "--separate" in sys.argv:
        print(json.dumps(answer(json.loads(sys.stdin.read()), fork=False)))
    else:
        _serve()
