"""Where linked code is asked for: the decorator's forms, declarations, callees, overloads, lowerings."""

import itertools

from conformance.scenario import scenario

WAYS = ("kernel", "declaration", "callee", "two-levels", "overload", "lowering", "two-callees")


@scenario(cases="C11", each={"way": WAYS, "kind": ("ptx", "cu", "cubin")}, needs=lambda way, kind: [f"input:{kind}:path"])
def asked_for_by(stage, way, kind):
    """Linked code that is asked for by the kernel, a declaration, a device function, an overload or a lowering."""
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


ORDERS = ["".join(order) for order in itertools.permutations("abt")]


@scenario(each={"order": ORDERS, "kind": ("ptx", "cubin")})
def units_that_need_each_other(stage, order, kind):
    """Three units, two of which need each other, in every order."""
    import numpy as np

    cuda = stage.cuda
    pair_a = stage.declare("pair_a", "int32(int32)")
    pair_b = stage.declare("pair_b", "int32(int32)")
    twice = stage.declare("twice_i32", "int32(int32)")

    def kernel(out, x):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = pair_a(x[i]) + pair_b(x[i]) + twice(x[i])

    names = {"a": "pair_a", "b": "pair_b", "t": "twice_i32"}
    link = [stage.input(names[letter], kind) for letter in order] + [stage.input("add_i32", kind)]
    x = np.arange(8, dtype=np.int32)
    stage.launch(stage.jit(kernel, link=link), (3 * x + 1) + 2 * (x + 5) + 2 * x, x)
