"""Watches a link from inside numba-cuda: which linker, in which phase, how long, with which image.

numba-cuda has no hook for any of this, so the methods of its linker classes and the loading of a
module are wrapped in place. The wrappers only note and time; arguments, results and exceptions pass
untouched.
"""

from __future__ import annotations

import functools
import time
from collections import defaultdict
from collections.abc import Callable

# While a phase runs its name is noted; once it is over, what follows belongs to the next one.
_NEXT = {"construct": "add", "add": "add", "complete": "load", "load": "launch"}


class Spy:
    """What was seen since the last `reset`.

    on_phase: called with each phase as it begins, for whoever must know it if the process dies.
    linker: class name of the linker that was constructed last, or "".
    engine: what cuda.core says that it links with (`nvJitLink`, `driver`), or "".
    images: linked images in the order in which linkers completed them (bytes).
    inputs: names of the methods that added input, in order, over all links.
    loads: how many images were loaded.
    milliseconds: time by phase, added up.
    """

    def __init__(self) -> None:
        self.on_phase: Callable[[str], None] | None = None
        self.reset()

    @property
    def phase(self) -> str:
        """The phase that runs or comes next."""
        return self._phase

    @phase.setter
    def phase(self, phase: str) -> None:
        self._phase = phase
        if self.on_phase:
            self.on_phase(phase)

    def reset(self) -> None:
        """Forget what was seen."""
        self.phase = "configure"
        self.linker = ""
        self.linkers: list[str] = []
        self.engine = ""
        self.images: list[bytes] = []
        self.inputs: list[str] = []
        self.loads = 0
        self.milliseconds: dict[str, float] = defaultdict(float)
        self._at_work: list[object] = []

    def install(self, driver, class_names: list[str]) -> None:
        """Wrap the linker classes of `numba.cuda.cudadrv.driver` that exist in this release."""
        for name in class_names:
            cls = getattr(driver, name, None)
            if cls is not None:
                self._wrap_linker(cls)
        self._wrap(driver.Context, "create_module_image", "load")
        core_linker = getattr(driver, "Linker", None)
        if getattr(core_linker, "__module__", "").startswith("cuda.core"):
            driver.Linker = self._noting_engine(core_linker)

    def _wrap_linker(self, cls: type) -> None:
        self._wrap(cls, "__init__", "construct")
        for name in dir(cls):
            if name.startswith("add_"):
                self._wrap(cls, name, "add")
            elif name in ("complete", "get_linked_ptx"):
                self._wrap(cls, name, "complete")

    def _wrap(self, cls: type, name: str, phase: str) -> None:
        original = getattr(cls, name)

        @functools.wraps(original)
        def watched(*args, **kwargs):
            if self._at_work:  # a method that calls another is one step of the user's program
                return self._within(phase, original, args, kwargs)
            return self._watch(phase, name, original, args, kwargs)

        setattr(cls, name, watched)

    def _within(self, phase, original, args, kwargs):
        """A call inside another: noted only where one linker makes another one."""
        if phase == "construct" and not any(args[0] is one for one in self._at_work):
            self.linkers.append(type(args[0]).__name__)
        self._at_work.append(args[0])
        try:
            return original(*args, **kwargs)
        finally:
            self._at_work.pop()

    def _watch(self, phase, name, original, args, kwargs):
        self.phase = phase
        if phase == "construct":
            self.linker = type(args[0]).__name__
            self.linkers.append(self.linker)
        elif phase == "add":
            self.inputs.append(name)
        self._at_work.append(args[0])
        start = time.perf_counter()
        try:
            result = original(*args, **kwargs)
        finally:
            self._at_work.pop()
            self.milliseconds[phase] += (time.perf_counter() - start) * 1e3
        if name == "complete":
            self.images.append(_image(result))
        if phase == "load":
            self.loads += 1
        self.phase = _NEXT[phase]
        return result

    def _noting_engine(self, linker: type):
        @functools.wraps(linker, updated=())
        def construct(*args, **kwargs):
            made = linker(*args, **kwargs)
            self.engine = _engine(made)
            return made

        return construct


def _engine(linker) -> str:
    """What a cuda.core Linker links with; cuda.core 1.0 made its `backend` a method of another name."""
    if hasattr(linker, "backend"):
        return str(linker.backend)
    backend = linker.which_backend()
    return str(getattr(backend, "value", backend))


def _image(result) -> bytes:
    """The bytes of what `complete` returned: bytes, or a cuda.core ObjectCode."""
    return bytes(getattr(result, "code", result))
