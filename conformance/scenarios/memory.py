"""Memory that linked code brings along or shares: globals, constants, shared memory, atomics."""

from conformance.model import KINDS
from conformance.scenario import scenario
from conformance.scenarios.inputs import need, options, profile

# Where it does not matter which container holds the code: assembled late, early, and after LTO.
FEW = ("ptx", "cubin", "ltoir")
# Every kind once as the unit that defines, and once as the one that reads.
RING = tuple(zip(KINDS, (*KINDS[1:], KINDS[0]), strict=True))


@scenario(each={"kind": KINDS}, needs=need, profile=profile)
def constant(stage, kind):
    """A table in constant memory."""
    import numpy as np

    cuda = stage.cuda
    table = stage.declare("table_f64", "float64(int32)")

    def kernel(out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = table(i)

    reference = np.arange(8, dtype=np.float64) % 4 + 0.5
    stage.launch(stage.jit(kernel, link=[stage.input("table_f64", kind)], **options(kind)), reference)


@scenario(each={"kind": KINDS}, needs=need, profile=profile)
def static_shared(stage, kind):
    """Shared memory that linked code declares and synchronises."""
    import numpy as np

    cuda = stage.cuda
    exchange = stage.declare("shared_i32", "int32(int32, int32)")

    def kernel(out, a):
        i = cuda.threadIdx.x
        out[i] = exchange(i, a[i])

    a = np.arange(32, dtype=np.int32) * 3
    link = [stage.input("shared_i32", kind)]
    kernel = stage.jit(kernel, "void(int32[::1], int32[::1])", link=link, **options(kind))
    facts = stage.image()["kernels"]["kernel"]
    stage.check(facts["shared"] >= 128, f"{facts['shared']} bytes of shared memory instead of 128 and more")
    stage.launch(kernel, np.roll(a, -1), a)


@scenario(each={"kind": KINDS}, needs=need, profile=profile)
def atomic(stage, kind):
    """An atomic addition in linked code, by all threads to one counter."""
    import numpy as np

    cuda = stage.cuda
    count = stage.declare("count_i32", "int32(CPointer(int32), int32)")

    def kernel(out, counter):
        i = cuda.grid(1)
        if i < out.size:
            count(ffi.from_buffer(counter), i)
            out[i] = i

    ffi = stage.ffi
    counter = np.zeros(1, dtype=np.int32)
    kernel = stage.jit(kernel, link=[stage.input("count_i32", kind)], **options(kind))
    stage.launch(kernel, np.arange(64, dtype=np.int32), counter)
    stage.verify(counter, np.array([64 * 63 // 2], dtype=np.int32))


@scenario(
    each={"pair": [f"{a}-{b}" for a, b in RING]},
    needs=lambda pair: [n for kind in pair.split("-") for n in need(kind)],
    profile=lambda pair: profile("ltoir" if "ltoir" in pair else pair),
)
def shared_global(stage, pair):
    """A global that one unit defines and another, of another kind, reads."""
    import numpy as np

    cuda = stage.cuda
    defines, reads = pair.split("-")
    number = stage.declare("number_i32", "int32()")
    after = stage.declare("number_next_i32", "int32()")

    def kernel(out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = number() + after()

    link = [stage.input("number_i32", defines), stage.input("number_next_i32", reads)]
    kernel = stage.jit(kernel, "void(int32[::1])", link=link, **options(defines, reads))
    stage.check("number" in stage.image()["globals"], "the image has no global `number`")
    stage.launch(kernel, np.full(8, 15, dtype=np.int32))


@scenario(each={"kind": KINDS}, needs=need, profile=profile)
def dynamic_shared(stage, kind):
    """Dynamic shared memory of the kernel beside linked code."""
    import numpy as np

    cuda = stage.cuda
    add = stage.declare("add_i32", "int32(int32, int32)")

    def kernel(out, a):
        values = cuda.shared.array(0, "int32")
        i = cuda.threadIdx.x
        values[i] = a[i]
        cuda.syncthreads()
        out[i] = add(values[out.size - 1 - i], 1)

    a = np.arange(32, dtype=np.int32)
    kernel = stage.jit(kernel, link=[stage.input("add_i32", kind)], **options(kind))
    stage.launch(kernel, a[::-1] + np.int32(1), a, shared=32 * 4)


SHARED_SIGNATURE = "void(int32[::1], int32[::1])"


@scenario(each={"kind": FEW}, needs=need, profile=profile)
def dynamic_shared_in_linked_code(stage, kind):
    """Dynamic shared memory that linked code declares, of the size that the launch gives."""
    import numpy as np

    cuda = stage.cuda
    exchange = stage.declare("dynamic_i32", "int32(int32, int32, int32)")

    def kernel(out, a):
        i = cuda.threadIdx.x
        out[i] = exchange(i, out.size, a[i])

    a = np.arange(64, dtype=np.int32) * 5
    kernel = stage.jit(kernel, link=[stage.input("dynamic_i32", kind)], **options(kind))
    stage.launch(kernel, a[::-1].copy(), a, shared=64 * 4)


@scenario(each={"kind": FEW}, needs=need, profile=profile)
def both_sides_share(stage, kind):
    """Static shared memory of the kernel and of linked code, each in a place of its own."""
    import numpy as np

    cuda = stage.cuda
    exchange = stage.declare("shared_i32", "int32(int32, int32)")

    def kernel(out, a):
        values = cuda.shared.array(32, "int32")
        i = cuda.threadIdx.x
        values[i] = a[i] * 2
        cuda.syncthreads()
        theirs = exchange(i, a[i])
        out[i] = values[31 - i] + theirs

    a = np.arange(32, dtype=np.int32)
    link = [stage.input("shared_i32", kind)]
    kernel = stage.jit(kernel, SHARED_SIGNATURE, link=link, **options(kind))
    shared = stage.image()["kernels"]["kernel"]["shared"]
    stage.check(shared >= 256, f"{shared} bytes of shared memory instead of 256 and more")
    stage.launch(kernel, 2 * a[::-1] + np.roll(a, -1), a)


@scenario(each={"kind": FEW}, needs=need, profile=profile)
def local_array(stage, kind):
    """A local array of linked code, which the kernel's stack has room for (LTO may do without the array)."""
    import numpy as np

    cuda = stage.cuda
    local = stage.declare("local_i32", "int32(int32, int32)")

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = local(a[i], i)

    a = np.arange(32, dtype=np.int32) * 100
    link = [stage.input("local_i32", kind)]
    kernel = stage.jit(kernel, SHARED_SIGNATURE, link=link, **options(kind))
    stack = stage.image()["kernels"]["kernel"]["local"]
    if kind != "ltoir":
        stage.check(stack is not None and stack >= 128, f"{stack} bytes of local memory instead of 128")
    stage.launch(kernel, a + 31 - np.arange(32, dtype=np.int32), a)


@scenario(
    each={"pair": [f"{a}-{b}" for a, b in RING]},
    needs=lambda pair: [n for kind in pair.split("-") for n in need(kind)],
    profile=lambda pair: profile("ltoir" if "ltoir" in pair else pair),
)
def shared_constant(stage, pair):
    """A table in constant memory that one unit defines and another, of another kind, reads."""
    import numpy as np

    cuda = stage.cuda
    defines, reads = pair.split("-")
    table = stage.declare("table_f64", "float64(int32)")
    square = stage.declare("table_square_f64", "float64(int32)")

    def kernel(out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = table(i) + square(i)

    values = np.arange(8) % 4 + 0.5
    link = [stage.input("table_f64", defines), stage.input("table_square_f64", reads)]
    stage.launch(stage.jit(kernel, link=link, **options(defines, reads)), values + values * values)


@scenario(each={"kind": FEW}, needs=need, profile=profile)
def both_sides_have_constants(stage, kind):
    """A constant array of the kernel beside the table of linked code."""
    import numpy as np

    cuda = stage.cuda
    table = stage.declare("table_f64", "float64(int32)")
    mine = np.array([10.0, 20.0, 30.0, 40.0])

    def kernel(out):
        values = cuda.const.array_like(mine)
        i = cuda.grid(1)
        if i < out.size:
            out[i] = values[i & 3] + table(i)

    reference = np.tile(mine, 2) + np.arange(8) % 4 + 0.5
    stage.launch(stage.jit(kernel, link=[stage.input("table_f64", kind)], **options(kind)), reference)


@scenario(
    each={"kinds": ("ptx-ptx", "cubin-cubin", "ptx-cubin", "ltoir-ltoir")},
    needs=lambda kinds: [n for kind in kinds.split("-") for n in need(kind)],
    profile=lambda kinds: profile(kinds.split("-")[0]),
)
def globals_of_one_name(stage, kinds):
    """Two units that each have a global of the same name to themselves."""
    import numpy as np

    cuda = stage.cuda
    own_a, own_b = (stage.declare(name, "int32(int32)") for name in ("own_a", "own_b"))

    def kernel(out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = own_a(i) * 100 + own_b(i)

    first, second = kinds.split("-")
    link = [stage.input("own_a", first), stage.input("own_b", second)]
    i = np.arange(8, dtype=np.int32)
    stage.launch(stage.jit(kernel, link=link, **options(first)), (i + 3) * 100 + i + 4)


@scenario(each={"kind": FEW}, needs=need, profile=profile)
def global_that_lasts(stage, kind):
    """A global that one launch sets is found so by the next launch of the kernel."""
    import numpy as np

    cuda = stage.cuda
    number = stage.declare("number_i32", "int32()")
    change = stage.declare("number_set_i32", "int32(int32)")

    def kernel(out, value):
        if cuda.grid(1) == 0:
            out[0] = number()
            change(value)

    link = [stage.input("number_i32", kind), stage.input("number_set_i32", kind)]
    kernel = stage.jit(kernel, "void(int32[::1], int32)", link=link, **options(kind))
    stage.launch(kernel, np.array([7], dtype=np.int32), 40)
    stage.launch(kernel, np.array([40], dtype=np.int32), 41)


@scenario(each={"kind": FEW}, needs=need, profile=profile)
def globals_of_two_kernels(stage, kind):
    """Two kernels that link the same unit have a global each: what one sets the other does not see."""
    import numpy as np

    cuda = stage.cuda
    number = stage.declare("number_i32", "int32()")
    change = stage.declare("number_set_i32", "int32(int32)")

    def sets(out):
        if cuda.grid(1) == 0:
            out[0] = change(40)

    def reads(out):
        if cuda.grid(1) == 0:
            out[0] = number()

    link = [stage.input("number_i32", kind), stage.input("number_set_i32", kind)]
    first = stage.jit(sets, "void(int32[::1])", link=link, **options(kind))
    second = stage.jit(reads, "void(int32[::1])", link=link, **options(kind))
    stage.launch(first, np.array([7], dtype=np.int32))
    stage.launch(second, np.array([7], dtype=np.int32))


@scenario(each={"kind": FEW}, needs=need, profile=profile)
def atomic_64_bits(stage, kind):
    """An atomic addition of 64 bits, whose sum passes 32 bits."""
    import numpy as np

    cuda, ffi = stage.cuda, stage.ffi
    count = stage.declare("count_u64", "int32(CPointer(uint64), uint64)")

    def kernel(out, counter, by):
        i = cuda.grid(1)
        if i < out.size:
            count(ffi.from_buffer(counter), by[i])
            out[i] = i

    by = np.arange(64, dtype=np.uint64) + np.uint64(2**31)
    counter = np.zeros(1, dtype=np.uint64)
    kernel = stage.jit(kernel, link=[stage.input("count_u64", kind)], **options(kind))
    stage.launch(kernel, np.arange(64, dtype=np.int32), counter, by)
    stage.verify(counter, by.sum(keepdims=True))


@scenario(each={"kind": FEW}, needs=need, profile=profile)
def atomic_by_compare_and_swap(stage, kind):
    """The greatest of many numbers, by compare-and-swap in linked code, over several blocks."""
    import numpy as np

    cuda, ffi = stage.cuda, stage.ffi
    most = stage.declare("most_f64", "int32(CPointer(float64), float64)")

    def kernel(out, place, values):
        i = cuda.grid(1)
        if i < out.size:
            most(ffi.from_buffer(place), values[i])
            out[i] = i

    values = np.sin(np.arange(256)) * 1e3
    place = np.array([-1e9])
    kernel = stage.jit(kernel, link=[stage.input("most_f64", kind)], **options(kind))
    stage.launch(kernel, np.arange(256, dtype=np.int32), place, values, blocks=4)
    stage.verify(place, values.max(keepdims=True))


# -- more than there is ---------------------------------------------------------------------------


def _two_big_units(stage, name, kind) -> None:
    import numpy as np

    cuda = stage.cuda
    first, second = (stage.declare(f"{name}_{letter}", "int32(int32)") for letter in "ab")

    def kernel(out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = first(i) + second(i)

    link = [stage.input(f"{name}_{letter}", kind) for letter in "ab"]
    stage.launch(stage.jit(kernel, link=link, **options(kind)), np.zeros(32, dtype=np.int32))


@scenario(
    each={"kind": FEW},
    needs=need,
    profile=profile,
    fails="too-much-shared-memory",
)
def too_much_shared(stage, kind):
    """Two units that together have more static shared memory than a block of any device may (227 KiB)."""
    _two_big_units(stage, "big_shared", kind)


@scenario(
    each={"kind": FEW},
    needs=need,
    profile=profile,
    fails="too-much-constant-memory",
)
def too_much_constant(stage, kind):
    """Two units that together have more constant memory than there is (64 KiB)."""
    _two_big_units(stage, "big_constant", kind)
