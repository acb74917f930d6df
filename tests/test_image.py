"""What is read off images: a hand-made one, and those that real compilers and linkers make.

The tests at the end need real toolchains, installed as `matrices/toolchains.toml` says:
CONFORMANCE_TOOLCHAINS names the folder that has `cu11`, `cu12` and `cu13`.
"""

from __future__ import annotations

import json
import os
import random
import struct
import sys
from pathlib import Path

import pytest
from test_fixtures import MAJORS, _nvjitlink

from conformance.image import NotAnImage, facts, short_name
from conformance.toolchain import Toolchain

# Names

# As numba-cuda 0.15 to 0.30 mangle the arguments (int32[:], int32).
_TAIL = "B94cw51cXTLSUwv1sCUt9Ww0FEw09RRQPKzLTg4gaGKFsG2oMQGEYakJSQB1PQBk0Bynm21OiwU1a0UoLGhDpQE8oxrNQE_3d"
_ARGUMENTS = "E5ArrayIiLi1E1C7mutable7alignedEi"


@pytest.mark.parametrize(
    "symbol, name",
    [
        (f"_ZN6cudapy8__main__6kernelB2v1{_TAIL}{_ARGUMENTS}", "kernel"),
        (f"_ZN3pkg5sub_18integers6kernelB3v17{_TAIL}{_ARGUMENTS}", "kernel"),
        (f"_ZN8integers12link_by_path12_3clocals_3e6kernelB2v1{_TAIL}{_ARGUMENTS}", "kernel"),
        (f"_ZN8integers12link_by_path12_3clocals_3e8__kernelB2v1{_TAIL}{_ARGUMENTS}", "__kernel"),
        (f"_ZN8integers5Class9kernel_3cB2v1{_TAIL}{_ARGUMENTS}", "kernel_3c"),
        (f"_ZN8integers34link_by_path$3clocals$3e__kernel_2B2v1{_TAIL}{_ARGUMENTS}", "kernel_2"),
        ("_ZN8integers6kernelB2v1E5ArrayIiLi1E1C7mutable7alignedE$2", "kernel"),
        ("_Z6kernelB2v1i", "kernel"),
        ("link_by_path$3clocals$3e__kernel", "kernel"),
    ],
)
def test_short_names_of_numba(symbol, name):
    assert short_name(symbol) == name


@pytest.mark.parametrize(
    "symbol",
    [
        "",
        "kernel",
        "helper$3",
        "_Z",
        "_ZN",
        "_ZNE",
        "_Z6hiddeniPi",
        "_ZN2ns6hiddenEiPi",
        "_ZN3fooIiE3barEv",
        "_ZZ6kernelE4tile",
        "_ZN99999kernelB2v1E",
        "_ZN" + "9" * 5000,
        "_ZN8integers6kern",
        "_ZNB2v1E",
        "_ZN0B2v1E",
        "$3clocals$3e",
        "\udc80\n_Z²x",
    ],
)
def test_other_symbols_stay_as_they_are(symbol):
    assert short_name(symbol) == symbol


# A hand-made image


_ENTRY, _FUNC, _OBJECT, _GLOBAL = 0x10, 2, 1, 0x10
_KERNEL = f"_ZN8integers6kernelB2v1{_TAIL}{_ARGUMENTS}"
_PROGBITS, _SYMTAB, _STRTAB, _NOBITS, _INFO = 1, 2, 3, 8, 0x70000000


def _record(attribute: int, *words: int) -> bytes:
    return struct.pack(f"<BBH{len(words)}I", 4, attribute, 4 * len(words), *words)


_ATTRIBUTES = _record(0x2F, 1, 30) + _record(0x2F, 2, 9) + _record(0x11, 1, 8) + _record(0x12, 1, 24)


def _image(attributes=_ATTRIBUTES, names=(_KERNEL, "plain"), flags=0x4B054B, abi=7, without=()) -> bytes:
    """An image with two kernels, a function, a variable, and a function that is not there."""
    first, second = names
    strings = f"\0{first}\0{second}\0helper\0counter\0outside\0".encode()

    def symbol(name: str, kind: int, other: int, section: int, size: int) -> bytes:
        at = strings.index(b"\0" + name.encode() + b"\0") + 1
        return struct.pack("<IBBHQQ", at, _GLOBAL | kind, other, section, 0, size)

    symbols = bytes(24) + b"".join(
        [
            symbol(first, _FUNC, _ENTRY, 4, 256),
            symbol(second, _FUNC, _ENTRY, 5, 128),
            symbol("helper", _FUNC, 0, 4, 64),
            symbol("counter", _OBJECT, 0, 6, 12),
            symbol("outside", _FUNC, 0, 0, 0),
        ]
    )
    # (name, type, flags, link, size of an entry, contents); a number in place of contents is a size only
    sections = [
        ("", 0, 0, 0, 0, b""),
        (".strtab", _STRTAB, 0, 0, 0, strings),
        (".symtab", _SYMTAB, 0, 1, 24, symbols),
        (".nv.info", _INFO, 0, 2, 0, attributes),
        (f".text.{first}", _PROGBITS, 3 << 20, 2, 0, bytes(256)),
        (f".text.{second}", _PROGBITS, 0, 2, 0, bytes(128)),
        (".nv.global", _NOBITS, 0, 0, 0, 12),
        (f".nv.shared.{first}", _NOBITS, 0, 0, 0, 1 << 20),
        (f".nv.constant0.{first}", _PROGBITS, 0, 0, 0, bytes(20)),
        (f".nv.info.{second}", _INFO, 0, 2, 0, struct.pack("<BBH", 2, 0x4C, 7)),
    ]
    return _assemble([s for s in sections if s[0] not in without], flags, abi)


def _assemble(sections, flags: int, abi: int) -> bytes:
    names = b"\0".join(name.encode() for name, *_ in sections) + b"\0.shstrtab\0"
    sections = [*sections, (".shstrtab", _STRTAB, 0, 0, 0, names)]
    body, headers = b"", b""
    for name, kind, flag, link, entry, content in sections:
        size = content if isinstance(content, int) else len(content)
        at = names.index(name.encode() + b"\0")
        headers += struct.pack("<IIQQQQIIQQ", at, kind, flag, 0, 64 + len(body), size, link, 0, 1, entry)
        body += b"" if isinstance(content, int) else content
    ident = b"\x7fELF" + bytes([2, 1, 1, 51, abi]) + bytes(7)
    count = len(sections)
    numbers = (2, 190, 1, 0, 0, 64 + len(body), flags, 64, 0, 0, 64, count, count - 1)
    return ident + struct.pack("<HHIQQQIHHHHHH", *numbers) + body + headers


def test_the_facts_of_a_minimal_image():
    image = _image()
    kernel = {"registers": 30, "shared": 1 << 20, "local": 24, "constant": 20, "code": 256, "barriers": 3}
    plain = {"registers": 9, "shared": 0, "local": 0, "constant": 0, "code": 128, "barriers": 7}
    assert facts(image) == {
        "architecture": "sm_75",
        "elf_type": "executable",
        "kernels": {"kernel": kernel, "plain": plain},
        "functions": ["helper"],
        "undefined": ["outside"],
        "globals": {"counter": 12},
        "line_info": False,
        "debug_info": False,
        "size": len(image),
    }


@pytest.mark.parametrize(
    "flags, abi, architecture",
    [(0x5A055A, 7, "sm_90"), (0x5A0D5A, 7, "sm_90"), (0x6005A04, 8, "sm_90"), (0x600640A, 8, "sm_100")],
)
def test_architectures_of_both_layouts(flags, abi, architecture):
    assert facts(_image(flags=flags, abi=abi))["architecture"] == architecture


def test_kernels_of_one_short_name_are_told_apart():
    assert list(facts(_image(names=(_KERNEL, "kernel")))["kernels"]) == ["kernel", "kernel#2"]


def test_the_stack_of_a_kernel_that_recurses_is_unknown():
    attributes = _ATTRIBUTES + _record(0x12, 2, 0xFFFFFFFF)
    assert facts(_image(attributes))["kernels"]["plain"]["local"] is None


def test_the_frame_stands_for_the_stack_where_that_is_missing():
    attributes = _ATTRIBUTES + _record(0x11, 2, 40)
    assert facts(_image(attributes))["kernels"]["plain"]["local"] == 40


# What is no image


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "does not begin"),
        (b".version 8.0\n.target sm_90\n", "does not begin"),
        (b"\x50\xed\x55\xba" + bytes(100), "does not begin"),
        (b"\x7fELF", "damaged"),
        (b"\x7fELF" + bytes(100), "damaged"),
        (_image()[:-1], "truncated: it has [0-9]+ bytes, of at least [0-9]+"),
        (_image(without=(".symtab",)), "no symbol table"),
        (_image(_record(0x2F, 2, 9)), "kernel kernel has no register count"),
        (_image(_ATTRIBUTES[:-1]), "ends inside an attribute"),
    ],
)
def test_what_is_no_image_is_refused(content, message):
    with pytest.raises(NotAnImage, match=message) as caught:
        facts(content)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a program of Linux is an ELF file")
def test_a_program_of_the_host_is_refused():
    with pytest.raises(NotAnImage, match="-bit ELF file for machine EM_"):
        facts(Path(sys.executable).read_bytes())


def test_every_truncation_is_noticed():
    image = _image()
    for size in range(len(image)):
        with pytest.raises(NotAnImage):
            facts(image[:size])


def test_flipped_bits_give_facts_or_a_refusal():
    image = _image()
    for bit in range(8 * 64):  # the header of the file, where they do the most
        _survives(_flipped(image, [bit]))
    _flip_at_random(image, times=1500)


def _flip_at_random(image: bytes, times: int) -> None:
    chance = random.Random(1)
    for _ in range(times):
        _survives(_flipped(image, [chance.randrange(8 * len(image)) for _ in range(chance.randint(1, 20))]))


def _flipped(image: bytes, bits: list[int]) -> bytes:
    result = bytearray(image)
    for bit in bits:
        result[bit // 8] ^= 1 << bit % 8
    return bytes(result)


def _survives(image: bytes) -> None:
    try:
        json.dumps(facts(image))
    except NotAnImage:
        pass


# Of real compilers and linkers


_SOURCE = b"""
extern "C" __device__ int helper(int a, int *p);
extern "C" { __device__ int counter = 5; __device__ float table[64]; __constant__ int weights[4] = {1, 2}; }
extern "C" __global__ void kernel(int *out, int n) {
    __shared__ int tile[96];
    int stack[40];
    for (int i = 0; i < n; i++) stack[i * 7 % 40] = out[i];
    tile[threadIdx.x % 96] = stack[n % 40];
    __syncthreads();
    out[0] = tile[(threadIdx.x + 1) % 96] + helper(n, stack) + weights[n & 3] + (int)table[n] + counter;
}
extern "C" __global__ void plain(int *out) { out[threadIdx.x] = 1; }
extern "C" __global__ void hungry(float *out) {
    float live[96];
    #pragma unroll
    for (int i = 0; i < 96; i++) live[i] = out[i];
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 96; i++) out[95 - i] = live[i] * live[(i + 31) % 96];
}
"""
_HELPER = b"""
extern "C" __device__ int helper(int a, int *p) {
    int stack[24];
    for (int i = 0; i < a; i++) stack[i * 5 % 24] = p[i];
    return stack[(a + 3) % 24];
}
"""


@pytest.fixture(scope="module", params=MAJORS, ids=lambda major: f"cu{major}")
def toolchain(request):
    folder = os.environ.get("CONFORMANCE_TOOLCHAINS")
    if not folder:
        pytest.skip("set CONFORMANCE_TOOLCHAINS to a folder with the toolchains cu11, cu12 and cu13")
    return Toolchain(Path(folder, f"cu{request.param}"), request.param)


@pytest.fixture(params=["75", "80", "90", "100"], ids=lambda number: f"sm_{number}")
def number(request, toolchain):
    if f"{request.param[:-1]}.{request.param[-1]}" not in toolchain.capabilities():
        pytest.skip(f"CUDA {toolchain.cuda_major} does not compile for sm_{request.param}")
    return request.param


def _compile(toolchain, number: str, source: bytes, *options: str) -> bytes:
    arguments = [f"--gpu-architecture=sm_{number}", "--relocatable-device-code=true", *options]
    return toolchain.compile("source.cu", source, arguments).cubin


def _link(toolchain, number: str, *options: str, linker_options: tuple[str, ...] = ()) -> bytes:
    cubins = [_compile(toolchain, number, source, *options) for source in (_SOURCE, _HELPER)]
    return _nvjitlink(toolchain.folder, [f"-arch=sm_{number}", *linker_options], [(1, c) for c in cubins])


def test_a_relocatable_image(toolchain, number):
    found = facts(_compile(toolchain, number, _SOURCE))
    assert (found["elf_type"], found["architecture"]) == ("relocatable", f"sm_{number}")
    assert (found["functions"], found["undefined"]) == ([], ["helper"])
    assert sorted(found["kernels"]) == ["hungry", "kernel", "plain"]
    assert found["kernels"]["kernel"]["shared"] == 4 * 96
    assert facts(_compile(toolchain, number, _HELPER))["functions"] == ["helper"]


def test_a_linked_image(toolchain, number):
    image = _link(toolchain, number)
    found = facts(image)
    assert (found["elf_type"], found["architecture"]) == ("executable", f"sm_{number}")
    assert (found["functions"], found["undefined"]) == (["helper"], [])
    assert found["globals"] == {"counter": 4, "table": 256, "weights": 16}
    assert (found["line_info"], found["debug_info"], found["size"]) == (False, False, len(image))
    json.dumps(found)


def test_the_kernels_of_a_linked_image(toolchain, number):
    kernels = facts(_link(toolchain, number))["kernels"]
    kernel, plain = kernels["kernel"], kernels["plain"]
    reserved = 1024 if int(number) >= 90 else 0
    assert (kernel["shared"], plain["shared"]) == (4 * 96 + reserved, 0)
    assert (kernel["barriers"], plain["barriers"]) == (1, 0)
    assert kernel["local"] >= 4 * 40 + 4 * 24 and plain["local"] == 0
    assert kernel["constant"] - plain["constant"] == 4, "an int more; what the driver puts there is equal"
    assert kernel["code"] > plain["code"] > 0
    assert 255 >= kernel["registers"] > plain["registers"] > 0


def test_a_limit_for_registers_is_seen(toolchain, number):
    free, limited = _link(toolchain, number), _link(toolchain, number, "--maxrregcount=40")
    assert facts(free)["kernels"]["hungry"]["registers"] > 96
    assert {kernel["registers"] <= 40 for kernel in facts(limited)["kernels"].values()} == {True}
    assert facts(limited)["kernels"]["hungry"]["local"] > 0, "what has no register is on the stack"


@pytest.mark.parametrize(
    "option, linker_option, expected",
    [("--generate-line-info", "-lineinfo", (True, False)), ("--device-debug", "-g", (True, True))],
)
def test_debug_information_is_seen(toolchain, number, option, linker_option, expected):
    found = facts(_link(toolchain, number, option, linker_options=(linker_option,)))
    assert (found["line_info"], found["debug_info"]) == expected
    assert found["functions"] == ["helper"]


def test_damaged_real_images_give_facts_or_a_refusal(toolchain, number):
    linked = _link(toolchain, number)
    for size in range(0, len(linked), 64):
        with pytest.raises(NotAnImage):
            facts(linked[:size])
    relocatable = _compile(toolchain, number, _SOURCE)
    for size in range(0, len(relocatable), 64):
        _survives(relocatable[:size])
    for image in (linked, relocatable):
        _flip_at_random(image, times=100)
