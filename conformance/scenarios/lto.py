"""Link-time optimization: left alone, asked for, and refused."""

from conformance.model import KINDS
from conformance.scenario import scenario
from conformance.scenarios.inputs import need

LTO = {"unset": {}, "true": {"lto": True}, "false": {"lto": False}}


def _needs(kind: str, lto: str, compilation: str) -> list[str]:
    wanted = [n for n in need(kind) if n != "option:lto"]
    if lto == "true":
        return ["option:lto", *wanted]
    if kind == "ltoir":
        return [*wanted, "option:lto-by-default" if lto == "unset" else "option:ltoir-without-lto"]
    return wanted


@scenario(
    cases="C10",
    each={"kind": KINDS, "lto": LTO, "compilation": ("eager", "lazy")},
    # `inputs/integers` compiles lazily, with LTO left alone.
    when=lambda kind, lto, compilation: lto != "unset" or compilation == "eager",
    needs=_needs,
    profile=lambda kind, lto, compilation: "extended" if lto == "true" or kind == "ltoir" else "core",
)
def every_kind(stage, kind, lto, compilation):
    """Each kind with LTO left alone, asked for and refused: the same value."""
    import numpy as np

    cuda = stage.cuda
    add = stage.declare("add_i32", "int32(int32, int32)")

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = add(a[i], a[i])

    a = np.arange(-8, 8, dtype=np.int32)
    signature = "void(int32[::1], int32[::1])" if compilation == "eager" else None
    kernel = stage.jit(kernel, signature, link=[stage.input("add_i32", kind)], **LTO[lto])
    stage.launch(kernel, a + a, a)


@scenario(
    cases="C10",
    each={"lto": LTO},
    needs=lambda lto: ["option:lto"] if lto == "true" else [],
    profile=lambda lto: "extended" if lto == "true" else "core",
)
def nothing_linked(stage, lto):
    """A kernel without external code, with LTO left alone, asked for and refused."""
    import numpy as np

    cuda = stage.cuda

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = a[i] * 3

    a = np.arange(-8, 8, dtype=np.int32)
    stage.launch(stage.jit(kernel, **LTO[lto]), a * 3, a)
