"""What an option promises, read off the image and the result."""

from conformance.scenario import scenario
from conformance.scenarios.inputs import need, options, profile

SIGNATURE = "void(float32[::1], float32[::1])"
COMPILED_LATE = ("ptx", "cu", "ltoir")


def _hungry(stage, kind: str, compilation: str, **jit_options):
    """A kernel that calls a function which needs many registers, and the registers that it got."""
    import numpy as np

    cuda = stage.cuda
    hungry = stage.declare("hungry_f32", "float32(float32)")

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = hungry(a[i])

    signature = SIGNATURE if compilation == "eager" else None
    link = [stage.input("hungry_f32", kind)]
    kernel = stage.jit(kernel, signature, link=link, **options(kind), **jit_options)
    return kernel, np.ones(8, dtype=np.float32), np.full(8, 2, dtype=np.float32)


def _registers(stage) -> int:
    return stage.image()["kernels"]["kernel"]["registers"]


@scenario(
    cases="C18",
    each={"kind": COMPILED_LATE, "limit": (32, 64), "compilation": ("eager", "lazy")},
    needs=lambda kind, limit, compilation: ["option:max-registers", *need(kind)],
    profile=lambda kind, limit, compilation: profile(kind),
)
def max_registers(stage, kind, limit, compilation):
    """A limit on registers holds for a kernel that would take more."""
    kernel, a, reference = _hungry(stage, kind, "eager")
    free = _registers(stage)
    stage.check(free > limit, f"{free} registers without a limit: the scenario needs more than {limit}")
    kernel, a, reference = _hungry(stage, kind, compilation, max_registers=limit)
    stage.launch(
        kernel,
        reference,
        a,
        checking=lambda: stage.check(_registers(stage) <= limit, f"{_registers(stage)} registers, the limit is {limit}"),
    )


@scenario(cases="C18", each={"limit": (0, None)})
def no_limit_on_registers(stage, limit):
    """A limit of 0 or None is none."""
    kernel, a, reference = _hungry(stage, "ptx", "eager", max_registers=limit)
    stage.check(_registers(stage) > 64, f"{_registers(stage)} registers")
    stage.launch(kernel, reference, a)


def _add(stage, kind: str, **jit_options):
    import numpy as np

    cuda = stage.cuda
    add = stage.declare("add_i32", "int32(int32, int32)")

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = add(a[i], a[i])

    link = [stage.input("add_i32", kind)]
    kernel = stage.jit(kernel, "void(int32[::1], int32[::1])", link=link, **{**options(kind), **jit_options})
    a = np.arange(8, dtype=np.int32)
    return kernel, a + a, a


@scenario(
    each={"kind": ("ptx", "cu", "cubin", "ltoir")},
    needs=lambda kind: ["option:lineinfo", *need(kind)],
    profile=profile,
)
def lineinfo(stage, kind):
    """Line information is in the image where it is asked for."""
    kernel, reference, a = _add(stage, kind, lineinfo=True)
    stage.check(stage.image()["line_info"], "no line information")
    stage.launch(kernel, reference, a)


@scenario(cases="C22", each={"form": ("unset", "false"), "kind": ("ptx", "cubin")})
def no_lineinfo(stage, form, kind):
    """There is no line information where it was not asked for, or refused."""
    kernel, reference, a = _add(stage, kind, **({"lineinfo": False} if form == "false" else {}))
    stage.check(not stage.image()["line_info"], "line information that nobody asked for")
    stage.launch(kernel, reference, a)


@scenario(cases="C16", each={"kind": ("ptx", "cu", "cubin", "fatbin")})
def debug(stage, kind):
    """A debug kernel has debug information, and the same value."""
    kernel, reference, a = _add(stage, kind, debug=True, opt=False)
    stage.check(stage.image()["debug_info"], "no debug information")
    stage.launch(kernel, reference, a)


@scenario(each={"kind": ("ptx", "cu", "cubin")})
def no_optimisation(stage, kind):
    """Optimisation switched off: the same value."""
    kernel, reference, a = _add(stage, kind, opt=False)
    stage.launch(kernel, reference, a)


@scenario(each={"kind": ("ptx", "cu", "cubin")})
def launch_bounds(stage, kind):
    """Launch bounds beside linked code: the same value."""
    kernel, reference, a = _add(stage, kind, launch_bounds=(128, 2))
    stage.launch(kernel, reference, a)


@scenario(each={"kind": ("ptx", "cu", "cubin")})
def fastmath(stage, kind):
    """Fast mathematics in the kernel leaves integers of linked code alone."""
    kernel, reference, a = _add(stage, kind, fastmath=True)
    stage.launch(kernel, reference, a)


@scenario(needs=lambda: ["option:lto", "input:ltoir:path"], profile="extended", cases="C10")
def lto_inlines(stage):
    """With LTO a small function of LTO-IR is inlined: the image has no function of its name."""
    kernel, reference, a = _add(stage, "ltoir", lto=True)
    functions = stage.image()["functions"]
    stage.check("add_i32" not in functions, f"functions that were not inlined: {functions}")
    stage.launch(kernel, reference, a)


@scenario(each={"kind": ("ptx", "cubin")})
def without_lto_nothing_is_inlined(stage, kind):
    """Without LTO a linked function stays a function."""
    kernel, reference, a = _add(stage, kind, lto=False)
    functions = stage.image()["functions"]
    stage.check("add_i32" in functions, f"add_i32 is not among the functions {functions}")
    stage.launch(kernel, reference, a)
