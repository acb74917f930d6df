"""What an option promises, read off the image and the result."""

import itertools

from conformance.model import ExpectedWarning
from conformance.scenario import scenario
from conformance.scenarios.inputs import need, options, profile
from conformance.scenarios.inspection import linker

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


def _check_registers(stage, limit: int) -> None:
    stage.check(_registers(stage) <= limit, f"{_registers(stage)} registers, the limit is {limit}")


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
        checking=lambda: _check_registers(stage, limit),
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


BOUNDS = {"1024": 1024, "1024-2": (1024, 2)}


@scenario(each={"bounds": BOUNDS}, needs=lambda bounds: need("ltoir"), profile="extended")
def launch_bounds(stage, bounds):
    """Launch bounds leave a kernel as many registers as fit: 64 for 1024 threads, 32 for two such blocks."""
    kernel, a, reference = _hungry(stage, "ltoir", "eager", launch_bounds=BOUNDS[bounds])
    _check_registers(stage, 32 if bounds == "1024-2" else 64)
    stage.launch(kernel, reference, a)


@scenario(each={"kind": ("ptx", "cubin")}, fails="callee-with-more-registers")
def launch_bounds_too_tight(stage, kind):
    """Launch bounds that leave fewer registers than a function needs which is compiled apart from them."""
    kernel, a, reference = _hungry(stage, kind, "eager", launch_bounds=1024)
    stage.launch(kernel, reference, a)


@scenario(cases="C18", each={"kind": ("cubin", "fatbin")}, fails="callee-with-more-registers")
def max_registers_of_assembled(stage, kind):
    """A limit on registers that is below what a function was assembled with."""
    kernel, a, reference = _hungry(stage, kind, "eager", max_registers=32)
    stage.launch(kernel, reference, a)


def _quotient(stage, kind: str, **jit_options):
    """A kernel that divides by itself and through linked code."""
    import numpy as np

    cuda = stage.cuda
    divide = stage.declare("quotient_f32", "float32(float32, float32)")

    def kernel(out, a, b):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = divide(a[i], b[i]) + a[i] / b[i]

    a = np.linspace(1, 9, 32, dtype=np.float32)
    b = np.linspace(3, 5, 32, dtype=np.float32)
    kernel = stage.jit(
        kernel, f"void({', '.join(['float32[::1]'] * 3)})", link=[stage.input("quotient_f32", kind)],
        **{**options(kind), **jit_options},
    )  # fmt: skip
    return kernel, a / b + a / b, a, b


@scenario(each={"kind": ("ptx", "cubin", "ltoir")}, needs=need, profile=profile)
def fastmath(stage, kind):
    """Fast mathematics divides approximately in the kernel; the sum of two quotients is off by 4 ULP at most.

    CUDA's manual has 2 ULP for a fast division (divisors from 2**-126 to 2**126) and half of one for the
    other. A sum of two positive numbers adds no more to the relative error than its own rounding.
    """
    kernel, reference, a, b = _quotient(stage, kind, fastmath=True)
    (ptx,) = kernel.inspect_asm().values()
    stage.check("div.approx" in ptx or "div.full" in ptx, "the kernel does not divide approximately")
    stage.launch(kernel, reference, a, b, ulp=4)


@scenario(each={"kind": ("ptx", "cubin", "ltoir")}, needs=need, profile=profile)
def no_fastmath(stage, kind):
    """Without fast mathematics both quotients are rounded correctly, bit for bit."""
    kernel, reference, a, b = _quotient(stage, kind)
    (ptx,) = kernel.inspect_asm().values()
    stage.check("div.rn" in ptx, "the kernel does not divide as IEEE 754 says")
    stage.launch(kernel, reference, a, b)


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


@scenario(
    cases=("C10", "C22"),
    each={"kind": ("cu", "ltoir")},
    needs=lambda kind: ["option:lto", *need(kind)],
    profile="extended",
)
def lto_and_opt(stage, kind):
    """LTO with optimisation switched off in the kernel: the same value."""
    kernel, reference, a = _add(stage, kind, lto=True, opt=False)
    stage.launch(kernel, reference, a)


@scenario(cases="C22", each={"kind": ("ptx", "cu", "cubin")})
def everything_refused(stage, kind):
    """Every switch given as False is as if it had not been given: no LTO, no line or debug information."""
    kernel, reference, a = _add(stage, kind, lto=False, debug=False, lineinfo=False, fastmath=False)
    facts = stage.image()
    stage.check("add_i32" in facts["functions"], f"add_i32 is not among the functions {facts['functions']}")
    stage.check(not facts["line_info"] and not facts["debug_info"], "information that was refused")
    stage.launch(kernel, reference, a)


# -- debug ----------------------------------------------------------------------------------------

LTO_TOO = {"unset": {}, "true": {"lto": True}}


@scenario(
    cases="C16",
    each={"kind": ("ptx", "cu", "ltoir"), "lto": LTO_TOO},
    when=lambda kind, lto: kind != "ltoir" or lto == "true",
    needs=lambda kind, lto: [*(["option:lto"] if lto == "true" else []), *need(kind)],
    profile=lambda kind, lto: "extended" if lto == "true" else "core",
)
def debug_asserts(stage, kind, lto):
    """A debug kernel asserts that a sum which linked code gives is positive; LTO asked for or left alone."""
    import numpy as np

    cuda = stage.cuda
    add = stage.declare("add_i32", "int32(int32, int32)")

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            total = add(a[i], a[i])
            assert total > 0
            out[i] = total

    a = np.arange(1, 9, dtype=np.int32)
    signature, link = "void(int32[::1], int32[::1])", [stage.input("add_i32", kind)]
    kernel = stage.jit(kernel, signature, link=link, debug=True, opt=False, **LTO_TOO[lto])
    stage.launch(kernel, a + a, a)


@scenario(cases="C03", needs=["input:ltoir:path", "option:ltoir-without-lto"], profile="extended")
def debug_with_ltoir(stage):
    """A debug kernel, for which LTO is off by default, calls a function that brings LTO-IR along."""
    import numpy as np

    cuda = stage.cuda
    add = stage.declare("add_i32", "int32(int32, int32)", link=stage.input("add_i32", "ltoir"))

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = add(a[i], a[i])

    a = np.arange(8, dtype=np.int32)
    kernel = stage.jit(kernel, "void(int32[::1], int32[::1])", debug=True, opt=False)
    stage.launch(kernel, a + a, a)


NO_OPT = ExpectedWarning("NumbaInvalidConfigWarning", "debug=True with opt=True")


@scenario(cases="C29", each={"debug": ["".join(letters) for letters in itertools.product("nd", repeat=3)]})
def debug_of_callees(stage, debug):
    """A kernel and two device functions, each with debug (d) or not (n), and linked code at the end."""
    import numpy as np

    cuda = stage.cuda
    of_kernel, outer, inner = (letter == "d" for letter in debug)
    add = stage.declare("add_i32", "int32(int32, int32)", link=stage.input("add_i32", "cu"))

    @cuda.jit(device=True, debug=inner, opt=False)
    def last(a):
        return add(a, a)

    @cuda.jit(device=True, debug=outer, opt=False)
    def middle(a):
        return last(a) + 1

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = middle(a[i])

    a = np.arange(8, dtype=np.int32)
    kernel = stage.jit(kernel, "void(int32[::1], int32[::1])", debug=of_kernel, opt=False)
    if of_kernel:
        stage.check(stage.image()["debug_info"], "no debug information")
    stage.launch(kernel, a + a + 1, a)


@scenario(cases="C29", each={"kind": ("ptx", "cu")}, warnings=NO_OPT)
def debug_with_opt(stage, kind):
    """Debug with optimisation left on: one warning, and the same value."""
    kernel, reference, a = _add(stage, kind, debug=True)
    stage.launch(kernel, reference, a)


BOTH = ExpectedWarning("NumbaInvalidConfigWarning", "debug and lineinfo are mutually exclusive")


@scenario(each={"kind": ("ptx", "cubin")}, warnings=BOTH)
def debug_with_lineinfo(stage, kind):
    """Debug with line information: one warning, and the same value."""
    kernel, reference, a = _add(stage, kind, debug=True, opt=False, lineinfo=True)
    stage.launch(kernel, reference, a)


# -- compute capability ---------------------------------------------------------------------------


TARGETS = {"sm-75": (7, 5), "sm-80": (8, 0)}


def _lto_needs(lto: bool, **_) -> list[str]:
    return ["option:lto"] if lto else []


def _lto_profile(lto: bool, **_) -> str:
    return "extended" if lto else "core"


@scenario(cases="C13", each={"target": TARGETS})
def other_target(stage, target):
    """A linker for another compute capability than the device's compiles CUDA C++ for that one."""
    target = TARGETS[target]
    one = linker(stage, cc=target)
    one.add_file_guess_ext(str(stage.broken("mark.cu")))
    one.complete()
    facts, number = stage.image(), "".join(map(str, target))
    stage.check(facts["architecture"] == f"sm_{number}", f"the image is for {facts['architecture']}")
    stage.check(f"compiled_for_{number}0" in facts["globals"], f"it was {', '.join(facts['globals'])}")


# Isolated: some linkers miss what is undefined in a process in which they have refused an input.
@scenario(
    cases="C17",
    each={"lto": (False, True)},
    needs=_lto_needs,
    profile=_lto_profile,
    fails=lambda lto: "needs-suffix-after-lto" if lto else "needs-suffix",
    isolated=True,
)
def architecture_with_suffix(stage, lto):
    """CUDA C++ with an instruction that only a target with a suffix has (on compute capability 9.0)."""
    import numpy as np

    cuda = stage.cuda
    needs = stage.declare("needs_90a", "int32(int32)", link=str(stage.broken("needs_90a.cu")))

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = needs(a[i])

    a = np.arange(128, dtype=np.int32)
    stage.launch(stage.jit(kernel, "void(int32[::1], int32[::1])", lto=lto), a + 1, a)
