"""The recording driver: how it is compiled, and what processes that load it are told.

Each question is a short script that runs in a process of its own, which finds the library as Numba's
does. The tests that load or link code need CUDA 12's toolchain: CONFORMANCE_TOOLCHAINS names the
folder that has `cu12`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from conformance import driver, fixtures, image
from conformance.errors import SuiteError
from conformance.fixtures import Fixtures
from conformance.paths import ROOT
from conformance.toolchain import Toolchain, find_library

# The codes of the driver API that these tests meet.
INVALID_VALUE, NOT_INITIALIZED, INVALID_DEVICE, INVALID_IMAGE, INVALID_CONTEXT = 1, 3, 101, 200, 201
NO_BINARY, INVALID_PTX, NO_COMPILER, PTX_VERSION, NO_FILE = 209, 218, 221, 222, 301
INVALID_HANDLE, NOT_FOUND, NOT_SUPPORTED = 400, 500, 801
CUBIN, PTX, FATBIN, OBJECT, ARCHIVE = range(5)

# What every script begins with. `call` gives a function's code, `ok` wants 0, `get` gives what the
# function writes to the place that its first argument points to; integers are passed in 64 bits.
PRELUDE = """
import ctypes, json, pathlib, sys, threading
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p, create_string_buffer
cuda = ctypes.CDLL("libcuda.so.1")

def call(name, *arguments):
    return getattr(cuda, name)(*(c_size_t(a) if isinstance(a, int) else a for a in arguments))

def ok(name, *arguments):
    code = call(name, *arguments)
    assert code == 0, f"{name} gave {code}"

def get(name, *arguments):
    place = c_void_p()
    ok(name, byref(place), *arguments)
    return place.value or 0

def context():
    ok("cuInit", 0)
    ok("cuCtxPushCurrent_v2", get("cuDevicePrimaryCtxRetain", 0))

def read(path):
    return pathlib.Path(path).read_bytes()

def kept(n):
    size = c_size_t()
    cuda.recordingImage.restype = c_void_p
    address = cuda.recordingImage(n, byref(size))
    return ctypes.string_at(address, size.value) if address else None

def say(*what):
    print(json.dumps(what if len(what) > 1 else what[0]))
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """The folder of the driver, compiled once for all tests."""
    return driver.build(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def ask(library):
    """Runs a script in a process that meets the recording driver, and gives what it says."""

    def run(script: str, *arguments, version="12.9", capability="9.0", nvjitlink=Path("none"), **changed):
        told = driver.environment(
            library, version=version, compute_capability=capability, nvjitlink=nvjitlink
        )
        done = subprocess.run(
            [sys.executable, "-c", PRELUDE + textwrap.dedent(script), *map(str, arguments)],
            env={**os.environ, **told, **changed},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr}"
        return json.loads(done.stdout)

    return run


# What it says of itself


@pytest.mark.parametrize(
    "version, number", [("11.8", 11080), ("12.0", 12000), ("12.9", 12090), ("13.0", 13000)]
)
def test_it_says_the_version_that_it_is_told(ask, version, number):
    assert ask('say(get("cuDriverGetVersion"))', version=version) == number


@pytest.mark.parametrize("capability", ["5.2", "7.5", "9.0", "10.0", "12.1"])
def test_its_device_has_the_compute_capability_that_it_is_told(ask, capability):
    script = """
    ok("cuInit", 0)
    parts = [get("cuDeviceGetAttribute", what, 0) for what in (75, 76)]
    major, minor = c_int(), c_int()
    ok("cuDeviceComputeCapability", byref(major), byref(minor), 0)
    say(parts, [major.value, minor.value])
    """
    parts = list(map(int, capability.split(".")))
    assert ask(script, capability=capability) == [parts, parts]


@pytest.mark.parametrize("text", ["", "12", "12.", "12.90", "12.9.0", "twelve", "12.9\n", "-12.9", " 12.9"])
@pytest.mark.parametrize("what", ["version", "compute_capability"])
def test_malformed_variables_are_refused(text, what):
    told = {"version": "12.9", "compute_capability": "9.0", what: text}
    with pytest.raises(SuiteError, match="is not of the form 12.9"):
        driver.environment(Path("folder"), nvjitlink=Path("none"), **told)


@pytest.mark.parametrize("variable", ["RECORDING_DRIVER_VERSION", "RECORDING_DRIVER_CC"])
@pytest.mark.parametrize("text", ["", "12", "twelve", "12.9.1"])
def test_it_does_not_start_on_malformed_variables(ask, variable, text):
    assert ask('say(call("cuInit", 0))', **{variable: text}) == INVALID_VALUE


def test_it_has_one_device_or_as_many_as_it_is_told(ask):
    script = """
    ok("cuInit", 0)
    count = get("cuDeviceGetCount")
    say(count, call("cuDeviceGet", byref(c_int()), count - 1), call("cuDeviceGet", byref(c_int()), count))
    """
    assert ask(script) == [1, 0, INVALID_DEVICE]
    assert ask(script, RECORDING_DRIVER_DEVICES="3") == [3, 0, INVALID_DEVICE]


def test_errors_have_their_names_and_texts(ask):
    script = """
    def text(function, code):
        place = c_char_p()
        result = call(function, code, byref(place))
        return result, place.value and place.value.decode()
    say([text(f, c) for c in (0, 218, 801, 12345) for f in ("cuGetErrorName", "cuGetErrorString")])
    """
    assert ask(script) == [
        [0, "CUDA_SUCCESS"],
        [0, "no error"],
        [0, "CUDA_ERROR_INVALID_PTX"],
        [0, "a PTX JIT compilation failed"],
        [0, "CUDA_ERROR_NOT_SUPPORTED"],
        [0, "operation not supported"],
        [INVALID_VALUE, None],
        [INVALID_VALUE, None],
    ]


# How functions are found

FIND = """
def find(name, version):
    "The address, and the code, by the export of the four-argument form."
    place = c_void_p()
    code = call("cuGetProcAddress", name.encode(), byref(place), version, 0)
    return place.value, code

def exported(name):
    return ctypes.cast(getattr(cuda, name), c_void_p).value
"""


@pytest.mark.parametrize("version, form", [(11030, ""), (11080, ""), (12000, "_v2"), (13000, "_v2")])
def test_the_form_of_get_proc_address_follows_the_version(ask, version, form):
    script = f"""
    found, code = find("cuGetProcAddress", {version})
    say(code, found == exported("cuGetProcAddress{form}"))
    """
    assert ask(FIND + textwrap.dedent(script)) == [0, True]


def test_both_forms_of_get_proc_address_work(ask):
    script = """
    four = ctypes.CFUNCTYPE(c_int, c_char_p, c_void_p, c_int, c_size_t)(find("cuGetProcAddress", 11080)[0])
    five = ctypes.CFUNCTYPE(c_int, c_char_p, c_void_p, c_int, c_size_t, c_void_p)(
        find("cuGetProcAddress", 12000)[0]
    )
    answers = []
    for name in (b"cuInit", b"cuNothing"):
        place, status = c_void_p(), c_int(-1)
        code = five(name, ctypes.addressof(place), 12000, 0, ctypes.addressof(status))
        answers.append([code, status.value, place.value == exported("cuInit")])
        answers.append([four(name, ctypes.addressof(place), 11080, 0), place.value == exported("cuInit")])
    answers.append(five(b"cuInit", ctypes.addressof(c_void_p()), 12000, 0, None))
    say(answers)
    """
    assert ask(FIND + textwrap.dedent(script)) == [
        [0, 0, True],
        [0, True],
        [NOT_FOUND, 1, False],
        [NOT_FOUND, False],
        0,
    ]


@pytest.mark.parametrize("name", ["cuMemAlloc", "cuLinkCreate", "cuModuleGetGlobal", "cuCtxPushCurrent"])
def test_names_are_found_with_and_without_v2(ask, name):
    script = f"""
    say(find("{name}", 12000) == find("{name}_v2", 12000) == (exported("{name}_v2"), 0))
    """
    assert ask(FIND + textwrap.dedent(script)) is True


@pytest.mark.parametrize("name", ["cuInit", "cuModuleLoadData", "cuGetExportTable", "cuLibraryLoadData"])
def test_names_without_another_form_are_found(ask, name):
    assert ask(FIND + f'say(find("{name}", 12000) == (exported("{name}"), 0))') is True


@pytest.mark.parametrize("version, form", [(11030, "_v2"), (11040, "_v3"), (12050, "_v4")])
def test_the_form_of_context_creation_follows_the_version(ask, version, form):
    assert ask(FIND + f'say(find("cuCtxCreate", {version})[0] == exported("cuCtxCreate{form}"))') is True


def test_an_unknown_function_is_not_found(ask):
    assert ask(FIND + 'say(find("cuNothing", 12000))') == [None, NOT_FOUND]


def test_the_export_table_is_refused_and_not_missing(ask):
    script = """
    place = c_void_p(1)
    say(call("cuGetExportTable", byref(place), bytes(16)), place.value)
    """
    assert ask(script) == [NOT_FOUND, None]


# Initialisation, contexts, handles


@pytest.mark.parametrize(
    "question",
    [
        'call("cuDeviceGetCount", byref(c_int()))',
        'call("cuDeviceGet", byref(c_int()), 0)',
        'call("cuDeviceGetAttribute", byref(c_int()), 75, 0)',
        'call("cuDeviceGetName", create_string_buffer(8), 8, 0)',
        'call("cuDevicePrimaryCtxRetain", byref(c_void_p()), 0)',
        'call("cuCtxGetCurrent", byref(c_void_p()))',
        'call("cuCtxPopCurrent_v2", byref(c_void_p()))',
        'call("cuCtxPushCurrent_v2", 1)',
        'call("cuCtxSynchronize")',
        'call("cuMemAlloc_v2", byref(c_void_p()), 8)',
        'call("cuStreamCreate", byref(c_void_p()), 0)',
        'call("cuModuleLoadData", byref(c_void_p()), b"")',
        'call("cuModuleGetLoadingMode", byref(c_int()))',
        'call("cuLibraryLoadData", byref(c_void_p()), b"", 0, 0, 0, 0, 0, 0)',
        'call("cuLinkCreate_v2", 0, 0, 0, byref(c_void_p()))',
        'call("cuLaunchKernel", 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)',
    ],
)
def test_nothing_works_before_initialisation(ask, question):
    assert ask(f"say({question})") == NOT_INITIALIZED


@pytest.mark.parametrize(
    "question",
    [
        'call("cuCtxSynchronize")',
        'call("cuCtxGetDevice", byref(c_int()))',
        'call("cuCtxPopCurrent_v2", byref(c_void_p()))',
        'call("cuMemAlloc_v2", byref(c_void_p()), 8)',
        'call("cuEventCreate", byref(c_void_p()), 0)',
        'call("cuModuleLoadData", byref(c_void_p()), b"")',
        'call("cuLinkCreate_v2", 0, 0, 0, byref(c_void_p()))',
    ],
)
def test_what_needs_a_context_says_so(ask, question):
    assert ask(f'ok("cuInit", 0); say({question})') == INVALID_CONTEXT


def test_contexts_are_a_stack(ask):
    script = """
    ok("cuInit", 0)
    first, second = get("cuDevicePrimaryCtxRetain", 0), get("cuCtxCreate_v2", 0, 0)
    seen = [get("cuCtxGetCurrent") == second]
    ok("cuCtxPushCurrent_v2", first)
    seen += [get("cuCtxGetCurrent") == first, get("cuCtxPopCurrent_v2") == first]
    seen += [get("cuCtxPopCurrent_v2") == second, get("cuCtxGetCurrent") == 0]
    say(seen)
    """
    assert ask(script) == [True] * 5


def test_setting_a_context_replaces_the_top_and_none_pops_it(ask):
    script = """
    ok("cuInit", 0)
    first, second = get("cuDevicePrimaryCtxRetain", 0), get("cuCtxCreate_v2", 0, 0)
    ok("cuCtxPushCurrent_v2", first)
    ok("cuCtxSetCurrent", second)
    seen = [get("cuCtxGetCurrent") == second]
    ok("cuCtxSetCurrent", 0)
    seen += [get("cuCtxGetCurrent") == second, get("cuCtxPopCurrent_v2") == second]
    ok("cuCtxSetCurrent", 0)
    say(seen, call("cuCtxPopCurrent_v2", 0))
    """
    assert ask(script) == [[True] * 3, INVALID_CONTEXT]


def test_every_thread_has_a_stack_of_its_own(ask):
    script = """
    context()
    seen = []
    def other():
        seen.append(get("cuCtxGetCurrent"))
        seen.append(call("cuCtxSynchronize"))
        ok("cuCtxPushCurrent_v2", get("cuCtxCreate_v2", 0, 0))
        seen.append(get("cuCtxGetCurrent") != get("cuDevicePrimaryCtxRetain", 0))
    before = get("cuCtxGetCurrent")
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    say(seen, before == get("cuCtxGetCurrent") == get("cuDevicePrimaryCtxRetain", 0))
    """
    assert ask(script) == [[0, INVALID_CONTEXT, True], True]


def test_the_primary_context_is_counted(ask):
    script = """
    ok("cuInit", 0)
    def active():
        flags, value = c_int(), c_int()
        ok("cuDevicePrimaryCtxGetState", 0, byref(flags), byref(value))
        return value.value
    seen = [active()]
    same = get("cuDevicePrimaryCtxRetain", 0) == get("cuDevicePrimaryCtxRetain", 0)
    for _ in range(2):
        seen.append(active())
        ok("cuDevicePrimaryCtxRelease_v2", 0)
    say(same, [*seen, active()], call("cuDevicePrimaryCtxRelease_v2", 0))
    """
    assert ask(script) == [True, [0, 1, 1, 0], INVALID_CONTEXT]


def test_every_handle_is_distinct(ask):
    script = """
    context()
    handles = [get("cuDevicePrimaryCtxRetain", device) for device in range(2)]
    handles += [get("cuCtxCreate_v2", 0, 0) for _ in range(3)]
    for make in ("cuStreamCreate", "cuEventCreate"):
        handles += [get(make, 0) for _ in range(5)]
    handles += [get("cuMemAlloc_v2", 1) for _ in range(5)]
    say(len(handles), len(set(handles)), all(handles))
    """
    assert ask(script, RECORDING_DRIVER_DEVICES="2") == [20, 20, True]


def test_devices_have_distinct_uuids(ask):
    script = """
    ok("cuInit", 0)
    def uuid(device):
        place = create_string_buffer(16)
        ok("cuDeviceGetUuid", place, device)
        return place.raw.hex()
    say(uuid(0) != uuid(1), uuid(0) == uuid(0))
    """
    assert ask(script, RECORDING_DRIVER_DEVICES="2") == [True, True]


# Memory


def test_memory_holds_what_is_copied(ask):
    script = """
    context()
    data = bytes(range(256)) * 5
    one, two = (get("cuMemAlloc_v2", len(data)) for _ in range(2))
    back = create_string_buffer(len(data))
    def content(at):
        ok("cuMemcpyDtoH_v2", back, at, len(data))
        return back.raw
    ok("cuMemcpyHtoD_v2", one, data, len(data))
    ok("cuMemcpyDtoDAsync_v2", two, one, len(data), 0)
    seen = [content(one) == data, content(two) == data]
    ok("cuMemsetD8_v2", two + 10, 0xAB, 3)
    seen += [content(two) == data[:10] + b"\\xab" * 3 + data[13:], content(one) == data, one % 256 == 0]
    freed = [call("cuMemFree_v2", one), call("cuMemFree_v2", two)]
    say(seen + freed + [call("cuMemAlloc_v2", byref(c_void_p()), 0)])
    """
    assert ask(script) == [True] * 5 + [0, 0, INVALID_VALUE]


def test_streams_and_events_are_over_at_once(ask):
    script = """
    context()
    stream, event = get("cuStreamCreate", 0), get("cuEventCreate", 0)
    codes = [call("cuEventRecord", event, stream), call("cuStreamWaitEvent", stream, event, 0)]
    codes += [call("cuEventQuery", event), call("cuStreamQuery", stream), call("cuStreamSynchronize", stream)]
    say(codes + [call("cuEventDestroy_v2", event), call("cuStreamDestroy_v2", stream)])
    """
    assert ask(script) == [0] * 7


# Code. `whole` is complete in itself, `caller` needs `add_i32`, `greedy` wants many registers.

WHOLE = """
__device__ int answer = 42;
__device__ int nought[3];
extern "C" __global__ void whole(int *out, int a) {
    __shared__ int kept[64];
    kept[a & 63] = answer;
    __syncthreads();
    *out = kept[(a + 1) & 63] + nought[a % 3];
}
extern "C" __global__ void second(int *out) { *out = 2; }
"""
CALLER = """
extern "C" __device__ int add_i32(int *, int, int);
extern "C" __global__ void caller(int *out, int a, int b) { int r; add_i32(&r, a, b); *out = r; }
"""
GREEDY = """
extern "C" __global__ void greedy(float *p) {
    float kept[96];
    for (int i = 0; i < 96; i++) kept[i] = p[i];
    __syncthreads();
    for (int i = 0; i < 96; i++) p[i] = kept[95 - i] * p[96 + i];
}
"""


@pytest.fixture(scope="session")
def toolchain():
    folder = os.environ.get("CONFORMANCE_TOOLCHAINS")
    if not folder:
        pytest.skip("set CONFORMANCE_TOOLCHAINS to a folder with the toolchain cu12")
    return Path(folder, "cu12")


@pytest.fixture(scope="session")
def code(toolchain, tmp_path_factory):
    """A folder with images of the three kernels, and of `whole` for several architectures."""
    folder = tmp_path_factory.mktemp("code")
    compiler = Toolchain(toolchain, 12)

    def compiled(name, source, capability, relocatable="false"):
        options = [f"--gpu-architecture=sm_{capability}", f"--relocatable-device-code={relocatable}"]
        return compiler.compile(f"{name}.cu", source.encode(), options)

    for capability in ("80", "86", "90"):
        (folder / f"whole_{capability}.cubin").write_bytes(compiled("whole", WHOLE, capability).cubin)
    whole = compiled("whole", WHOLE, "90")
    (folder / "whole.ptx").write_bytes(whole.ptx)
    linkable = compiled("whole", WHOLE, "90", "true").cubin
    (folder / "whole.fatbin").write_bytes(compiler.fatbin("whole", [("cubin", "9.0", linkable)]))
    (folder / "caller.ptx").write_bytes(compiled("caller", CALLER, "90", "true").ptx)
    (folder / "greedy.ptx").write_bytes(compiled("greedy", GREEDY, "90").ptx)
    return folder


@pytest.fixture(scope="session")
def built(toolchain, tmp_path_factory):
    """`add_i32` as every kind."""
    sources = tmp_path_factory.mktemp("sources")
    shutil.copy(fixtures.SOURCES / "add_i32.cu", sources)
    return Fixtures(fixtures.build(toolchain, 12, "9.0", tmp_path_factory.mktemp("cache"), sources=sources))


@pytest.fixture
def ask_linker(ask, toolchain):
    """`ask`, with the nvJitLink that serves cuLink*."""

    def run(script: str, *arguments, **options):
        return ask(script, *arguments, nvjitlink=find_library(toolchain, "libnvJitLink.so.*"), **options)

    return run


@pytest.mark.parametrize("load", ['"cuModuleLoadData"', '"cuModuleLoadDataEx"', '"cuLibraryLoadData"'])
def test_a_loaded_image_is_kept_byte_for_byte(ask, code, load):
    script = f"""
    context()
    cubin = read(sys.argv[1])
    before = cuda.recordingImageCount()
    get({load}, cubin, 0, 0, 0, 0, 0, 0)
    say(before, cuda.recordingImageCount(), kept(0) == cubin, kept(1))
    """
    assert ask(script, code / "whole_90.cubin") == [0, 1, True, None]


def test_images_are_kept_after_their_modules_are_gone(ask, code):
    script = """
    context()
    cubins = [read(path) for path in sys.argv[1:]]
    for cubin in cubins:
        ok("cuModuleUnload", get("cuModuleLoadData", cubin))
    say([kept(n) == cubin for n, cubin in enumerate(cubins)])
    """
    images = [code / "whole_80.cubin", code / "whole_86.cubin"]
    assert ask(script, *images, capability="8.6") == [True, True]


def test_kernels_are_found_with_their_registers(ask, code):
    script = """
    context()
    module = get("cuModuleLoadData", read(sys.argv[1]))
    functions = [get("cuModuleGetFunction", module, name) for name in (b"whole", b"second")]
    numbers = {"registers": 4, "shared": 1}
    say([{name: get("cuFuncGetAttribute", n, f) for name, n in numbers.items()} for f in functions])
    """
    path = code / "whole_90.cubin"
    kernels = image.facts(path.read_bytes())["kernels"]
    wanted = [{key: kernels[name][key] for key in ("registers", "shared")} for name in ("whole", "second")]
    assert wanted[0] != wanted[1]
    assert ask(script, path) == wanted


def test_a_missing_kernel_is_not_found(ask, code):
    script = """
    context()
    cubin = read(sys.argv[1])
    module, library = get("cuModuleLoadData", cubin), get("cuLibraryLoadData", cubin, 0, 0, 0, 0, 0, 0)
    names = (b"whole", b"whol", b"whole2", b"answer", b"")
    say([call("cuModuleGetFunction", byref(c_void_p()), module, name) for name in names],
        [call("cuLibraryGetKernel", byref(c_void_p()), library, name) for name in names])
    """
    assert ask(script, code / "whole_90.cubin") == [[0] + [NOT_FOUND] * 4] * 2


def test_a_kernel_is_one_handle_and_every_module_has_its_own(ask, code):
    script = """
    context()
    cubin = read(sys.argv[1])
    modules = [get("cuModuleLoadData", cubin) for _ in range(3)]
    def functions():
        return [get("cuModuleGetFunction", m, name) for m in modules for name in (b"whole", b"second")]
    once = functions()
    say(once == functions(), len(set(once + modules)))
    """
    assert ask(script, code / "whole_90.cubin") == [True, 9]


def test_a_library_lists_its_kernels(ask, code):
    script = """
    context()
    library = get("cuLibraryLoadData", read(sys.argv[1]), 0, 0, 0, 0, 0, 0)
    kernels = (c_void_p * 2)()
    ok("cuLibraryEnumerateKernels", kernels, 2, library)
    def name(kernel):
        place = c_char_p()
        ok("cuKernelGetName", byref(place), kernel)
        return place.value.decode()
    say(get("cuLibraryGetKernelCount", library), sorted(map(name, kernels)))
    """
    assert ask(script, code / "whole_90.cubin") == [2, ["second", "whole"]]


def test_variables_are_there_with_their_values(ask, code):
    script = """
    context()
    module = get("cuModuleLoadData", read(sys.argv[1]))
    def variable(name):
        place, size = c_void_p(), c_size_t()
        code = call("cuModuleGetGlobal_v2", byref(place), byref(size), module, name)
        return [code, ctypes.string_at(place, size.value).hex() if place else None]
    say([variable(name) for name in (b"answer", b"nought", b"whole")])
    """
    assert ask(script, code / "whole_90.cubin") == [[0, "2a000000"], [0, "00" * 12], [NOT_FOUND, None]]


@pytest.mark.parametrize(
    "cubin, device, result",
    [
        ("80", "8.0", 0),
        ("80", "8.6", 0),
        ("86", "8.0", NO_BINARY),
        ("80", "9.0", NO_BINARY),
        ("90", "10.0", NO_BINARY),
    ],
)
def test_a_cubin_runs_on_its_own_architecture_only(ask, code, cubin, device, result):
    script = """
    context()
    say(call("cuModuleLoadData", byref(c_void_p()), read(sys.argv[1])), cuda.recordingImageCount())
    """
    assert ask(script, code / f"whole_{cubin}.cubin", capability=device) == [result, int(result == 0)]


@pytest.mark.parametrize(
    "garbage", [b"", b"x", b"no image at all", b"\x7fELF", b"\x7fELF" + bytes(200), bytes(64)]
)
def test_garbage_is_an_invalid_image(ask, tmp_path, garbage):
    script = """
    context()
    say(call("cuModuleLoadData", byref(c_void_p()), read(sys.argv[1]) + bytes(8)), cuda.recordingImageCount())
    """
    path = tmp_path / "garbage"
    path.write_bytes(garbage)
    assert ask(script, path) == [INVALID_IMAGE, 0]


@pytest.mark.parametrize("kind", ["ptx", "fatbin"])
def test_ptx_and_fatbins_are_loaded_through_nvjitlink(ask_linker, code, kind):
    script = """
    context()
    module = get("cuModuleLoadData", read(sys.argv[1]) + b"\\0")
    say(get("cuFuncGetAttribute", 4, get("cuModuleGetFunction", module, b"whole")), kept(0).hex())
    """
    registers, kept = ask_linker(script, code / f"whole.{kind}")
    assert image.facts(bytes.fromhex(kept))["kernels"]["whole"]["registers"] == registers > 0


def test_without_nvjitlink_there_is_no_compiler(ask, code):
    script = """
    context()
    say(call("cuModuleLoadData", byref(c_void_p()), read(sys.argv[1]) + b"\\0"),
        call("cuLinkCreate_v2", 0, 0, 0, byref(c_void_p())))
    """
    assert ask(script, code / "whole.ptx") == [NO_COMPILER, NO_COMPILER]


@pytest.mark.parametrize(
    "ptx, result", [("this is no ptx", INVALID_PTX), (".version 99.0\n.target sm_90", PTX_VERSION)]
)
def test_ptx_that_cannot_be_loaded(ask_linker, ptx, result):
    script = """
    context()
    say(call("cuModuleLoadData", byref(c_void_p()), sys.argv[1].encode()))
    """
    text = ptx if ptx.startswith(".") else f".version 6.5\n.target sm_52\n{ptx}\n"
    assert ask_linker(script, text) == result


def test_launches_are_refused_and_counted(ask, code):
    script = """
    context()
    kernel = get("cuModuleGetFunction", get("cuModuleLoadData", read(sys.argv[1])), b"whole")
    shape = (1, 1, 1, 1, 1, 1, 0, 0)
    before = cuda.recordingLaunchCount()
    codes = [call("cuLaunchKernel", kernel, *shape, 0, 0)]
    codes += [call("cuLaunchCooperativeKernel", kernel, *shape, 0), call("cuLaunchKernelEx", 0, kernel, 0, 0)]
    after = cuda.recordingLaunchCount()
    say(before, codes, after, call("cuLaunchKernel", 0, *shape, 0, 0), cuda.recordingLaunchCount())
    """
    assert ask(script, code / "whole_90.cubin") == [0, [NOT_SUPPORTED] * 3, 3, INVALID_HANDLE, 3]


# cuLink*

LINK = """
SPACE, GUARD = 1024, 64
def buffer(space=SPACE):
    return create_string_buffer(bytes(space) + b"\\xa5" * GUARD, space + GUARD)

def guarded(log, space=SPACE):
    return log.raw[space:] == b"\\xa5" * GUARD

def options(given):
    "Option numbers and their values as the driver takes them."
    values = [c_void_p(ctypes.addressof(v) if isinstance(v, ctypes.Array) else v) for v in given.values()]
    return len(given), (c_int * len(given))(*given), (c_void_p * len(given))(*values)

def create(given):
    count, numbers, values = options(given)
    state = c_void_p()
    ok("cuLinkCreate_v2", count, numbers, values, byref(state))
    return state

def add(state, kind, data):
    return call("cuLinkAddData_v2", state, kind, data, len(data), b"given", 0, 0, 0)

def add_file(state, kind, path):
    return call("cuLinkAddFile_v2", state, kind, str(path).encode(), 0, 0, 0)

def complete(state):
    place, size = c_void_p(), c_size_t()
    code = call("cuLinkComplete", state, byref(place), byref(size))
    return code, ctypes.string_at(place, size.value) if place else b""

context()
"""


@pytest.fixture
def link(ask_linker):
    def run(script: str, *arguments, **options):
        return ask_linker(LINK + textwrap.dedent(script), *arguments, **options)

    return run


KINDS = {"ptx": PTX, "cubin": CUBIN, "fatbin": FATBIN, "object": OBJECT, "archive": ARCHIVE}


@pytest.mark.parametrize("place", ["memory", "file"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_links(link, code, built, kind, place):
    script = """
    caller, added, kind, place = sys.argv[1:]
    state = create({})
    ok("cuLinkAddFile_v2", state, 1, caller.encode(), 0, 0, 0)
    codes = [add_file(state, int(kind), added) if place == "file" else add(state, int(kind), read(added))]
    code, cubin = complete(state)
    module = get("cuModuleLoadData", cubin)
    codes += [code, call("cuModuleGetFunction", byref(c_void_p()), module, b"caller")]
    ok("cuLinkDestroy", state)
    say(codes, kept(0) == cubin, cubin.hex())
    """
    codes, same, cubin = link(script, code / "caller.ptx", built.path("add_i32", kind), KINDS[kind], place)
    assert (codes, same) == ([0, 0, 0], True)
    facts = image.facts(bytes.fromhex(cubin))
    assert (facts["elf_type"], facts["architecture"], facts["undefined"]) == ("executable", "sm_90", [])


def test_the_target_is_the_device_or_what_is_asked_for(link, built):
    script = """
    cubins = []
    for given in ({}, {9: 86}):
        state = create(given)
        add(state, 1, b".version 6.5\\n.target sm_52\\n.address_size 64\\n.visible .entry k() { ret; }")
        cubins.append(complete(state)[1].hex())
    say(cubins)
    """
    cubins = link(script, capability="8.0")
    assert [image.facts(bytes.fromhex(c))["architecture"] for c in cubins] == ["sm_80", "sm_86"]


@pytest.mark.parametrize("end", ["", "\0", "\n"])
def test_ptx_may_end_with_or_without_a_nul(link, end):
    script = """
    text = b".version 6.5\\n.target sm_52\\n.address_size 64\\n.visible .entry k() { ret; }"
    state = create({})
    say(add(state, 1, text + bytes.fromhex(sys.argv[1])), complete(state)[0])
    """
    assert link(script, end.encode().hex()) == [0, 0]


def test_invalid_ptx_fills_the_error_log(link):
    script = """
    log = buffer()
    state = create({5: log, 6: SPACE})
    say(add_file(state, 1, sys.argv[1]), log.value.decode(), guarded(log))
    """
    result, log, guarded = link(script, ROOT / "fixtures" / "broken" / "invalid.ptx")
    assert (result, guarded) == (INVALID_PTX, True)
    assert "this_is_no_instruction" in log


@pytest.mark.parametrize("space", [1, 2, 7, 20])
def test_a_log_never_leaves_its_buffer(link, space):
    script = """
    space = int(sys.argv[2])
    logs = {5: buffer(space), 6: space, 3: buffer(space), 4: space}
    state = create({12: 1, **logs})
    add_file(state, 1, sys.argv[1])
    complete(state)
    say([guarded(logs[5], space), guarded(logs[3], space)], len(logs[5].value))
    """
    invalid = ROOT / "fixtures" / "broken" / "invalid.ptx"
    assert link(script, invalid, space) == [[True, True], space - 1]


def test_an_empty_log_buffer_is_left_alone(link):
    script = """
    log = buffer(0)
    state = create({5: log, 6: 0})
    say(add_file(state, 1, sys.argv[1]), guarded(log, 0))
    """
    assert link(script, ROOT / "fixtures" / "broken" / "invalid.ptx") == [INVALID_PTX, True]


def test_ptx_of_a_newer_version_has_its_own_code(link):
    script = """
    log = buffer()
    state = create({5: log, 6: SPACE})
    say(add(state, 1, b".version 99.0\\n.target sm_90\\n.address_size 64\\n"), log.value.decode())
    """
    result, log = link(script)
    assert (result, "99.0" in log) == (PTX_VERSION, True)


def test_the_codes_do_not_need_a_log(link):
    script = """
    say(add_file(create({}), 1, sys.argv[1]), add(create({}), 1, b".version 99.0\\n.target sm_90\\n"))
    """
    assert link(script, ROOT / "fixtures" / "broken" / "invalid.ptx") == [INVALID_PTX, PTX_VERSION]


def test_a_missing_file(link, tmp_path):
    script = "say([add_file(create({}), 1, path) for path in sys.argv[1:]])"
    assert link(script, tmp_path / "absent.ptx", tmp_path) == [NO_FILE, NO_FILE]


def test_an_undefined_symbol_is_named_in_the_log(link, code):
    script = """
    log = buffer()
    state = create({5: log, 6: SPACE})
    added = add_file(state, 1, sys.argv[1])
    result, cubin = complete(state)
    say(added, result != 0, len(cubin), "add_i32" in log.value.decode(), guarded(log))
    """
    assert link(script, code / "caller.ptx") == [0, True, 0, True, True]


@pytest.mark.parametrize("kind", ["cubin", "fatbin", "object", "archive"])
def test_garbage_does_not_link(link, kind):
    script = """
    state = create({})
    codes = [add_file(state, int(sys.argv[2]), sys.argv[1]), complete(state)[0]]
    say(any(codes))
    """
    garbage = ROOT / "fixtures" / "broken" / "unknown_extension.xyz"
    assert link(script, garbage, KINDS[kind]) is True


def test_max_registers_is_honoured(link, code):
    script = """
    registers = []
    for given in ({}, {0: 32}):
        state = create(given)
        ok("cuLinkAddFile_v2", state, 1, sys.argv[1].encode(), 0, 0, 0)
        module = get("cuModuleLoadData", complete(state)[1])
        registers.append(get("cuFuncGetAttribute", 4, get("cuModuleGetFunction", module, b"greedy")))
    say(registers)
    """
    free, bounded = link(script, code / "greedy.ptx")
    assert bounded <= 32 < free


def test_the_optimisation_level_is_honoured(link, code):
    script = """
    cubins = []
    for given in ({7: 0}, {7: 3, 12: 1, 13: 1}):
        state = create(given)
        ok("cuLinkAddFile_v2", state, 1, sys.argv[1].encode(), 0, 0, 0)
        cubins.append(complete(state)[1].hex())
    say(cubins)
    """
    slow, fast = (image.facts(bytes.fromhex(c)) for c in link(script, code / "greedy.ptx"))
    assert slow["kernels"]["greedy"]["code"] > fast["kernels"]["greedy"]["code"]


def test_what_cannot_be_linked_is_refused(link):
    script = """
    state = create({})
    say([add(state, kind, b"data") for kind in (5, 6, 77)], add(state, 1, b""), add(0, 1, b"data"),
        call("cuLinkComplete", 0, byref(c_void_p()), byref(c_size_t())), call("cuLinkDestroy", 0))
    """
    codes = [NO_COMPILER, INVALID_VALUE, INVALID_VALUE]  # the first is LTO-IR
    assert link(script) == [codes, INVALID_VALUE, INVALID_VALUE, INVALID_HANDLE, INVALID_HANDLE]


def test_links_in_threads_do_not_mix(link, code, built):
    script = """
    results = []
    def one():
        context()
        state = create({})
        codes = [add_file(state, 1, sys.argv[1]), add_file(state, 2, sys.argv[2])]
        results.append([*codes, complete(state)[0]])
    threads = [threading.Thread(target=one) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    say(results)
    """
    assert link(script, code / "caller.ptx", built.path("add_i32", "fatbin")) == [[0, 0, 0]] * 4


# Compiling it


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """A C compiler that writes down what it is called for, and takes its time."""
    real = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    script, log = tmp_path / "slowcc", tmp_path / "calls.txt"
    script.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] || {{ echo call >> {log}; sleep 0.3; }}\nexec {real} "$@"\n'
    )
    script.chmod(0o755)
    log.touch()
    monkeypatch.setenv("CC", str(script))
    return log


def test_a_second_build_does_not_compile(compiler, tmp_path):
    folder = driver.build(tmp_path / "cache")
    assert driver.build(tmp_path / "cache") == folder
    assert compiler.read_text() == "call\n"
    assert [path.name for path in folder.iterdir()] == ["libcuda.so.1"]


def test_two_processes_at_once_compile_once(compiler, tmp_path):
    script = f"""
import ctypes, pathlib
from conformance import driver
ctypes.CDLL(str(driver.build(pathlib.Path({str(tmp_path / "cache")!r})) / "libcuda.so.1")).cuInit
"""
    processes = [subprocess.Popen([sys.executable, "-c", script], cwd=ROOT) for _ in range(2)]
    assert [p.wait(60) for p in processes] == [0, 0]
    assert compiler.read_text() == "call\n"


def test_changed_sources_are_compiled_anew(compiler, tmp_path):
    sources = tmp_path / "sources"
    shutil.copytree(driver.SOURCES, sources)
    before = driver.build(tmp_path / "cache", sources)
    (sources / "recording.h").write_text((sources / "recording.h").read_text() + "\n/* changed */\n")
    assert driver.build(tmp_path / "cache", sources) != before
    assert compiler.read_text() == "call\n" * 2


@pytest.mark.parametrize("cc", [None, "nosuchcc -m64"])
def test_without_a_compiler_the_error_names_the_mend(tmp_path, monkeypatch, cc):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    if cc:
        monkeypatch.setenv("CC", cc)
    with pytest.raises(SuiteError, match=f"no {cc or 'cc, gcc or clang'} on PATH: install gcc"):
        driver.build(tmp_path / "cache")


def test_a_source_that_does_not_compile_gives_the_diagnostics(tmp_path):
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "broken.c").write_text("int f(void) { return undefined_name; }\n")
    with pytest.raises(SuiteError, match=r"(?s)does not compile with .*broken\.c:1:.*undefined_name"):
        driver.build(tmp_path / "cache", sources)
    (sources / "broken.c").write_text("int f(void) { return 1; }\n")
    assert (driver.build(tmp_path / "cache", sources) / "libcuda.so.1").exists()


def test_a_cache_that_cannot_be_written_is_told_with_its_mend(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(SuiteError, match=r"cannot be kept in .*file/cache \(Not a directory\): .*CONFORMANCE_CACHE"):
        driver.build(tmp_path / "file" / "cache")


def test_it_compiles_without_a_warning(tmp_path):
    sources = map(str, driver.SOURCES.glob("*.c"))
    command = ["cc", "-std=gnu11", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"]
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "library"), *sources], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_it_exports_the_driver_api_and_its_records_only(library):
    done = subprocess.run(
        ["nm", "-D", "--defined-only", library / "libcuda.so.1"], capture_output=True, text=True, check=True
    )
    names = [line.split()[-1] for line in done.stdout.splitlines()]
    assert len(names) > 50
    assert [n for n in names if not n.startswith(("cu", "recording"))] == []
