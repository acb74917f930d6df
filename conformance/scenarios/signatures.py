"""What a device function takes and gives: every width of numbers, pointers, pairs, many, nothing."""

from conformance.scenario import scenario
from conformance.scenarios.inputs import need, options, profile

# As PTX the two sides are compiled apart and meet by their ABI; as LTO-IR they become one module.
KINDS = ("ptx", "ltoir")
INTEGERS = {"int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64"}
INTEGERS |= {"uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64"}
FLOATS = {"float32": "f32", "float64": "f64"}
COMPLEXES = {"complex64": "c64", "complex128": "c128"}


def _map(stage, kind, name, number, values, reference, **declared) -> None:
    """A kernel that gives every value to a function of one argument."""
    cuda = stage.cuda
    function = stage.declare(name, f"{number}({number})", **declared)

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = function(a[i])

    stage.launch(stage.jit(kernel, link=[stage.input(name, kind)], **options(kind)), reference, values)


def _fits(kind, **_):
    return need(kind)


def _profile(kind, **_):
    return profile(kind)


@scenario(each={"kind": KINDS, "number": INTEGERS}, needs=_fits, profile=_profile)
def integer(stage, kind, number):
    """One more than an integer of that width, at both ends of its range and around zero."""
    import numpy as np

    least, most = np.iinfo(number).min, np.iinfo(number).max
    values = np.array([least, least + 1, 0, 1, 100, most - 1, most], dtype=number)
    reference = values + np.ones(1, dtype=number)
    _map(stage, kind, f"next_{INTEGERS[number]}", number, values, reference)


@scenario(each={"kind": KINDS, "number": FLOATS}, needs=_fits, profile=_profile)
def floating(stage, kind, number):
    """Half of a floating-point number, for signed zeros, the greatest, infinities and small ones."""
    import numpy as np

    facts = np.finfo(number)
    special = [0.0, -0.0, 1.5, -3.25, facts.max, facts.min, 4 * facts.tiny, np.inf, -np.inf]
    values = np.array(special, dtype=number)
    reference = values * np.array(0.5, dtype=number)
    _map(stage, kind, f"half_{FLOATS[number]}", number, values, reference)


@scenario(each={"kind": KINDS, "number": COMPLEXES}, needs=_fits, profile=_profile)
def complex_number(stage, kind, number):
    """A complex number times the imaginary unit: its parts come one by one, and go back as a pair."""
    import numpy as np

    values = np.array([1 + 2j, -0.5 + 0.25j, 3 - 4j, 1e9 + 1e-9j], dtype=number)
    reference = np.empty_like(values)
    reference.real, reference.imag = -values.imag, values.real
    _map(stage, kind, f"swap_{COMPLEXES[number]}", number, values, reference)


@scenario(each={"kind": KINDS}, needs=_fits, profile=_profile)
def boolean(stage, kind):
    """The opposite of a truth value."""
    import numpy as np

    values = np.array([True, False, False, True])
    _map(stage, kind, "not_bool", "boolean", values, ~values)


@scenario(each={"kind": KINDS}, needs=_fits, profile=_profile)
def mixed(stage, kind):
    """Arguments of five widths in an order that needs padding."""
    import numpy as np

    cuda = stage.cuda
    function = stage.declare("mixed_f64", "float64(int8, float64, int16, float32, int64, boolean)")

    def kernel(out, a, b, c, d, e, f):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = function(a[i], b[i], c[i], d[i], e[i], f[i])

    arguments = [
        np.array([-128, 127, -1, 5], dtype=np.int8),
        np.array([0.125, -2.5, 1e6, 3.0]),
        np.array([-32768, 32767, 12, -7], dtype=np.int16),
        np.array([0.5, 1.25, -4.75, 8.0], dtype=np.float32),
        np.array([-(2**40), 2**40, 3, 0]),
        np.array([True, False, True, False]),
    ]
    # Every partial sum is exact, so that no order of additions matters.
    reference = sum(values.astype(np.float64) for values in arguments)
    link = [stage.input("mixed_f64", kind)]
    stage.launch(stage.jit(kernel, link=link, **options(kind)), reference, *arguments)


@scenario(each={"kind": KINDS}, needs=_fits, profile=_profile)
def twenty_arguments(stage, kind):
    """Twenty arguments: more than the ABI passes in registers."""
    import numpy as np

    cuda = stage.cuda
    weigh = stage.declare("weigh_i32", f"int32({', '.join(['int32'] * 20)})")

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            x = a[i]
            out[i] = weigh(
                x, x + 1, x + 2, x + 3, x + 4, x + 5, x + 6, x + 7, x + 8, x + 9,
                x + 10, x + 11, x + 12, x + 13, x + 14, x + 15, x + 16, x + 17, x + 18, x + 19,
            )  # fmt: skip

    a = np.arange(-4, 4, dtype=np.int32)
    reference = sum((place + 1) * (a + place) for place in range(20)).astype(np.int32)
    link = [stage.input("weigh_i32", kind)]
    stage.launch(stage.jit(kernel, link=link, **options(kind)), reference, a)


@scenario(each={"kind": KINDS}, needs=_fits, profile=_profile)
def two_outputs(stage, kind):
    """A quotient and a rest through two pointers, and whether there are any as the value."""
    import numpy as np

    cuda, ffi = stage.cuda, stage.ffi
    signature = "int32(CPointer(int32), CPointer(int32), int64, int32, int32)"
    divide = stage.declare("divide_i32", signature)

    def kernel(out, quotient, rest, a, b):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = divide(ffi.from_buffer(quotient), ffi.from_buffer(rest), i, a[i], b[i])

    a = np.array([17, -17, 100, 3, 8], dtype=np.int32)
    b = np.array([5, 5, 7, 0, 8], dtype=np.int32)
    quotient, rest = np.full_like(a, 99), np.full_like(a, 99)
    kernel = stage.jit(kernel, link=[stage.input("divide_i32", kind)], **options(kind))
    stage.launch(kernel, (b != 0).astype(np.int32), quotient, rest, a, b)
    stage.verify(quotient, np.array([3, -3, 14, 99, 1], dtype=np.int32))
    stage.verify(rest, np.array([2, -2, 2, 99, 0], dtype=np.int32))


@scenario(each={"kind": KINDS}, needs=_fits, profile=_profile)
def array_of_doubles(stage, kind):
    """The sum of an array that is handed over as a pointer and a length."""
    import numpy as np

    cuda, ffi = stage.cuda, stage.ffi
    total = stage.declare("total_f64", "float64(CPointer(float64), int64)")

    def kernel(out, values):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = total(ffi.from_buffer(values), i + 1)

    values = np.linspace(0.1, 3.2, 32)
    kernel = stage.jit(kernel, link=[stage.input("total_f64", kind)], **options(kind))
    stage.launch(kernel, np.cumsum(values), values)


@scenario(each={"kind": KINDS}, needs=_fits, profile=_profile)
def pair_as_value(stage, kind):
    """A structure of two integers as the value: Numba's tuple."""
    import numpy as np

    cuda = stage.cuda
    split = stage.declare("split_i32", "UniTuple(int32, 2)(int32, int32)")

    def kernel(out, a, b):
        i = cuda.grid(1)
        if i < out.size:
            quotient, rest = split(a[i], b)
            out[i] = quotient * 1000 + rest

    a = np.arange(20, 52, dtype=np.int32)
    kernel = stage.jit(kernel, link=[stage.input("split_i32", kind)], **options(kind))
    stage.launch(kernel, (a // 7 * 1000 + a % 7).astype(np.int32), a, np.int32(7))


def _store(stage, name, kind, **declared) -> None:
    """A kernel that stores every value through a function without a value of its own."""
    import numpy as np

    cuda, ffi = stage.cuda, stage.ffi
    store = stage.declare(name, "void(CPointer(int64), int64, int64)", **declared)

    def kernel(out, values):
        i = cuda.grid(1)
        if i < out.size:
            store(ffi.from_buffer(out), i, values[i])

    values = np.arange(48, dtype=np.int64) * 1_000_000_007
    stage.launch(stage.jit(kernel, link=[stage.input(name, kind)], **options(kind)), values, values)


@scenario(each={"kind": KINDS}, needs=_fits, profile=_profile)
def no_value(stage, kind):
    """A function without a value, which stores through a pointer."""
    _store(stage, "store_void_i64", kind)


@scenario(each={"form": ("tuple", "text")}, fails="no-return-type")
def no_return_type(stage, form):
    """A declaration that leaves the value's type out."""
    from numba import types

    stage.declare("add_i32", "(int32, int32)" if form == "text" else (types.int32, types.int32))


# -- the C ABI ------------------------------------------------------------------------------------

C_ABI = ">=0.27"  # https://github.com/NVIDIA/numba-cuda/pull/717


@scenario(each={"kind": KINDS, "number": ("int32", "int8")}, needs=_fits, profile=_profile, releases=C_ABI)
def c_abi(stage, kind, number):
    """A function that returns its integer as C does, full width and narrow."""
    import numpy as np

    cuda = stage.cuda
    name = f"plain_{INTEGERS[number]}"
    minus = stage.declare(name, f"{number}({number}, {number})", abi="c")

    def kernel(out, a, b):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = minus(a[i], b[i])

    a = np.array([-128, -1, 0, 100, 127], dtype=number)
    b = np.array([1, 5, -7, -100, -128], dtype=number)
    stage.launch(stage.jit(kernel, link=[stage.input(name, kind)], **options(kind)), a - b, a, b)


@scenario(each={"kind": KINDS}, needs=_fits, profile=_profile, releases=C_ABI)
def c_abi_floating(stage, kind):
    """A function that takes and returns floating-point numbers as C does."""
    import numpy as np

    cuda = stage.cuda
    scale = stage.declare("plain_f64", "float64(float64, int32)", abi="c")

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = scale(a[i], i)

    a = np.linspace(-1, 1, 16) / 3
    kernel = stage.jit(kernel, link=[stage.input("plain_f64", kind)], **options(kind))
    stage.launch(kernel, a / 2.0 ** np.arange(16), a)


@scenario(each={"kind": KINDS}, needs=_fits, profile=_profile, releases=C_ABI)
def c_abi_no_value(stage, kind):
    """A function that returns nothing, as C does."""
    _store(stage, "plain_void_i64", kind, abi="c")


@scenario(each={"outer": ("numba", "c")}, needs=lambda outer: need("ptx"), releases=C_ABI)
def both_abis(stage, outer):
    """A function of one ABI on what a function of the other gives."""
    import numpy as np

    cuda = stage.cuda
    add = stage.declare("add_i32", "int32(int32, int32)")
    minus = stage.declare("plain_i32", "int32(int32, int32)", abi="c")
    first, second = (minus, add) if outer == "numba" else (add, minus)

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = second(first(a[i], 3), 10)

    a = np.arange(-8, 8, dtype=np.int32)
    link = [stage.input(name, "ptx") for name in ("add_i32", "plain_i32")]
    stage.launch(stage.jit(kernel, link=link), a - 3 + 10 if outer == "numba" else a + 3 - 10, a)
