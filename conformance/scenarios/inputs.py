"""Every kind of linkable code, from a path and from memory, alone and together."""

from conformance.model import KINDS
from conformance.scenario import scenario

FORMS = ("path", "bytes", "file")


def need(kind: str, form: str = "path") -> list[str]:
    """The features that an input of that kind and form needs; LTO-IR needs LTO as well."""
    place = "path" if form == "path" else "memory"
    return [f"input:{kind}:{place}", *(["option:lto"] if kind == "ltoir" else [])]


def options(*kinds: str) -> dict:
    """The options to link inputs of those kinds: LTO-IR is only taken where LTO is on."""
    return {"lto": True} if "ltoir" in kinds else {}


def profile(kind: str, **_) -> str:
    """What only some linkers take is extended."""
    return "extended" if kind == "ltoir" else "core"


@scenario(
    cases="C01",
    each={"kind": KINDS, "form": FORMS, "compilation": ("eager", "lazy")},
    needs=lambda kind, form, compilation: need(kind, form),
    profile=profile,
)
def integers(stage, kind, form, compilation):
    """One device function on integers, as every kind and in every form."""
    import numpy as np

    cuda = stage.cuda
    add = stage.declare("add_i32", "int32(int32, int32)")

    def kernel(out, a, b):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = add(a[i], b[i])

    signature = "void(int32[::1], int32[::1], int32[::1])" if compilation == "eager" else None
    a = np.arange(-16, 16, dtype=np.int32)
    b = np.arange(32, dtype=np.int32)[::-1].copy() * 7
    kernel = stage.jit(kernel, signature, link=[stage.input("add_i32", kind, form)], **options(kind))
    stage.launch(kernel, a + b, a, b)


@scenario(cases="C01", each={"kind": KINDS}, needs=need, profile=profile)
def single_precision(stage, kind):
    """A product of float32 values, whose every bit must be NumPy's."""
    import numpy as np

    cuda = stage.cuda
    multiply = stage.declare("mul_f32", "float32(float32, float32)")

    def kernel(out, a, b):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = multiply(a[i], b[i])

    a = np.linspace(-3, 5, 64, dtype=np.float32)
    b = np.linspace(0.1, 7, 64, dtype=np.float32)
    stage.launch(stage.jit(kernel, link=[stage.input("mul_f32", kind)], **options(kind)), a * b, a, b)


@scenario(cases="C01", each={"kind": KINDS}, needs=need, profile=profile)
def double_precision(stage, kind):
    """A product and a sum of float64 values, rounded apart from each other as in NumPy."""
    import numpy as np

    cuda = stage.cuda
    axpy = stage.declare("axpy_f64", "float64(float64, float64, float64)")

    def kernel(out, a, x, y):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = axpy(a, x[i], y[i])

    x = np.linspace(-3, 5, 64)
    y = np.linspace(0.1, 7, 64)
    kernel = stage.jit(kernel, link=[stage.input("axpy_f64", kind)], **options(kind))
    stage.launch(kernel, 1.1 * x + y, 1.1, x, y)


@scenario(each={"kind": KINDS}, needs=need, profile=profile)
def pointer(stage, kind):
    """A device function that stores through a pointer to the output."""
    import numpy as np

    cuda = stage.cuda
    store = stage.declare("store_i64", "int32(CPointer(int64), int64, int64)")

    def kernel(out, values):
        i = cuda.grid(1)
        if i < out.size:
            store(ffi.from_buffer(out), i, values[i])

    ffi = stage.ffi
    values = np.arange(48, dtype=np.int64) * 1_000_000_007
    stage.launch(stage.jit(kernel, link=[stage.input("store_i64", kind)], **options(kind)), values, values)


PAIRS = [(a, b) for a in KINDS for b in KINDS if a != b]


@scenario(
    each={"pair": [f"{a}-{b}" for a, b in PAIRS]},
    needs=lambda pair: [n for kind in pair.split("-") for n in need(kind)],
    profile=lambda pair: profile("ltoir" if "ltoir" in pair else pair),
)
def two_kinds(stage, pair):
    """Two units of different kinds in one kernel, the first of which calls the second."""
    import numpy as np

    cuda = stage.cuda
    caller, callee = pair.split("-")
    twice = stage.declare("twice_i32", "int32(int32)")

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = twice(a[i])

    a = np.arange(-16, 16, dtype=np.int32)
    link = [stage.input("twice_i32", caller), stage.input("add_i32", callee)]
    stage.launch(stage.jit(kernel, link=link, **options(caller, callee)), a * 2, a)


@scenario(
    needs=lambda: [n for kind in KINDS if kind != "ltoir" for n in need(kind)],
)
def every_kind_at_once(stage):
    """Units of six kinds, each with a function of its own, in one kernel."""
    import numpy as np

    cuda = stage.cuda
    add = stage.declare("add_i32", "int32(int32, int32)")
    twice = stage.declare("twice_i32", "int32(int32)")
    axpy = stage.declare("axpy_f64", "float64(float64, float64, float64)")
    multiply = stage.declare("mul_f32", "float32(float32, float32)")
    pair_a = stage.declare("pair_a", "int32(int32)")
    pair_b = stage.declare("pair_b", "int32(int32)")

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            four = multiply(np.float32(0.5), np.float32(8))
            out[i] = axpy(four, add(twice(a[i]), pair_a(a[i])), pair_b(a[i]))

    a = np.arange(24, dtype=np.int32)
    kinds = {"twice_i32": "ptx", "add_i32": "cubin", "axpy_f64": "fatbin", "mul_f32": "object"}
    kinds |= {"pair_a": "archive", "pair_b": "cu"}
    link = [stage.input(name, kind) for name, kind in kinds.items()]
    reference = 4.0 * (2 * a + 3 * a + 1) + 2 * (a + 5)
    stage.launch(stage.jit(kernel, link=link), reference, a)
