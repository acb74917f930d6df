"""What is kept of files and links, and what is let go of: by whole paths, from the beginning, to the end."""

import gc
import importlib

from conformance.scenario import scenario
from conformance.scenarios.inputs import need, options, profile
from conformance.scenarios.inspection import SIGNATURE, add_kernel, kernel_ptx, linker


@scenario(each={"kind": ("ptx", "cu", "cubin")})
def files_of_one_name(stage, kind):
    """Two files of one name in two folders, the first of which calls the second: both are linked."""
    import numpy as np

    cuda = stage.cuda
    twice = stage.declare("twice_i32", "int32(int32)")

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = twice(a[i])

    link = []
    for name in ("twice_i32", "add_i32"):
        source = stage.fixtures.path(name, kind)
        path = stage.folder / name / f"unit{source.suffix}"
        path.parent.mkdir()
        path.write_bytes(source.read_bytes())
        link.append(str(path))
    a = np.arange(-8, 8, dtype=np.int32)
    stage.launch(stage.jit(kernel, SIGNATURE, link=link), a + a, a)


@scenario(
    cases="C01",
    each={"kind": ("ptx", "cu", "cubin", "ltoir")},
    needs=lambda kind: need(kind, "file"),
    profile=profile,
)
def open_file_for_two_kernels(stage, kind):
    """An open file is linked into two kernels: the second gets as much of it as the first."""
    import numpy as np

    item = stage.input("add_i32", kind, "file")
    add_kernel(stage, item, **options(kind))
    a = np.arange(-8, 8, dtype=np.int32)
    stage.launch(add_kernel(stage, item, **options(kind)), a + a, a)


# What makes and ends a link, for each linker: modules with the names of two functions. The driver's own are
# taken from numba-cuda's object for the driver, which looks them up in whatever binding there is.
ENDS = {
    "ctypes": (("driver", "cuLinkCreate", "cuLinkDestroy"),),
    "cuda-python": (("driver", "cuLinkCreate", "cuLinkDestroy"),),
    "mvc": (("cubinlinker._nvlinklib", "create", "destroy"), ("ptxcompiler._ptxcompilerlib", "create", "destroy")),
    "pynvjitlink": (("pynvjitlink._nvjitlinklib", "create", "destroy"),),
    "cuda-core": (
        ("cuda.bindings.nvjitlink", "create", "destroy"),
        ("cuda.bindings.driver", "cuLinkCreate", "cuLinkDestroy"),
    ),
}


# Isolated: the functions stay wrapped.
@scenario(isolated=True)
def links_are_ended(stage):
    """Three kernels with linked code, and a link by hand: as many links are ended as were made, each once."""
    made, ended = _counting(stage)
    kernels = [add_kernel(stage, stage.input("add_i32", "cubin")) for _ in range(3)]
    one = linker(stage)
    one.add_ptx(kernel_ptx(stage, lambda out, a: None, SIGNATURE))
    one.complete()
    del one, kernels
    gc.collect()
    stage.check(len(made) >= 4, f"{len(made)} links were made for four images")
    left = [link for link in made if not ended(link)]
    stage.check(not left, f"{len(left)} of {len(made)} links were never ended")


def _counting(stage):
    """Links as they are made from now on, and what tells whether one has been ended.

    cuda.core's links tell it themselves: without a handle they have been ended. Where it is not compiled, the
    functions that it calls are looked at as well.
    """
    from numba.cuda.cudadrv import driver

    made, ends = [], []
    for name, create, destroy in ENDS[stage.cell.expected.linker]:
        of = driver.driver if name == "driver" else _imported(name)
        if of:
            _note_calls(of, create, made)
            _note_calls(of, destroy, ends)
    if stage.cell.expected.linker == "cuda-core":
        return _cores(driver, made, ends)
    return made, lambda link: made.index(link) < len(ends)


def _imported(name: str):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _note_calls(of, name: str, calls: list) -> None:
    """Have each call of a function noted once it has come back."""
    function = getattr(of, name)

    def noting(*arguments, **facts):
        result = function(*arguments, **facts)
        calls.append(object())
        return result

    setattr(of, name, noting)


def _cores(driver, calls: list, ends: list):
    """The same of cuda.core's links: those without a handle, where as many calls ended a link as made one."""
    made = []
    construct = driver.Linker

    def noting(*arguments, **facts):
        made.append(construct(*arguments, **facts))
        return made[-1]

    driver.Linker = noting
    return made, lambda link: not link.handle and len(calls) == len(ends)
