"""Memory that linked code brings along or shares: globals, constants, shared memory, atomics."""

from conformance.model import KINDS
from conformance.scenario import scenario
from conformance.scenarios.inputs import need, options, profile

# Every kind once as the unit that defines, and once as the one that reads.
RING = tuple(zip(KINDS, (*KINDS[1:], KINDS[0])))


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
