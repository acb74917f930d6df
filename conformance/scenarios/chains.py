"""Where linked code is asked for: the decorator's forms, declarations, callees, overloads, lowerings."""

import itertools

from conformance.model import KINDS
from conformance.scenario import scenario
from conformance.scenarios.inputs import need, options, profile
from conformance.scenarios.inspection import kernel_ptx, linker

WAYS = ("kernel", "declaration", "callee", "two-levels", "overload", "lowering", "two-callees")


@scenario(
    cases="C11",
    each={"way": WAYS, "kind": ("ptx", "cu", "cubin")},
    needs=lambda way, kind: [f"input:{kind}:path"],
)
def asked_for_by(stage, way, kind):
    """Code that is asked for by the kernel, a declaration, a device function, an overload or a lowering."""
    import numpy as np

    cuda = stage.cuda
    item = stage.input("add_i32", kind)
    call, link = _CALLS[way](stage, item)

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = call(a[i], a[i])

    a = np.arange(8, dtype=np.int32)
    stage.launch(stage.jit(kernel, link=link), a + a, a)


def _by_kernel(stage, item):
    return stage.declare("add_i32", "int32(int32, int32)"), [item]


def _by_declaration(stage, item):
    return stage.declare("add_i32", "int32(int32, int32)", link=item), []


def _by_callee(stage, item):
    add = stage.declare("add_i32", "int32(int32, int32)", link=item)

    @stage.cuda.jit(device=True)
    def callee(a, b):
        return add(a, b)

    return callee, []


def _by_two_levels(stage, item):
    inner, _ = _by_callee(stage, item)

    @stage.cuda.jit(device=True)
    def outer(a, b):
        return inner(a, b)

    return outer, []


def _by_two_callees(stage, item):
    first, _ = _by_callee(stage, item)
    second, _ = _by_callee(stage, item)

    @stage.cuda.jit(device=True)
    def both(a, b):
        return first(a, 0) + second(b, 0)

    return both, []


def _by_overload(stage, item):
    from numba.core.extending import overload

    add = stage.declare("add_i32", "int32(int32, int32)", link=item)

    def sum_of(a, b):
        """Only its overload is ever called."""

    @overload(sum_of, target="cuda")
    def _overload(a, b):
        return lambda a, b: add(a, b)

    return sum_of, []


def _by_lowering(stage, item):
    from numba.core import types
    from numba.core.extending import intrinsic

    add = stage.declare("add_i32", "int32(int32, int32)")

    @intrinsic(target="cuda")
    def with_library(typing, a, b):
        def lower(context, builder, signature, arguments):
            context.active_code_library.add_linking_file(item)
            return context.get_constant(types.int32, 0)

        return types.int32(a, b), lower

    @stage.cuda.jit(device=True)
    def call(a, b):
        return add(a, b) + with_library(a, b)

    return call, []


_CALLS = {
    "kernel": _by_kernel,
    "declaration": _by_declaration,
    "callee": _by_callee,
    "two-levels": _by_two_levels,
    "two-callees": _by_two_callees,
    "overload": _by_overload,
    "lowering": _by_lowering,
}

SIGNATURE = "void(int32[::1], int32[::1])"
FORMS = {
    "eager": lambda cuda, f, link: cuda.jit(SIGNATURE, link=link)(f),
    "signatures": lambda cuda, f, link: cuda.jit([SIGNATURE, "void(int64[::1], int32[::1])"], link=link)(f),
    "lazy": lambda cuda, f, link: cuda.jit(link=link)(f),
    "function-first": lambda cuda, f, link: cuda.jit(f, link=link),
}


@scenario(cases="C19", each={"form": FORMS})
def decorator(stage, form):
    """Every form of the decorator takes the list of what to link."""
    import numpy as np

    cuda = stage.cuda
    add = stage.declare("add_i32", "int32(int32, int32)")

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = add(a[i], a[i])

    a = np.arange(8, dtype=np.int32)
    stage.launch(FORMS[form](cuda, kernel, [stage.input("add_i32", "ptx")]), a + a, a)


@scenario(cases="C19")
def bare_decorator(stage):
    """A decorator without anything: what to link stands in the declaration."""
    import numpy as np

    cuda = stage.cuda
    add = stage.declare("add_i32", "int32(int32, int32)", link=stage.input("add_i32", "ptx"))

    @cuda.jit
    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = add(a[i], a[i])

    a = np.arange(8, dtype=np.int32)
    stage.launch(kernel, a + a, a)


@scenario(cases="C19")
def second_signature(stage):
    """A kernel of two signatures links for each of them."""
    import numpy as np

    cuda = stage.cuda
    add = stage.declare("add_i32", "int32(int32, int32)")

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = add(a[i], a[i])

    signatures = [SIGNATURE, "void(int64[::1], int32[::1])"]
    kernel = stage.jit(kernel, signatures, link=[stage.input("add_i32", "ptx")])
    linked = len(stage.spy.images)
    stage.check(linked == 2, f"{linked} images for two signatures")
    a = np.arange(8, dtype=np.int32)
    stage.launch(kernel, a.astype(np.int64) * 2, a)


@scenario(cases="C19", fails="link-on-device-function")
def on_a_device_function(stage):
    """A device function cannot ask for anything to link itself."""
    stage.cuda.jit(device=True, link=[stage.input("add_i32", "ptx")])(lambda a: a)


@scenario(each={"kind": ("ptx", "cubin", "fatbin")})
def same_item_twice(stage, kind):
    """The same path twice in the list is linked once."""
    import numpy as np

    cuda = stage.cuda
    add = stage.declare("add_i32", "int32(int32, int32)")

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = add(a[i], a[i])

    a = np.arange(8, dtype=np.int32)
    item = stage.input("add_i32", kind)
    stage.launch(stage.jit(kernel, link=[item, item]), a + a, a)


@scenario(each={"kind": KINDS}, needs=need, profile=profile)
def units_that_need_each_other(stage, kind):
    """Two units that need each other, as a user hands them over: Numba decides on their order."""
    import numpy as np

    link = [stage.input(name, kind) for name in PAIR]
    x = np.arange(8, dtype=np.int32)
    stage.launch(stage.jit(_calls_the_pair(stage), link=link, **options(kind)), 5 * x + 11, x)


PAIR = ("pair_a", "pair_b")
PAIR_SIGNATURE = "void(int32[::1], int32[::1])"


def _calls_the_pair(stage):
    cuda = stage.cuda
    pair_a, pair_b = (stage.declare(name, "int32(int32)") for name in PAIR)

    def kernel(out, x):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = pair_a(x[i]) + pair_b(x[i])

    return kernel


ORDERS = ["-".join(order) for order in itertools.permutations(("kernel", *PAIR))]


@scenario(each={"order": ORDERS, "kind": ("ptx", "archive")}, needs=lambda order, kind: need(kind))
def order(stage, order, kind):
    """A kernel and two units that need each other, added to a linker by hand in every order."""
    one = linker(stage)
    for name in order.split("-"):
        if name == "kernel":
            one.add_ptx(kernel_ptx(stage, _calls_the_pair(stage), PAIR_SIGNATURE))
        else:
            one.add_file_guess_ext(stage.input(name, kind))
    one.complete()
    facts = stage.image()
    stage.check(set(PAIR) <= set(facts["functions"]), f"the image has {facts['functions']}")
    stage.check(not facts["undefined"], f"the image lacks {facts['undefined']}")


# -- what a declaration takes ---------------------------------------------------------------------

COLLECTIONS = {"list": list, "tuple": tuple, "set": set}


@scenario(
    cases="C11",
    each={"collection": COLLECTIONS, "form": ("path", "bytes")},
    needs=lambda collection, form: need("ptx", form),
)
def declared_with_several(stage, collection, form):
    """A declaration with two units, as a list, a tuple or a set of paths or of code in memory."""
    import numpy as np

    cuda = stage.cuda
    units = COLLECTIONS[collection](stage.input(name, "ptx", form) for name in ("twice_i32", "add_i32"))
    twice = stage.declare("twice_i32", "int32(int32)", link=units)

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = twice(a[i])

    a = np.arange(8, dtype=np.int32)
    stage.launch(stage.jit(kernel), a + a, a)


@scenario(cases="C11", each={"places": ("kernel-declaration", "two-declarations"), "kind": ("ptx", "cubin")})
def asked_for_twice(stage, places, kind):
    """One file that two places ask for is linked once."""
    import numpy as np

    cuda = stage.cuda
    item = stage.input("add_i32", kind)
    first = stage.declare("add_i32", "int32(int32, int32)", link=item)
    second = stage.declare("add_i32", "int32(int32, int32)", link=[item])
    link = [item] if places == "kernel-declaration" else []

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = first(a[i], second(a[i], 1))

    a = np.arange(8, dtype=np.int32)
    kernel = stage.jit(kernel, link=link)
    stage.launch(kernel, a + a + 1, a, checking=lambda: _check_linked_once(stage))


def _check_linked_once(stage) -> None:
    """The kernel's own code and one external unit: two inputs, whichever way the linker adds a unit."""
    added = stage.spy.inputs
    stage.check(len(added) == 2, f"inputs of the link: {', '.join(added)}")


@scenario(cases="C11", each={"kind": ("ptx", "cu", "cubin")}, needs=lambda kind: [f"input:{kind}:path"])
def one_declaration_for_two_kernels(stage, kind):
    """Two kernels that call the same declared function: each is linked with it."""
    import numpy as np

    cuda = stage.cuda
    add = stage.declare("add_i32", "int32(int32, int32)", link=stage.input("add_i32", kind))

    def sums(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = add(a[i], 5)

    def twice(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = add(a[i], a[i])

    first, second = stage.jit(sums, SIGNATURE), stage.jit(twice, SIGNATURE)
    a = np.arange(8, dtype=np.int32)
    stage.launch(second, a + a, a)
    stage.launch(first, a + 5, a)


@scenario(cases="C11")
def declared_but_not_called(stage):
    """What a declaration asks for that the kernel never calls is not linked, and may be missing."""
    import numpy as np

    cuda = stage.cuda
    stage.declare("add_i32", "int32(int32, int32)", link="/nonexistent/absent.ptx")
    add = stage.declare("add_i32", "int32(int32, int32)", link=stage.input("add_i32", "ptx"))

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = add(a[i], a[i])

    a = np.arange(8, dtype=np.int32)
    stage.launch(stage.jit(kernel), a + a, a)


@scenario(cases="C11", each={"inlined": ("numba", "nvvm")})
def inlined_callee(stage, inlined):
    """A device function that Numba or NVVM inlines still brings along what it asks for."""
    import numpy as np

    cuda = stage.cuda
    add = stage.declare("add_i32", "int32(int32, int32)", link=stage.input("add_i32", "ptx"))
    how = {"inline": "always"} if inlined == "numba" else {"forceinline": True}

    @cuda.jit(device=True, **how)
    def callee(a):
        return add(a, a)

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = callee(a[i])

    a = np.arange(8, dtype=np.int32)
    stage.launch(stage.jit(kernel), a + a, a)


# -- deep and mixed chains ------------------------------------------------------------------------

UNITS = ("chain_a", "chain_b", "chain_c", "twice_i32", "add_i32")
MIXTURES = {
    "all-ptx": ("ptx",) * 5,
    "all-ltoir": ("ltoir",) * 5,
    "all-archive": ("archive",) * 5,
    "all-cu": ("cu",) * 5,
    "binary": ("object", "cubin", "archive", "fatbin", "object"),
    "text-first": ("cu", "ptx", "cubin", "fatbin", "archive"),
    "text-last": ("fatbin", "object", "cubin", "ptx", "cu"),
    "ltoir-around": ("ltoir", "cubin", "ltoir", "ptx", "ltoir"),
}


@scenario(
    each={"kinds": MIXTURES},
    needs=lambda kinds: [n for kind in MIXTURES[kinds] for n in need(kind)],
    profile=lambda kinds: profile("ltoir" if "ltoir" in kinds else "ptx"),
)
def five_units(stage, kinds):
    """Five units, each of which calls the next, of one kind or of several."""
    import numpy as np

    cuda = stage.cuda
    chain = stage.declare("chain_a", "int32(int32)")

    def kernel(out, x):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = chain(x[i])

    link = [stage.input(name, kind) for name, kind in zip(UNITS, MIXTURES[kinds], strict=True)]
    x = np.arange(8, dtype=np.int32)
    kernel = stage.jit(kernel, link=link, **options(*MIXTURES[kinds]))
    stage.launch(kernel, 2 * (2 * x - 1 + 3), x)
