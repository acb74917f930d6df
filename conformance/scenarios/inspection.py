"""What a user can look at: assembly, SASS and LLVM of kernels with linked code, dumps, a linker's logs."""

import contextlib
import io
import os
import sys
import warnings

from conformance.scenario import scenario
from conformance.scenarios.inputs import need, options, profile

SIGNATURE = "void(int32[::1], int32[::1])"


@contextlib.contextmanager
def setting(name: str, value, module: str = "numba.cuda.codegen"):
    """A setting of Numba's while the program runs; `module` is one that reads it."""
    config = sys.modules[module].config
    before = getattr(config, name)
    setattr(config, name, value)
    try:
        yield
    finally:
        setattr(config, name, before)


def add_kernel(stage, *link, **jit_options):
    """A kernel that calls add_i32, compiled for one signature."""
    return stage.jit(_adding(stage), SIGNATURE, link=list(link), **jit_options)


def _adding(stage):
    cuda = stage.cuda
    add = stage.declare("add_i32", "int32(int32, int32)")

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = add(a[i], a[i])

    return kernel


def _fits(kind, **_):
    return need(kind)


def _profile(kind, **_):
    return profile(kind)


# -- a kernel's code ------------------------------------------------------------------------------


@scenario(each={"kind": ("ptx", "cu", "cubin", "ltoir")}, needs=_fits, profile=_profile)
def assembly(stage, kind):
    """A kernel's PTX declares the external function, calls it, and does not define it."""
    kernel = add_kernel(stage, stage.input("add_i32", kind), **options(kind))
    for ptx in kernel.inspect_asm().values():
        stage.check(".extern .func" in ptx and "add_i32" in ptx, "the function is not declared")
        stage.check(".visible .func" not in ptx, "a function is defined in the kernel's PTX")


@scenario(each={"kind": ("ptx", "ltoir")}, needs=_fits, profile=_profile)
def llvm(stage, kind):
    """A kernel's LLVM IR declares the external function."""
    kernel = add_kernel(stage, stage.input("add_i32", kind), **options(kind))
    for text in kernel.inspect_llvm().values():
        declared = any("declare" in line and "add_i32" in line for line in text.splitlines())
        stage.check(declared, "the function is not declared")


@scenario(
    each={"kind": ("cu", "ltoir")},
    needs=lambda kind: ["option:lto", *need(kind)],
    profile="extended",
    releases=">=0.18",  # https://github.com/NVIDIA/numba-cuda/releases/tag/v0.18.0
)
def assembly_after_lto(stage, kind):
    """After LTO a kernel's PTX has the external function in it, and calls nothing any more."""
    kernel = add_kernel(stage, stage.input("add_i32", kind), lto=True)
    for ptx in kernel.inspect_lto_ptx().values():
        stage.check(".entry" in ptx, "there is no kernel")
        stage.check(".extern .func" not in ptx and "call" not in ptx, "a function is still called")


@scenario(releases=">=0.18", fails="no-lto-assembly")
def assembly_after_lto_without_lto(stage):
    """PTX after LTO of a kernel that was linked without."""
    add_kernel(stage, stage.input("add_i32", "ptx"), lto=False).inspect_lto_ptx()


# A disassembler that tells how many bytes it was given, in its options' stead.
_DISASSEMBLER = """#!/bin/sh
for file; do :; done
echo "options: $1"
echo "bytes: $(wc -c < "$file")"
"""


@contextlib.contextmanager
def _tools(folder: str):
    """The tools of that folder and no others, wherever a release looks for them."""
    before = dict(os.environ)
    os.environ.update(PATH=f"{folder}/bin:/usr/bin:/bin" if folder else "/nonexistent")
    for name in ("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX"):
        os.environ.pop(name, None)
    if folder:
        os.environ["CUDA_HOME"] = folder
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


# Isolated: newer releases remember where the disassembler is.
@scenario(each={"what": ("sass", "sass_cfg")}, isolated=True)
def disassembly(stage, what):
    """The disassembler gets the whole image, linked code included."""
    kernel = add_kernel(stage, stage.input("add_i32", "cubin"))
    tool = stage.folder / "bin" / "nvdisasm"
    tool.parent.mkdir()
    tool.write_text(_DISASSEMBLER)
    tool.chmod(0o755)
    with _tools(str(stage.folder)):
        (said,) = getattr(kernel, f"inspect_{what}")().values()
    wanted = f"options: {'-gi' if what == 'sass' else '-cfg'}\nbytes: {len(stage.spy.images[-1])}\n"
    stage.check(said == wanted, f"the disassembler got {said!r} instead of {wanted!r}")


@scenario(fails="no-disassembler", isolated=True)
def disassembly_without_the_tool(stage):
    """There is no disassembler: an error that says which tool is missing."""
    kernel = add_kernel(stage, stage.input("add_i32", "ptx"))
    with _tools(""):
        kernel.inspect_sass()


# -- dumps ----------------------------------------------------------------------------------------


def _dumped(stage, *link, **jit_options) -> tuple[str, list[str]]:
    """What is printed while a kernel is compiled with the dump switched on, and the warnings' texts."""
    printed = io.StringIO()
    with setting("DUMP_ASSEMBLY", 1), contextlib.redirect_stdout(printed):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            add_kernel(stage, *link, **jit_options)
    return printed.getvalue(), [str(w.message) for w in caught]


@scenario(each={"kind": ("ptx", "cu", "cubin")})
def dump(stage, kind):
    """The dump without LTO has the kernel's PTX, and that of the CUDA C++ which was compiled for it."""
    said, warned = _dumped(stage, stage.input("add_i32", kind), lto=False)
    stage.check(".entry" in said, "the kernel's PTX was not printed")
    stage.check(("ASSEMBLY add_i32.cu" in said) == (kind == "cu"), "the wrong units were printed")
    stage.check("AFTER LTO" not in said, "it tells of an LTO that was refused")
    stage.check(not warned, f"it warned: {warned}")


@scenario(each={"kind": ("cu", "ltoir")}, needs=lambda kind: ["option:lto", *need(kind)], profile="extended")
def dump_after_lto(stage, kind):
    """The dump with LTO has the PTX after it, in which nothing is called any more."""
    said, warned = _dumped(stage, stage.input("add_i32", kind), lto=True)
    _, _, after = said.partition("ASSEMBLY (AFTER LTO)")
    stage.check(".entry" in after, "no PTX was printed after LTO")
    stage.check("call" not in after, "the PTX after LTO still calls something")
    stage.check(not warned, f"it warned: {warned}")


NOT_OPTIMISED = "not optimizable at link time"


@scenario(
    each={"kind": ("ptx", "cubin", "archive")},
    needs=lambda kind: ["option:lto", *need(kind)],
    profile="extended",
)
def dump_leaves_out(stage, kind):
    """The dump with LTO leaves out what LTO does not reach, and warns of it by name."""
    item = stage.input("add_i32", kind)
    said, warned = _dumped(stage, item, lto=True)
    stage.check("ASSEMBLY (AFTER LTO)" in said, "no PTX was printed after LTO")
    named = [text for text in warned if item in text and NOT_OPTIMISED in text]
    stage.check(len(named) == 1 == len(warned), f"warnings: {warned}")


# -- a linker driven by hand ----------------------------------------------------------------------


def capability(stage) -> tuple[int, ...]:
    """The compute capability of the device, as linkers take it."""
    return tuple(int(part) for part in stage.cell.driver.compute_capability.split("."))


def linker(stage, **facts):
    """A linker, made as the release itself makes it, in a context as the driver's linker wants one."""
    from numba.cuda.cudadrv import driver

    stage.cuda.current_context()
    made = getattr(driver, "_Linker", None) or driver.Linker
    return getattr(made, "new", made)(**{"cc": capability(stage), **facts})


def kernel_ptx(stage, kernel, signature: str) -> bytes:
    """The PTX of a kernel by itself, before any link."""
    from numba.cuda import compile_ptx

    text, _ = compile_ptx(kernel, signature, cc=capability(stage))
    return text.encode()


def _by_hand(stage, *kinds):
    """A linker with a kernel's PTX and add_i32 of those kinds added."""
    one = linker(stage)
    one.add_ptx(kernel_ptx(stage, _adding(stage), SIGNATURE))
    for kind in kinds:
        one.add_file_guess_ext(stage.input("add_i32", kind))
    return one


@scenario(cases="C02", each={"kind": ("ptx", "cu", "cubin")})
def logs_after_a_link(stage, kind):
    """After a link both logs are there, as text or as None where they are empty, and no error is in them."""
    one = _by_hand(stage, kind)
    one.complete()
    for log in (one.info_log, one.error_log):
        stage.check(log is None or isinstance(log, str), f"a log is {log!r}")
        stage.check("error" not in (log or "").lower(), f"a log says {log!r}")


@scenario(cases="C02", fails="logs-too-early")
def logs_before_a_link(stage):
    """Before the link there is nothing in the logs, or they cannot be asked for yet."""
    one = _by_hand(stage, "ptx")
    for log in (one.info_log, one.error_log):
        stage.check(not (log or "").strip("\0\n "), f"a log says {log!r}")


# Isolated: some linkers miss what is undefined in a process in which they have refused an input.
@scenario(cases="C02", isolated=True)
def log_after_a_failed_link(stage):
    """After a link that failed the log of errors names the function that was missing."""
    one = _by_hand(stage)
    try:
        one.complete()
    except Exception:  # which one is the business of mistakes/undefined-symbol
        log = one.error_log
    else:
        raise AssertionError("a link without the function went well")
    stage.check("add_i32" in (log or ""), f"the log of errors says {log!r}")
