"""What a scenario works with: the user's side of numba-cuda, fixtures, and checked launches."""

from __future__ import annotations

import ctypes
import hashlib
import io
import os
import shutil
import tempfile
from functools import cached_property
from pathlib import Path

from conformance.fixtures import Fixtures
from conformance.model import Cell
from conformance.spy import Spy

_BROKEN = Path(__file__).resolve().parent.parent / "fixtures" / "broken"
# Outputs are filled with this byte before a launch; a reference that holds an element of it is refused.
POISON = 0xA5

_CLASSES = {
    "ptx": "PTXSource",
    "cu": "CUSource",
    "cubin": "Cubin",
    "fatbin": "Fatbin",
    "object": "Object",
    "archive": "Archive",
    "ltoir": "LTOIR",
}


class NotLaunched(Exception):
    """The recording driver refused a launch: all before it was seen, nothing after it can be."""


class WrongValue(AssertionError):
    """A kernel's output is not the reference."""


class WrongImage(AssertionError):
    """A linked image is not what was asked for."""


class Stage:
    """The stage on which one scenario plays.

    cuda: the module `numba.cuda`. cell: the environment and release. spy: what was seen of the link.
    """

    def __init__(self, cell: Cell, spy: Spy):
        from numba import cuda

        self.cuda = cuda
        self.cell = cell
        self.spy = spy
        self.fixtures = Fixtures(cell.fixtures)
        self.launched = False
        self._digest = hashlib.sha256()

    @cached_property
    def folder(self) -> Path:
        """An empty folder for what the scenario generates.

        `close` deletes it, or for a process that died, `isolated` by the process's number in its name.
        """
        return Path(tempfile.mkdtemp(prefix=f"conformance-{os.getpid()}-"))

    def close(self) -> None:
        """Delete what the scenario left behind."""
        if "folder" in self.__dict__:
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def digest(self) -> str:
        """SHA-256 over all verified outputs, with their types and shapes."""
        return self._digest.hexdigest()

    def linkable(self, kind: str):
        """numba-cuda's class for code of that kind in memory."""
        return getattr(self.cuda, _CLASSES[kind])

    def code(self, data, kind: str, name: str, **callbacks):
        """Code of that kind in memory, from bytes, text or an open file."""
        return self.linkable(kind)(data, name=name, **callbacks)

    def input(self, name: str, kind: str, form: str = "path"):
        """A fixture as a user hands it over: its `path`, its `bytes` or an open `file` in LinkableCode."""
        path = self.fixtures.path(name, kind)
        if form == "path":
            return str(path)
        data = path.read_bytes()
        return self.code(data if form == "bytes" else io.BytesIO(data), kind, path.name)

    def broken(self, name: str) -> Path:
        """A file of `fixtures/broken`: bad on purpose, and never built."""
        return _BROKEN / name

    @property
    def ffi(self):
        """CFFI's interface, whose `from_buffer` gives kernels an array's address."""
        import cffi

        return cffi.FFI()

    def declare(self, name: str, signature: str, **options):
        """An external device function."""
        return self.cuda.declare_device(name, signature, **options)

    def jit(self, function, signature=None, **options):
        """A kernel; compiled and linked at once where a signature is given."""
        self.spy.phase = "configure"
        if signature is None:
            return self.cuda.jit(**options)(function)
        return self.cuda.jit(signature, **options)(function)

    def image(self) -> dict:
        """Facts of the image that was linked last; raises WrongImage where none was."""
        from conformance.image import facts

        if not self.spy.images:
            raise WrongImage("nothing was linked")
        return facts(self.spy.images[-1])

    def check(self, holds: bool, otherwise: str) -> None:
        """Raise WrongImage that says what is wrong, unless a condition on the image holds."""
        if not holds:
            self.spy.phase = "verify"
            raise WrongImage(otherwise)

    def launch(
        self, kernel, reference, *arguments, blocks: int = 1, shared: int = 0, ulp: int = 0, checking=None
    ) -> None:
        """Launch `kernel(out, *arguments)`, one thread an element, and check `out` bit for bit.

        reference: NumPy array of the values that `out` must have, element by element. shared: bytes of
        dynamic shared memory. ulp: units in the last place by which an element may differ, where the
        scenario says why. checking: called once the image is there, whether or not the launch is refused.
        """
        import numpy as np

        out = np.empty_like(reference)
        out.view(np.uint8).fill(POISON)
        if (reference.view(np.uint8).reshape(reference.size, -1) == POISON).all(axis=1).any():
            raise ValueError("the reference holds the poison; choose other inputs")
        configuration = (blocks, -(-reference.size // blocks), *((0, shared) if shared else ()))
        try:
            self.call(kernel, configuration, out, *arguments)
        except NotLaunched:
            if checking:
                checking()
            raise
        if checking:
            checking()
        self.verify(out, reference, ulp)

    def call(self, kernel, configuration, *arguments) -> None:
        """Launch a kernel and wait for it; on a recording driver the scenario ends here."""
        refused = self._refusals()
        try:
            kernel[configuration](*arguments)
            self.cuda.synchronize()
        except Exception as error:
            if self._refusals() > refused:
                raise NotLaunched from error
            raise
        self.launched = True

    def _refusals(self) -> int:
        """How many launches the recording driver has refused; 0 on a device."""
        if self.cell.driver.kind != "recording":
            return 0
        return ctypes.CDLL("libcuda.so.1").recordingLaunchCount()

    def verify(self, out, reference, ulp: int = 0) -> None:
        """Check an output against its reference; raises WrongValue that shows the first difference."""
        import numpy as np

        self.spy.phase = "verify"
        out = np.asarray(out)
        self._digest.update(f"{out.dtype.str}{out.shape}".encode() + out.tobytes())
        alike = out.dtype == reference.dtype and out.shape == reference.shape
        if alike and out.tobytes() == reference.tobytes():
            return
        if alike and ulp:
            np.testing.assert_array_max_ulp(out, reference, ulp)
            return
        raise WrongValue(_first_difference(out, reference))


def _first_difference(out, reference) -> str:
    import numpy as np

    if out.shape != reference.shape or out.dtype != reference.dtype:
        return f"{out.dtype}{out.shape} instead of {reference.dtype}{reference.shape}"
    width = reference.dtype.itemsize
    cells = out.view(np.uint8).reshape(-1, width) != reference.view(np.uint8).reshape(-1, width)
    wrong = np.flatnonzero(cells.any(axis=1))
    i = int(wrong[0])
    poison = bytes([POISON]) * width
    unwritten = " (never written)" if out.reshape(-1)[i].tobytes() == poison else ""
    return (
        f"{wrong.size} of {reference.size} elements are wrong; the first is [{i}]: "
        f"{out.reshape(-1)[i]!r}{unwritten} instead of {reference.reshape(-1)[i]!r}"
    )
