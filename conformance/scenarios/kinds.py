"""What is inside: fatbins of several architectures, of PTX, of LTO-IR; code that cannot be linked."""

from conformance.scenario import scenario
from conformance.scenarios.inputs import need

SIGNATURE = "void(int32[::1], int32[::1])"
LTO = {"unset": {}, "true": {"lto": True}, "false": {"lto": False}}
CONTAINERS = ("fatbin", "object", "archive")


def _add(stage, item, compilation: str = "eager", **jit_options) -> None:
    """A kernel that calls add_i32 of that item."""
    import numpy as np

    cuda = stage.cuda
    add = stage.declare("add_i32", "int32(int32, int32)")

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = add(a[i], a[i])

    a = np.arange(-8, 8, dtype=np.int32)
    signature = SIGNATURE if compilation == "eager" else None
    stage.launch(stage.jit(kernel, signature, link=[item], **jit_options), a + a, a)


def _variant(stage, variant: str, form: str):
    """A fixture's variant (`multi.fatbin`) as a path or in memory."""
    path = stage.fixtures.path("add_i32", variant)
    kind = variant.rpartition(".")[2]
    return str(path) if form == "path" else stage.code(path.read_bytes(), kind, path.name)


@scenario(
    cases="C01",
    each={"variant": ("multi.fatbin", "ptx.fatbin"), "form": ("path", "bytes"), "lto": ("true", "false")},
    needs=lambda variant, form, lto: [*(["option:lto"] if lto == "true" else []), *need("fatbin", form)],
    profile=lambda variant, form, lto: "extended" if lto == "true" else "core",
)
def fatbin(stage, variant, form, lto):
    """A fatbin with code for several architectures, and one with nothing but PTX."""
    _add(stage, _variant(stage, variant, form), **LTO[lto])


@scenario(
    cases="C03",
    each={"container": CONTAINERS, "form": ("path", "bytes")},
    needs=lambda container, form: ["option:lto", *need(container, form)],
    profile="extended",
)
def ltoir_within(stage, container, form):
    """A fatbin, object or archive with nothing but LTO-IR in a link with LTO: its function is inlined."""
    _add_checking(stage, _variant(stage, f"lto.{container}", form), lto=True)


def _add_checking(stage, item, **jit_options) -> None:
    from conformance.stage import NotLaunched

    refused = None
    try:
        _add(stage, item, **jit_options)
    except NotLaunched as error:
        refused = error
    functions = stage.image()["functions"]
    stage.check("add_i32" not in functions, f"functions that were not inlined: {functions}")
    if refused:
        raise refused


# Isolated: see bad_input.py on what some linkers do in a process in which they have refused an input.
@scenario(
    cases="C03",
    each={"container": CONTAINERS},
    needs=lambda container: need(container),
    profile="extended",
    fails="container-with-lto-left-alone",
    isolated=True,
)
def ltoir_within_by_default(stage, container):
    """The same in a link whose LTO is left alone: on where there is nvJitLink since 0.16, off elsewhere."""
    _add(stage, _variant(stage, f"lto.{container}", "path"))


@scenario(
    cases="C03",
    each={"container": CONTAINERS, "why": ("refused", "debug")},
    when=lambda container, why: why == "refused" or container == "fatbin",
    needs=lambda container, why: need(container),
    profile="extended",
    fails="container-without-lto",
    isolated=True,
)
def ltoir_within_without_lto(stage, container, why):
    """The same in a link without LTO, which was refused, or is off because of debug: a clear error."""
    off = {"lto": False} if why == "refused" else {"debug": True, "opt": False}
    _add(stage, _variant(stage, f"lto.{container}", "path"), **off)


CLOSED = ("ptx", "cubin", "fatbin", "object", "archive")


@scenario(
    cases="C25",
    each={"kind": CLOSED},
    needs=need,
    fails="not-relocatable",
    isolated=True,
)
def not_relocatable(stage, kind):
    """Code that was compiled as not relocatable: the error names the function that is missing."""
    _add(stage, _variant(stage, f"nonrdc.{kind}", "path"))
