"""What linkable code does when the module that it is in is loaded and unloaded."""

from contextlib import suppress

from conformance.scenario import scenario
from conformance.stage import NotLaunched

FORMS = ("link", "declare")
CLASSES = ("PTXSource", "CUSource", "Cubin", "Fatbin", "Object", "Archive", "LTOIR")


class Refused(Exception):
    """What a callback raises that wants to."""


def _source(stage, **callbacks):
    text = stage.fixtures.path("add_i32", "cu").read_text()
    return stage.code(text, "cu", "add_i32.cu", **callbacks)


def _kernel(stage, form: str, *items, **jit_options):
    """A kernel that adds, with the items in its own list or in the function's declaration."""
    cuda = stage.cuda
    declared = {"link": list(items)} if form == "declare" else {}
    add = stage.declare("add_i32", "int32(int32, int32)", **declared)

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = add(a[i], a[i])

    if form == "link":
        jit_options["link"] = list(items)
    return stage.jit(kernel, **jit_options)


def _launch(stage, kernel, dtype: str = "int32") -> None:
    """A launch that counts as far as it gets: to the end on a device, else up to it."""
    import numpy as np

    a = np.arange(8, dtype=dtype)
    with suppress(NotLaunched):
        stage.launch(kernel, a + a, a)


def _expect(seen, wanted) -> None:
    if seen != wanted:
        raise AssertionError(f"{seen} instead of {wanted}")


@scenario(cases="C24", each={"form": FORMS})
def setup_once(stage, form):
    """One setup for two launches of a kernel."""
    calls = []
    kernel = _kernel(stage, form, _source(stage, setup_callback=calls.append))
    _expect(len(calls), 0)
    _launch(stage, kernel)
    _expect(len(calls), 1)
    _launch(stage, kernel)
    _expect(len(calls), 1)


@scenario(cases="C24")
def setup_for_each_signature(stage):
    """A second signature is a second module: a setup for each."""
    calls = []
    kernel = _kernel(stage, "link", _source(stage, setup_callback=calls.append))
    _launch(stage, kernel, "int32")
    _launch(stage, kernel, "int16")
    _expect(len(calls), 2)


@scenario(cases="C24", each={"form": FORMS})
def setup_for_each_kernel(stage, form):
    """Two kernels that link the same item: a setup for each, of a module of its own."""
    calls = []
    item = _source(stage, setup_callback=lambda module: calls.append(id(module)) or kept.append(module))
    kept = []
    for _ in range(2):
        _launch(stage, _kernel(stage, form, item))
    _expect((len(calls), len(set(calls))), (2, 2))


@scenario(cases="C24")
def setup_in_order(stage):
    """Two items in one list: their setups come in the list's order."""
    calls = []
    other = stage.code("", "cu", "nothing.cu", setup_callback=lambda _: calls.append("second"))
    first = _source(stage, setup_callback=lambda _: calls.append("first"))
    _launch(stage, _kernel(stage, "link", first, other))
    _expect(calls, ["first", "second"])


@scenario(cases="C24")
def setup_of_item_listed_twice(stage):
    """An item that is in the list twice is linked once, and set up once."""
    calls = []
    item = _source(stage, setup_callback=calls.append)
    _launch(stage, _kernel(stage, "link", item, item))
    _expect(len(calls), 1)


@scenario(cases=("C24", "C11"))
def setup_through_two_callees(stage):
    """An item that two device functions bring along is linked once, and set up once."""
    cuda = stage.cuda
    calls = []
    item = _source(stage, setup_callback=calls.append)
    add = stage.declare("add_i32", "int32(int32, int32)", link=[item])

    @cuda.jit(device=True)
    def twice(x):
        return add(x, x)

    @cuda.jit(device=True)
    def next_to(x):
        return add(x, 1)

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = twice(next_to(a[i])) - 2

    _launch(stage, stage.jit(kernel))
    _expect(len(calls), 1)


@scenario(cases="C24")
def setup_with_a_signature(stage):
    """With a signature the module is loaded at once, and set up before any launch."""
    calls = []
    item = _source(stage, setup_callback=calls.append)
    _kernel(stage, "link", item, signature="void(int32[::1], int32[::1])")
    _expect(len(calls) <= 1, True)


@scenario(cases="C24", device="what a setup writes is seen by a kernel only")
def setup_before_launch(stage):
    """What the setup writes to a global is there in the first launch."""
    import numpy as np

    cuda = stage.cuda
    number = stage.declare("number_i32", "int32()")
    text = stage.fixtures.path("number_i32", "cu").read_text()
    item = stage.code(text, "cu", "number_i32.cu", setup_callback=lambda module: _write(module, 42))

    def kernel(out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = number()

    stage.launch(stage.jit(kernel, link=[item]), np.full(8, 42, dtype=np.int32))


def _write(module, value: int) -> None:
    """Set the global `number` of a loaded module, whatever a release hands over for it."""
    import ctypes

    driver = ctypes.CDLL("libcuda.so.1")
    address, size, word = ctypes.c_uint64(), ctypes.c_size_t(), ctypes.c_int32(value)
    handle = getattr(module, "handle", module)
    library = "library" in type(handle).__name__.lower()
    look_up = driver.cuLibraryGetGlobal if library else driver.cuModuleGetGlobal_v2
    handle = ctypes.c_void_p(handle.value if hasattr(handle, "value") else int(handle))
    if look_up(ctypes.byref(address), ctypes.byref(size), handle, b"number"):
        raise AssertionError("the module has no global `number`")
    if driver.cuMemcpyHtoD_v2(address, ctypes.byref(word), ctypes.c_size_t(4)):
        raise AssertionError("the global cannot be written")


# numba-cuda's own tests (test_module_callbacks.py) say which.
@scenario(cases="C24")
def module_given(stage):
    """What a callback is given: the binding's handle, and since 0.23 the object of cuda.core."""
    seen = []
    item = _source(stage, setup_callback=lambda module: seen.append(type(module).__name__))
    _launch(stage, _kernel(stage, "link", item))
    core = tuple(map(int, stage.cell.release.split(".")[:2])) >= (0, 23)
    handle = "c_void_p" if stage.cell.environment.axes["binding"] == "ctypes" else "CUmodule"
    _expect(seen, ["ObjectCode" if core else handle])


@scenario(cases="C24", fails="setup-raises", each={"form": FORMS})
def setup_that_raises(stage, form):
    """An error of the setup reaches the caller of the launch."""

    def refuse(module):
        raise Refused("not ready")

    _launch(stage, _kernel(stage, form, _source(stage, setup_callback=refuse)))


@scenario(cases="C24")
def setup_after_it_raised(stage):
    """A setup that has raised is asked again before the next launch."""
    calls = []

    def refuse_once(module):
        calls.append(module)
        if len(calls) == 1:
            raise Refused("not ready")

    kernel = _kernel(stage, "link", _source(stage, setup_callback=refuse_once))
    for _ in range(2):
        with suppress(Refused):
            _launch(stage, kernel)
    _expect(len(calls), 2)


@scenario(cases="C24", isolated=True)
def teardown_once(stage):
    """One teardown when the context is reset, given what the setup was given."""
    set_up, torn_down = [], []
    item = _source(stage, setup_callback=set_up.append, teardown_callback=torn_down.append)
    kernel = _kernel(stage, "link", item)
    _launch(stage, kernel)
    _expect(len(torn_down), 0)
    _reset(stage, kernel)
    _expect((len(torn_down), [id(m) for m in torn_down]), (1, [id(m) for m in set_up]))


@scenario(cases="C24", isolated=True)
def teardown_without_setup(stage):
    """A teardown where there is no setup."""
    calls = []
    kernel = _kernel(stage, "link", _source(stage, teardown_callback=calls.append))
    _launch(stage, kernel)
    _reset(stage, kernel)
    _expect(len(calls), 1)


@scenario(cases="C24", isolated=True)
def teardown_of_two_modules(stage):
    """A teardown for each module that was set up, and for no other."""
    set_up, torn_down = [], []
    item = _source(stage, setup_callback=set_up.append, teardown_callback=torn_down.append)
    kernels = [_kernel(stage, "link", item) for _ in range(3)]
    for kernel in kernels[:2]:
        _launch(stage, kernel)
    _reset(stage, *kernels)
    _expect((len(set_up), len(torn_down)), (2, 2))


def _reset(stage, *kernels) -> None:
    """What ends a module's life: its context lets go of it, and nothing else holds it."""
    import gc

    stage.cuda.current_context().reset()
    for kernel in kernels:
        kernel.overloads.clear()
    gc.collect()


@scenario(
    cases="C24",
    each={"class": CLASSES, "which": ("setup", "teardown")},
    when=lambda **axes: axes["which"] == "setup" or axes["class"] in ("PTXSource", "CUSource"),
    fails="callback-not-callable",
)
def not_callable(stage, which, **axes):
    """A callback that cannot be called is refused at once."""
    getattr(stage.cuda, axes["class"])(b"", **{f"{which}_callback": "not a function"})


@scenario(cases="C24", each={"signatures": (1, 2)}, isolated=True)
def threads(stage, signatures):
    """Four threads that compile one kernel at once: one setup for each signature."""
    from conformance.scenarios.concurrency import in_threads

    calls = []
    kernel = _kernel(stage, "link", _source(stage, setup_callback=calls.append))
    types = ["int32", "int16"][:signatures]
    in_threads([lambda: [kernel.compile(f"void({t}[::1], {t}[::1])") for t in types]] * 4)
    for dtype in types:
        _launch(stage, kernel, dtype)
    _expect(len(calls), signatures)
