"""What a user can get wrong, and what each linker is documented to say then."""

from conformance.model import KINDS
from conformance.scenario import scenario
from conformance.scenarios.inputs import need, options


def _link(stage, item, **jit_options) -> None:
    """A kernel that calls add_i32 and links `item`."""
    import numpy as np

    cuda = stage.cuda
    add = stage.declare("add_i32", "int32(int32, int32)")

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = add(a[i], a[i])

    a = np.arange(8, dtype=np.int32)
    stage.launch(stage.jit(kernel, link=[item], **jit_options), a + a, a)


@scenario(
    cases="C12",
    each={"kind": [k for k in KINDS if k != "cu"]},
    # A linker may look for a file before it looks at its kind, but for LTO-IR it must be able to do LTO.
    needs=lambda kind: need(kind) if kind == "ltoir" else [],
    fails="missing-file",
    profile=lambda kind: "extended" if kind == "ltoir" else "core",
)
def missing_file(stage, kind):
    """A path at which there is no file."""
    suffix = stage.fixtures.path("add_i32", kind).suffix
    _link(stage, f"/nonexistent/absent{suffix}", **options(kind))


@scenario(cases="C12", fails="missing-source")
def missing_source(stage):
    """A path of CUDA C++ at which there is no file."""
    _link(stage, "/nonexistent/absent.cu")


@scenario(cases="C12", fails="no-extension")
def no_extension(stage):
    """A file whose name has no extension."""
    _link(stage, str(stage.broken("no_extension")))


@scenario(cases="C12", fails="unknown-extension")
def unknown_extension(stage):
    """A file whose extension no kind of code has."""
    _link(stage, str(stage.broken("unknown_extension.xyz")))


WRONG = {"bytes": b"not a path", "number": 7, "none": None}


@scenario(cases="C12", each={"what": WRONG}, fails="wrong-type")
def wrong_type(stage, what):
    """Something that is neither a path nor linkable code."""
    _link(stage, WRONG[what])


@scenario(cases=("C09", "C12"), each={"form": ("path", "bytes")}, needs=lambda form: need("ptx", form), fails="invalid-ptx")
def invalid_ptx(stage, form):
    """A file that is not PTX under a PTX name."""
    path = stage.broken("invalid.ptx")
    _link(stage, str(path) if form == "path" else stage.code(path.read_bytes(), "ptx", path.name))


@scenario(cases="C12", each={"form": ("path", "bytes")}, fails="invalid-cu")
def invalid_cu(stage, form):
    """CUDA C++ that uses an unknown identifier."""
    path = stage.broken("syntax_error.cu")
    _link(stage, str(path) if form == "path" else stage.code(path.read_text(), "cu", path.name))


# Isolated: some linkers miss it in a process in which they have refused an input (bad_input.py).
@scenario(cases="C02", each={"compilation": ("eager", "lazy")}, fails="undefined-symbol", isolated=True)
def undefined_symbol(stage, compilation):
    """A declared function that nothing defines."""
    import numpy as np

    cuda = stage.cuda
    nonexistent = stage.declare("nonexistent", "int32()")

    def kernel(out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = nonexistent()

    signature = "void(int32[::1])" if compilation == "eager" else None
    stage.launch(stage.jit(kernel, signature), np.arange(8, dtype=np.int32))
