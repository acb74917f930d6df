"""Input that is broken, misplaced or unusually big, and input that only looks so and must work."""

import random
from contextlib import suppress

from conformance.model import KINDS, ExpectedWarning
from conformance.scenario import scenario
from conformance.scenarios.concurrency import in_threads
from conformance.scenarios.inputs import need, options, profile
from conformance.stage import NotLaunched

BINARY = ("cubin", "fatbin", "object", "archive", "ltoir")


def _link(stage, *items, **jit_options) -> None:
    """A kernel that calls add_i32 of the items that it links."""
    import numpy as np

    cuda = stage.cuda
    add = stage.declare("add_i32", "int32(int32, int32)")

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = add(a[i], a[i])

    a = np.arange(8, dtype=np.int32)
    stage.launch(stage.jit(kernel, link=list(items), **jit_options), a + a, a)


def _bytes(stage, kind: str) -> bytes:
    return stage.fixtures.path("add_i32", kind).read_bytes()


def _file(stage, kind: str, data: bytes, name: str = "bad_input") -> str:
    """A new file whose name says that it is of that kind."""
    path = stage.folder / (name + stage.fixtures.path("add_i32", kind).suffix)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return str(path)


def _item(stage, kind: str, form: str, data: bytes):
    if form == "path":
        return _file(stage, kind, data)
    return stage.code(data, kind, "bad_input" + stage.fixtures.path("add_i32", kind).suffix)


def _fault(kind: str, *_) -> str:
    """Broken CUDA C++ never gets past NVRTC; all else is the linker's to refuse."""
    return "broken-source" if kind == "cu" else "broken-ptx" if kind == "ptx" else "broken-binary"


# -- nothing, half of it, noise -----------------------------------------------------------------


@scenario(
    cases="C12",
    each={"kind": [k for k in KINDS if k != "cu"], "form": ("path", "bytes")},
    when=lambda kind, form: form == "path" or kind in ("ptx", "cubin"),
    needs=need,
    fails=lambda kind, form: "nothing-in-ptx" if kind == "ptx" else "nothing-in-it",
    profile=profile,
    repeats=True,
)
def empty(stage, kind, form):
    """An input without a single byte."""
    _link(stage, _item(stage, kind, form, b""), **options(kind))


@scenario(cases=("C02", "C12"), each={"form": ("path", "bytes")}, fails="nothing-in-source", isolated=True)
def nothing_in_source(stage, form):
    """CUDA C++ without a single byte, which compiles and defines nothing."""
    _link(stage, _item(stage, "cu", form, b""))


PLACES = {"header": lambda size: 24, "most": lambda size: size * 7 // 8}


@scenario(
    cases="C12",
    each={"kind": BINARY, "place": PLACES},
    when=lambda kind, place: place == "most" or kind in ("cubin", "archive"),
    needs=lambda kind, place: need(kind),
    fails=lambda kind, place: _fault(kind),
    profile=profile,
    isolated=True,
)
def truncated(stage, kind, place):
    """A binary file that ends too early: within its header, or shortly before its end."""
    data = _bytes(stage, kind)
    _link(stage, _file(stage, kind, data[: PLACES[place](len(data))]), **options(kind))


@scenario(cases="C12", each={"kind": ("ptx", "cu")}, fails=_fault, repeats=True)
def truncated_text(stage, kind):
    """A text that ends in the middle of its function."""
    data = _bytes(stage, kind)
    _link(stage, _file(stage, kind, data[: data.rindex(b"add_i32") + 60]))


@scenario(
    cases="C12",
    each={"kind": KINDS},
    needs=need,
    fails=_fault,
    profile=profile,
    isolated=lambda kind: kind in BINARY,
)
def noise(stage, kind):
    """Random bytes; of those that are letters and signs, where a text is wanted."""
    bytes_ = random.Random(12).choices(range(256) if kind in BINARY else range(32, 127), k=4096)
    _link(stage, _file(stage, kind, bytes(bytes_)), **options(kind))


@scenario(
    cases="C12",
    each={"kind": ("cubin", "ltoir")},
    needs=need,
    fails=_fault,
    profile=profile,
    isolated=True,
)
def flipped(stage, kind):
    """A binary file in which every 97th byte after its header has all bits turned."""
    data = bytearray(_bytes(stage, kind))
    for i in range(64, len(data), 97):
        data[i] ^= 0xFF
    _link(stage, _file(stage, kind, bytes(data)), **options(kind))


# -- not what its name says ---------------------------------------------------------------------

DISGUISES = [
    ("ptx", "cubin"),
    ("cu", "ptx"),
    ("ptx", "cu"),
    ("cubin", "ptx"),
    ("cubin", "ltoir"),
    ("ptx", "ltoir"),
    ("ptx", "archive"),
    ("object", "archive"),
]


@scenario(
    cases="C12",
    each={"pair": [f"{real}-as-{said}" for real, said in DISGUISES]},
    needs=lambda pair: need(pair.split("-as-")[1]),
    fails=lambda pair: _fault(pair.split("-as-")[1]),
    profile=lambda pair: profile(pair.split("-as-")[1]),
)
def disguised(stage, pair):
    """The bytes of one kind under the name of another."""
    real, said = pair.split("-as-")
    _link(stage, _file(stage, said, _bytes(stage, real)), **options(said))


@scenario(
    cases="C12",
    each={"form": ("path", "bytes")},
    needs=lambda form: need("cubin", form),
    fails="wrong-architecture",
    isolated=True,  # see `thread_after_refused`
)
def wrong_architecture(stage, form):
    """A cubin for another architecture than the link's."""
    path = stage.fixtures.path("add_i32", "other.cubin")
    _link(stage, str(path) if form == "path" else stage.code(path.read_bytes(), "cubin", path.name))


# -- versions of PTX ----------------------------------------------------------------------------


def _with_version(ptx: bytes, version: str) -> bytes:
    head, _, rest = ptx.partition(b".version ")
    return head + b".version " + version.encode() + b"\n" + rest.partition(b"\n")[2]


@scenario(
    cases="C09",
    each={"form": ("path", "bytes")},
    needs=lambda form: need("ptx", form),
    fails="ptx-too-new",
    repeats=True,
    isolated=True,  # see `undefined_after_refused`
)
def newer_version(stage, form):
    """PTX of a version that no release knows."""
    _link(stage, _item(stage, "ptx", form, _with_version(_bytes(stage, "ptx"), "99.9")))


@scenario(cases="C09", each={"form": ("path", "bytes")}, needs=lambda form: need("ptx", form))
def same_version(stage, form):
    """PTX of the version that the kernel's own PTX has."""
    version = _version_of_kernels(stage)
    _link(stage, _item(stage, "ptx", form, _with_version(_bytes(stage, "ptx"), version)))


def _version_of_kernels(stage) -> str:
    capability = tuple(int(part) for part in stage.cell.driver.compute_capability.split("."))
    ptx, _ = stage.cuda.compile_ptx(lambda a: a, "int32(int32)", device=True, cc=capability)
    return ptx.split(".version ")[1].split()[0]


# -- what is no ordinary file -------------------------------------------------------------------


@scenario(
    cases="C12",
    each={"kind": ("ptx", "cu", "fatbin", "ltoir")},
    needs=need,
    fails=lambda kind: "source-is-a-directory" if kind == "cu" else "is-a-directory",
    profile=profile,
    repeats=True,
)
def directory(stage, kind):
    """A folder whose name says that it is a file."""
    path = stage.folder / ("bad_input" + stage.fixtures.path("add_i32", kind).suffix)
    path.mkdir()
    _link(stage, str(path), **options(kind))


@scenario(
    cases="C12",
    each={"kind": ("ptx", "cu")},
    fails=lambda kind: "missing-source" if kind == "cu" else "missing-file",
)
def dangling_link(stage, kind):
    """A symbolic link to a file that is absent."""
    path = stage.folder / ("absent" + stage.fixtures.path("add_i32", kind).suffix)
    path.symlink_to("/nonexistent/absent")
    _link(stage, str(path))


@scenario(
    cases="C12",
    each={"kind": ("ptx", "cu")},
    fails=lambda kind: "unreadable-source" if kind == "cu" else "unreadable-file",
)
def unreadable(stage, kind):
    """A file that cannot be opened, by root either: a symbolic link to itself."""
    path = stage.folder / ("bad_input" + stage.fixtures.path("add_i32", kind).suffix)
    path.symlink_to(path)
    _link(stage, str(path))


@scenario(each={"kind": KINDS}, needs=need, profile=profile)
def odd_path(stage, kind):
    """A path with spaces and letters beyond ASCII."""
    _link(stage, _file(stage, kind, _bytes(stage, kind), "Größe – 大小/my üñîçødé input"), **options(kind))


@scenario(each={"kind": ("ptx", "cu")}, needs=lambda kind: need(kind, "bytes"))
def odd_name(stage, kind):
    """Code in memory whose name has spaces and letters beyond ASCII."""
    _link(stage, stage.code(_bytes(stage, kind), kind, f"my üñîçødé 大小 input.{kind}"))


@scenario(each={"form": ("path", "bytes", "text")})
def odd_comment(stage, form):
    """CUDA C++ with letters beyond ASCII in a comment, in UTF-8."""
    data = "// größer, 大小\n".encode() + _bytes(stage, "cu")
    if form == "text":
        return _link(stage, stage.code(data.decode(), "cu", "comment.cu"))
    _link(stage, _item(stage, "cu", form, data))


@scenario(cases="C12")
def latin_comment(stage):
    """CUDA C++ with a comment in Latin-1, which compilers read over."""
    _link(stage, _file(stage, "cu", "// größer\n".encode("latin-1") + _bytes(stage, "cu")))


# -- archives -----------------------------------------------------------------------------------


def _link_nonexistent(stage, item) -> None:
    import numpy as np

    cuda = stage.cuda
    nonexistent = stage.declare("nonexistent", "int32(int32)")

    def kernel(out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = nonexistent(i)

    stage.launch(stage.jit(kernel, link=[item]), np.arange(8, dtype=np.int32))


@scenario(cases=("C02", "C12"), needs=need("archive"), fails="undefined-symbol", isolated=True)
def archive_without_the_member(stage):
    """An archive none of whose members has the function."""
    _link_nonexistent(stage, stage.input("add_i32", "archive"))


@scenario(cases=("C02", "C12"), needs=need("archive"), fails="undefined-symbol", isolated=True)
def archive_without_members(stage):
    """An archive without any member."""
    _link_nonexistent(stage, _file(stage, "archive", b"!<arch>\n"))


@scenario(cases=("C02", "C12"), needs=need("archive"), fails="undefined-symbol", isolated=True)
def archive_of_texts(stage):
    """An archive whose only member is no object."""
    member = b"readme.txt/     0           0     0     644     6         `\nhello\n"
    _link_nonexistent(stage, _file(stage, "archive", b"!<arch>\n" + member))


@scenario(cases="C02", fails="undefined-symbol", isolated=True, needs=need("archive"))
def undefined_after_refused(stage):
    """A function that nothing defines, in a process in which a linker has refused an input before."""
    try:
        newer_version(stage, "path")
    except Exception:  # that it is refused is another scenario's matter
        stage.spy.reset()
        _link_nonexistent(stage, stage.input("add_i32", "archive"))
    else:
        raise AssertionError("PTX of version 99.9 was linked")


@scenario(isolated=True, each={"refused": ("other.cubin", "ptx")}, needs=need("cubin"))
def thread_after_refused(stage, refused):
    """A thread that links something sound, after another thread's input was refused."""
    if refused == "ptx":
        item = _file(stage, "ptx", _with_version(_bytes(stage, "ptx"), "99.9"), "newer")
    else:
        item = str(stage.fixtures.path("add_i32", refused))
    with suppress(Exception):  # that it is refused is another scenario's matter
        _link(stage, item)
    stage.spy.reset()
    in_threads([lambda: _link_sound(stage)])


def _link_sound(stage) -> None:
    with suppress(NotLaunched):
        _link(stage, stage.input("add_i32", "ptx"))


# -- too much of it -----------------------------------------------------------------------------


@scenario(each={"kinds": ("ptx-ptx", "ptx-cubin")}, fails="defined-twice", isolated=True)
def defined_twice(stage, kinds):
    """Two units that both define the function."""
    files = [_file(stage, k, _bytes(stage, k), f"unit_{i}") for i, k in enumerate(kinds.split("-"))]
    _link(stage, *files)


@scenario(fails="defined-twice", isolated=True)
def defined_twice_later(stage):
    """Two units that both define the function, once the process has linked something else."""
    _link(stage, _file(stage, "ptx", _bytes(stage, "ptx"), "fine"))
    defined_twice(stage, "ptx-ptx")


@scenario(each={"form": ("path", "bytes")}, needs=lambda form: need("ptx", form))
def listed_twice(stage, form):
    """The same input twice in one list, which is linked once."""
    _link(stage, *[_item(stage, "ptx", form, _bytes(stage, "ptx"))] * 2)


@scenario(needs=need("ptx", "bytes"))
def one_name_for_two(stage):
    """Two units in memory under one name."""
    import numpy as np

    cuda = stage.cuda
    twice = stage.declare("twice_i32", "int32(int32)")

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = twice(a[i])

    a = np.arange(8, dtype=np.int32)
    units = [stage.fixtures.path(n, "ptx").read_bytes() for n in ("twice_i32", "add_i32")]
    kernel = stage.jit(kernel, link=[stage.code(unit, "ptx", "unit.ptx") for unit in units])
    stage.launch(kernel, a + a, a)


@scenario(each={"form": ("path", "bytes")}, needs=lambda form: need("ptx", form))
def many(stage, form):
    """Two hundred units, of which the kernel calls the first and the last."""
    import numpy as np

    cuda = stage.cuda
    names = [f"unit_{i}_i32" for i in range(200)]
    units = [(name, _bytes(stage, "ptx").replace(b"add_i32", name.encode())) for name in names]
    if form == "path":
        items = [_file(stage, "ptx", data, name) for name, data in units]
    else:
        items = [stage.code(data, "ptx", name) for name, data in units]
    first, last = (stage.declare(name, "int32(int32, int32)") for name in (names[0], names[-1]))

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = first(last(a[i], 1), a[i])

    a = np.arange(8, dtype=np.int32)
    stage.launch(stage.jit(kernel, link=items), a + a + 1, a)


@scenario(each={"form": ("path", "bytes")}, needs=lambda form: need("ptx", form))
def large(stage, form):
    """Five megabytes of PTX."""
    line = b"// " + b"a remark of a hundred letters ".ljust(96, b".") + b"\n"
    _link(stage, _item(stage, "ptx", form, line * 50_000 + _bytes(stage, "ptx").rstrip(b"\0")))


@scenario(needs=need("ptx", "path"))
def many_functions(stage):
    """One unit with five hundred functions, of which the kernel calls one."""
    ptx = _bytes(stage, "ptx").rstrip(b"\0")
    start = ptx.index(b".visible")
    others = [ptx[start:].replace(b"add_i32", f"other_{i}".encode()) for i in range(500)]
    _link(stage, _file(stage, "ptx", ptx + b"\n".join(others)))


# -- what the compiler has to say ---------------------------------------------------------------


@scenario(
    cases="C12",
    each={"form": ("path", "bytes", "text")},
    warnings=ExpectedWarning("UserWarning", "unused_name"),
)
def noisy(stage, form):
    """CUDA C++ about which the compiler remarks something: one warning that holds the remark."""
    import numpy as np

    cuda = stage.cuda
    noisy = stage.declare("noisy", "int32(int32)")

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = noisy(a[i])

    path = stage.broken("noisy.cu")
    data = path.read_text() if form == "text" else path.read_bytes()
    item = str(path) if form == "path" else stage.code(data, "cu", path.name)
    a = np.arange(8, dtype=np.int32)
    stage.launch(stage.jit(kernel, link=[item]), a + 1, a)


# -- a file that changes ------------------------------------------------------------------------


@scenario(each={"kind": ("ptx", "cu", "cubin")}, needs=need, isolated=True)
def changed_file(stage, kind):
    """A file that has another function in it when the second kernel is linked."""
    cuda = stage.cuda
    multiply = stage.declare("mul_f32", "float32(float32, float32)")

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = multiply(a[i], a[i])

    path = _file(stage, kind, stage.fixtures.path("mul_f32", kind).read_bytes())
    stage.jit(kernel, "void(float32[::1], float32[::1])", link=[path])
    _file(stage, kind, _bytes(stage, kind))
    _link(stage, path)
