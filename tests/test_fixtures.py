"""The fixtures' builder: what is rebuilt when, what is noticed, and that linkers take what it makes.

The tests of the cache put a recorder in the compiler's place. Those at the end need real toolchains,
installed as `matrices/toolchains.toml` says: CONFORMANCE_TOOLCHAINS names the folder that has
`cu11`, `cu12` and `cu13`.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import re
import shutil
import time
from concurrent.futures import ProcessPoolExecutor
from ctypes import byref, c_char_p, c_size_t, c_void_p
from pathlib import Path

import pytest

from conformance import fixtures, products
from conformance.errors import SuiteError
from conformance.fixtures import SOURCES, Fixtures, build
from conformance.paths import cache
from conformance.products import BASIC_KINDS, KINDS
from conformance.toolchain import Toolchain, sm

MAJORS = (11, 12, 13)
BROKEN = SOURCES.parent / "broken"


# The cache, with a recorder in the compiler's place


@pytest.fixture
def workshop(tmp_path, monkeypatch):
    return Workshop(tmp_path, monkeypatch)


class Workshop:
    """A toolchain without code, two sources, and a `make` that writes down what it was asked for."""

    def __init__(self, folder: Path, monkeypatch):
        self.toolchain, self.sources = folder / "toolchain", folder / "sources"
        self.cache, self.log = folder / "cache", folder / "made.txt"
        self.delay = 0.0
        self.sources.mkdir()
        for name in ("one", "two"):
            self.write(name, f"// {name}")
        library = self.toolchain / "nvidia" / "cuda_nvrtc" / "lib"
        library.mkdir(parents=True)
        for name in ("libnvrtc.so.12", "libnvrtc-builtins.so.12.9", "libnvfatbin.so.12"):
            (library / name).write_bytes(b"library")
        self.nvrtc = library / "libnvrtc.so.12"
        monkeypatch.setattr(products, "make", self._make)
        monkeypatch.setattr(Toolchain, "capabilities", lambda self: ["7.5", "8.0", "9.0"])

    def write(self, name: str, text: str) -> None:
        (self.sources / f"{name}.cu").write_text(text)

    def _make(self, toolchain, source, compute_capability, folder):
        time.sleep(self.delay)
        with self.log.open("a") as log:
            log.write(source.stem + "\n")
        for kind, suffix in KINDS.items():
            (folder / (source.stem + suffix)).write_text(f"{kind} {source.read_text()}")

    def build(self, compute_capability: str = "9.0") -> Path:
        return build(self.toolchain, 12, compute_capability, self.cache, sources=self.sources)

    def made(self) -> list[str]:
        """The sources made since the last call, in order of their names."""
        names = sorted(self.log.read_text().split()) if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return names


def test_every_source_is_built_as_every_kind(workshop):
    found = Fixtures(workshop.build())
    assert (found.names, found.kinds) == (("one", "two"), tuple(KINDS))
    assert (found.cuda_major, found.compute_capability) == (12, "9.0")
    for name in found.names:
        for kind in found.kinds:
            assert found.path(name, kind).read_text() == f"{kind} // {name}"


def test_the_second_build_makes_nothing(workshop):
    first = workshop.build()
    assert workshop.made() == ["one", "two"]
    assert workshop.build() == first
    assert workshop.made() == []


def test_a_changed_source_alone_is_rebuilt(workshop):
    first = workshop.build()
    workshop.made()
    workshop.write("two", "// changed")
    second = workshop.build()
    assert workshop.made() == ["two"]
    assert second != first
    assert Fixtures(second).path("two", "cu").read_text() == "cu // changed"
    assert Fixtures(first).path("two", "cu").read_text() == "cu // two", "the old folder stays as it was"


def test_a_new_source_alone_is_built(workshop):
    workshop.build()
    workshop.made()
    workshop.write("three", "// three")
    assert "three" in Fixtures(workshop.build()).names
    assert workshop.made() == ["three"]


def test_a_removed_source_is_gone(workshop):
    workshop.build()
    (workshop.sources / "one.cu").unlink()
    assert Fixtures(workshop.build()).names == ("two",)


def test_a_date_alone_changes_nothing(workshop):
    workshop.build()
    workshop.made()
    os.utime(workshop.sources / "one.cu", (0, 0))
    workshop.build()
    assert workshop.made() == []


def _header(workshop, monkeypatch):
    (workshop.sources / "shared.cuh").write_text("// included")


def _toolchain(workshop, monkeypatch):
    (workshop.toolchain / "nvidia_cuda_nvrtc_cu12-12.9.86.dist-info").mkdir()


def _library(workshop, monkeypatch):
    workshop.nvrtc.write_bytes(b"another library")


def _builder(workshop, monkeypatch):
    monkeypatch.setattr(fixtures, "_BUILDER", [Path(__file__)])


@pytest.mark.parametrize("change", [_header, _toolchain, _library, _builder])
def test_what_all_sources_depend_on_rebuilds_all(workshop, monkeypatch, change):
    first = workshop.build()
    workshop.made()
    change(workshop, monkeypatch)
    assert workshop.build() != first
    assert workshop.made() == ["one", "two"]


def test_another_architecture_is_another_folder(workshop):
    assert workshop.build("9.0") != workshop.build("8.0")
    assert workshop.made() == ["one", "one", "two", "two"]


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:3])


def _swap(path: Path) -> None:
    path.write_bytes(path.read_bytes()[::-1])


@pytest.mark.parametrize("damage", [_truncate, _swap])
def test_a_damaged_product_is_rebuilt(workshop, damage):
    folder = workshop.build()
    workshop.made()
    damage(Fixtures(folder).path("one", "cubin"))
    assert workshop.build() == folder
    assert workshop.made() == ["one"]
    assert Fixtures(folder).path("one", "cubin").read_text() == "cubin // one"


@pytest.mark.parametrize("lost", ["one.a", "fixtures.json"])
def test_a_missing_file_is_put_back(workshop, lost):
    folder = workshop.build()
    (folder / lost).unlink()
    assert workshop.build() == folder
    assert (folder / lost).exists()


def test_what_a_killed_builder_left_is_in_nobodys_way(workshop):
    folder = workshop.build()
    workshop.made()
    leftover = folder.with_name(folder.name + ".tmp")
    leftover.mkdir()
    (leftover / "half.cubin").write_text("half")
    (folder / "fixtures.json").unlink()
    assert workshop.build() == folder
    assert not leftover.exists()
    assert not (folder / "half.cubin").exists()


def test_a_failed_build_leaves_nothing_that_looks_whole(workshop, monkeypatch):
    def fail(toolchain, source, compute_capability, folder):
        (folder / "one.ptx").write_text("half")
        raise SuiteError("no")

    with monkeypatch.context() as patch:
        patch.setattr(products, "make", fail)
        with pytest.raises(SuiteError):
            workshop.build()
    assert list((workshop.cache / "units").iterdir()) == []
    assert Fixtures(workshop.build()).names == ("one", "two")


def test_two_builders_at_once_share_the_work(workshop):
    workshop.delay = 0.2
    # Forked, so that the children have the recorder too.
    context = multiprocessing.get_context("fork")
    builders = [context.Process(target=workshop.build) for _ in range(3)]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join()
    assert [builder.exitcode for builder in builders] == [0, 0, 0]
    assert workshop.made() == ["one", "two"]
    workshop.build()
    assert workshop.made() == []


# Mistakes


def test_unknown_names_and_kinds_list_the_known_ones(workshop):
    found = Fixtures(workshop.build())
    with pytest.raises(SuiteError, match="three.*one, two"):
        found.path("three", "ptx")
    with pytest.raises(SuiteError, match="exe.*ptx, cu, cubin, fatbin, object, archive, ltoir"):
        found.path("one", "exe")


def test_a_folder_without_fixtures_is_refused(tmp_path):
    with pytest.raises(SuiteError, match="fixtures.json"):
        Fixtures(tmp_path)


def test_a_missing_compiler_names_the_mend(workshop):
    workshop.nvrtc.unlink()
    with pytest.raises(SuiteError, match=r"libnvrtc.so.12\* is not in .*matrices/toolchains.toml.*pip install"):
        workshop.build()


def test_a_library_that_does_not_load_is_named(workshop):
    with pytest.raises(SuiteError, match="libnvrtc-builtins.so.12.9 cannot be loaded"):
        Toolchain(workshop.toolchain, 12).compile("x.cu", b"", [])


def test_an_unknown_architecture_lists_the_known_ones(workshop):
    with pytest.raises(SuiteError, match="9.9; it has: 7.5, 8.0, 9.0"):
        workshop.build("9.9")


def test_a_source_with_a_dot_in_its_name_is_refused(workshop):
    workshop.write("one.lto", "")
    with pytest.raises(SuiteError, match="one.lto.cu"):
        workshop.build()


def test_a_folder_without_sources_is_refused(workshop, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(SuiteError, match="no device sources"):
        build(workshop.toolchain, 12, "9.0", workshop.cache, sources=empty)


@pytest.mark.parametrize(
    "asked, other", [("7.5", "8.0"), ("8.0", "7.5"), ("8.9", "7.5"), ("9.0a", "8.0"), ("10.0", "8.0")]
)
def test_the_other_architecture_is_of_another_major(asked, other):
    assert products.other_capability(asked) == other


@pytest.mark.parametrize("capability, number", [("7.5", "75"), ("10.0", "100"), ("9.0a", "90a")])
def test_the_number_of_an_architecture(capability, number):
    assert sm(capability) == number


# With real compilers


@pytest.fixture(scope="module", params=MAJORS, ids=lambda major: f"cu{major}")
def major(request):
    return request.param


@pytest.fixture(scope="module")
def toolchain(major):
    return _toolchain_folder(major)


def _toolchain_folder(major: int) -> Path:
    folder = os.environ.get("CONFORMANCE_TOOLCHAINS")
    if not folder:
        pytest.skip("set CONFORMANCE_TOOLCHAINS to a folder with the toolchains cu11, cu12 and cu13")
    return Path(folder, f"cu{major}")


# Every source is built where runs build it, so once; another architecture is shown by few of them.
FEW = ("add_i32", "arch_mark", "chain_a", "pair_a", "pair_b", "twice_i32")


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sources")
    for name in FEW:
        shutil.copy(SOURCES / f"{name}.cu", folder)
    return folder


@pytest.fixture(scope="module", params=["9.0", "7.5"])
def built(request, major, toolchain, tmp_path_factory, few):
    if request.param == "9.0":
        return Fixtures(build(toolchain, major, "9.0", cache("fixtures")))
    return Fixtures(build(toolchain, major, request.param, tmp_path_factory.mktemp("cache"), sources=few))


def test_all_sources_become_all_kinds(built):
    expected = {source.stem for source in SOURCES.glob("*.cu")} if built.compute_capability == "9.0" else set(FEW)
    assert set(built.names) == expected
    for name in built.names:
        for kind in built.kinds:
            assert built.path(name, kind).stat().st_size > 0


@pytest.mark.parametrize("kind", BASIC_KINDS)
def test_products_are_what_they_are_called(built, kind):
    # Fatbin: magic 0xba55ed50; LTO-IR: magic 0x7f4e43ed.
    start = {
        "ptx": b"//",
        "cu": b"//",
        "cubin": b"\x7fELF",
        "fatbin": b"\x50\xed\x55\xba",
        "object": b"\x7fELF",
        "archive": b"!<arch>\n",
        "ltoir": b"\xed\x43\x4e\x7f",
    }
    for name in built.names:
        assert built.path(name, kind).read_bytes().startswith(start[kind])


def test_ptx_is_for_the_asked_architecture(built):
    number = sm(built.compute_capability)
    assert f".target sm_{number}" in built.path("add_i32", "ptx").read_text()
    assert f"{number}0" in built.path("arch_mark", "ptx").read_text(), "__CUDA_ARCH__"


def test_no_product_names_a_folder_of_this_machine(built, toolchain):
    for path in built.folder.iterdir():
        content = path.read_bytes()
        for folder in (toolchain, built.folder.parent, SOURCES):
            assert str(folder.resolve()).encode() not in content, path.name


def test_products_do_not_depend_on_when_or_where(major, toolchain, few, tmp_path):
    folders = [tmp_path / "a", tmp_path / "b"]
    first, again = (Fixtures(build(toolchain, major, "8.0", f, jobs=n, sources=few)) for f, n in zip(folders, (2, 1)))
    assert again.folder.name == first.folder.name
    for kind in first.kinds:
        for name in first.names:
            assert _content(again, name, kind) == _content(first, name, kind), (name, kind)


def _content(built: Fixtures, name: str, kind: str) -> bytes:
    """A product's bytes, without the comments in which the compiler counts the calls of all that it has compiled."""
    return re.sub(rb"// callseq \d+", b"", built.path(name, kind).read_bytes())


def test_the_table_of_architectures_is_the_compilers(major, toolchain):
    tomllib = pytest.importorskip("tomllib")
    table = tomllib.loads((SOURCES.parents[1] / "matrices" / "toolchains.toml").read_text())
    assert table[f"cu{major}"]["compute_capabilities"] == Toolchain(toolchain, major).capabilities()


def test_a_source_error_names_file_line_and_identifier(major, toolchain, tmp_path):
    with pytest.raises(SuiteError, match=r"syntax_error\.cu\(4\): error: .*undefined_name"):
        build(toolchain, major, "9.0", tmp_path, sources=_only("syntax_error", tmp_path))


def test_noisy_gives_exactly_one_warning(major, toolchain):
    source = (BROKEN / "noisy.cu").read_bytes()
    log = Toolchain(toolchain, major).compile("noisy.cu", source, ["--gpu-architecture=sm_90"]).log
    assert (log.count("warning"), log.count("unused_name")) >= (1, 1)
    assert log.count("): warning") == 1


def test_the_half_precision_header_is_found(major, toolchain):
    source = b"#include <cuda_fp16.h>\n"
    Toolchain(toolchain, major).compile("half.cu", source, ["--gpu-architecture=sm_90"])


@pytest.mark.parametrize("tool", ["as", "ar"])
def test_a_missing_host_tool_names_the_mend(major, toolchain, tmp_path, monkeypatch, tool):
    tools = tmp_path / "bin"
    tools.mkdir()
    if tool == "ar":
        (tools / "as").symlink_to(_which("as"))
    monkeypatch.setenv("PATH", str(tools))
    with pytest.raises(SuiteError, match=f"`{tool}` is not on PATH: install GNU binutils"):
        build(toolchain, major, "9.0", tmp_path / "cache", sources=_only("noisy", tmp_path))


def _which(tool: str) -> str:
    return next(
        path for folder in os.environ["PATH"].split(os.pathsep) if os.path.exists(path := f"{folder}/{tool}")
    )


def _only(name: str, folder: Path) -> Path:
    sources = folder / "sources"
    sources.mkdir()
    (sources / f"{name}.cu").write_bytes((BROKEN / f"{name}.cu").read_bytes())
    return sources


# What a linker says to them


_LTO_KINDS = tuple(kind for kind in KINDS if kind == "ltoir" or kind.startswith("lto."))
_CLOSED_KINDS = tuple(kind for kind in KINDS if kind.startswith("nonrdc."))
_PLAIN_KINDS = tuple(
    kind for kind in KINDS if kind not in (*_LTO_KINDS, *_CLOSED_KINDS, "cu", "other.cubin")
)


@pytest.mark.parametrize("kind", _PLAIN_KINDS)
def test_nvjitlink_links_it(built, toolchain, kind):
    assert _link(built, toolchain, [("add_i32", kind)]).startswith(b"\x7fELF")


@pytest.mark.parametrize("kind", _LTO_KINDS)
def test_nvjitlink_links_lto_ir(built, toolchain, kind):
    if built.cuda_major == 11:
        with pytest.raises(LinkError, match="IR version 1.9 incompatible"):
            _link(built, toolchain, [("add_i32", kind)], lto=True)
    else:
        assert _link(built, toolchain, [("add_i32", kind)], lto=True).startswith(b"\x7fELF")


@pytest.mark.parametrize("kind", _LTO_KINDS)
def test_nvjitlink_refuses_lto_ir_without_lto(built, toolchain, kind):
    with pytest.raises(LinkError, match="(?i)without LTO"):
        _link(built, toolchain, [("add_i32", kind)])


@pytest.mark.parametrize("kind", _CLOSED_KINDS)
def test_nvjitlink_finds_no_function_in_code_that_is_not_relocatable(built, toolchain, kind):
    with pytest.raises(LinkError):
        _link(built, toolchain, [("add_i32", kind)])


def test_nvjitlink_refuses_another_architecture(built, toolchain):
    with pytest.raises(LinkError):
        _link(built, toolchain, [("add_i32", "other.cubin")])


@pytest.mark.parametrize("callee, units", [("twice_i32", ["twice_i32", "add_i32"]), ("pair_a", ["pair_a", "pair_b"])])
def test_units_that_need_others_link_only_with_them(built, toolchain, callee, units):
    for kind in ("ptx", "cubin", "archive"):
        assert _link(built, toolchain, [(unit, kind) for unit in units], callee)
        with pytest.raises(LinkError):
            _link(built, toolchain, [(callee, kind)], callee)


class LinkError(Exception):
    """What nvJitLink's error log said."""


# A kernel that calls `{callee}`; the number of arguments is of no interest to a linker.
_KERNEL = """
.version 6.5
.target sm_52
.address_size 64
.extern .func (.param .b32 status) {callee}(.param .b64 result, .param .b32 a, .param .b32 b);
.visible .entry kernel(.param .u64 out)
{{
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    {{
        .param .b32 status; .param .b64 result; .param .b32 a; .param .b32 b;
        st.param.b64 [result], %rd1;
        st.param.b32 [a], 1;
        st.param.b32 [b], 2;
        call (status), {callee}, (result, a, b);
    }}
    ret;
}}
"""

# nvJitLinkInputType of https://docs.nvidia.com/cuda/nvjitlink/
_INPUT_TYPES = {"cubin": 1, "ptx": 2, "ltoir": 3, "fatbin": 4, "object": 5, "archive": 6}


def _link(built, toolchain, units, callee="add_i32", lto=False) -> bytes:
    """Link products of one (name, kind) each with a kernel that calls `callee`."""
    items = [(_INPUT_TYPES["ptx"], _KERNEL.format(callee=callee).encode())]
    items += [(_INPUT_TYPES[kind.rpartition(".")[2]], built.path(n, kind).read_bytes()) for n, kind in units]
    options = [f"-arch=sm_{sm(built.compute_capability)}"] + ["-lto"] * lto
    return _nvjitlink(toolchain, options, items)


def _nvjitlink(*link) -> bytes:
    """Link in a process of its own: what nvJitLink has refused spoils the next link (docs/findings)."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as process:
        return process.submit(_nvjitlink_here, *link).result()


def _nvjitlink_here(toolchain: Path, options: list[str], items: list[tuple[int, bytes]]) -> bytes:
    library = ctypes.CDLL(str(next(toolchain.glob("nvidia/*/lib/libnvJitLink.so.*"))))
    handle, size = c_void_p(), c_size_t()

    def call(name: str, *arguments) -> int:
        return _newest(library, name)(*arguments)

    def check(status: int) -> None:
        if status:
            call("GetErrorLogSize", handle, byref(size))
            log = ctypes.create_string_buffer(size.value + 1)
            call("GetErrorLog", handle, log)
            raise LinkError(log.value.decode())

    texts = (c_char_p * len(options))(*(option.encode() for option in options))
    check(call("Create", byref(handle), len(options), texts))
    # nvJitLink keeps the pointers to the names: they must live until the link is complete.
    names = [b"item%d" % number for number in range(len(items))]
    try:
        for name, (kind, code) in zip(names, items, strict=True):
            check(call("AddData", handle, kind, code, c_size_t(len(code)), name))
        check(call("Complete", handle))
        check(call("GetLinkedCubinSize", handle, byref(size)))
        cubin = ctypes.create_string_buffer(size.value)
        check(call("GetLinkedCubin", handle, cubin))
        return cubin.raw
    finally:
        call("Destroy", byref(handle))


def _newest(library: ctypes.CDLL, name: str):
    """nvJitLink exports each function with the version suffixes that it serves, never without one."""
    suffixes = [f"{major}_{minor}" for major in (13, 12) for minor in range(9, -1, -1)]
    names = [f"__nvJitLink{name}_{suffix}" for suffix in suffixes]
    return next(getattr(library, symbol) for symbol in names if hasattr(library, symbol))
