"""Reads facts off a linked CUDA image: what a linker made, as far as it can be seen without a GPU.

An image is a cubin, an ELF file of machine 190 (EM_CUDA). NVIDIA documents what `cuobjdump -elf`
prints (https://docs.nvidia.com/cuda/cuda-binary-utilities/), not the layout below it. What stands here
was read off images that NVRTC of CUDA 11.8, 12.9 and 13.0 and nvJitLink of 12.1, 12.9 and 13.0 made
for compute capabilities 5.0 to 12.1, and compared with `cuobjdump -res-usage` of 13.5 (which does not
read what nvJitLink 12.1 links).
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section

_ENTRY = 0x10  # in a symbol's st_other: it is a kernel
_NEW_ABI = 8  # EI_ABIVERSION of CUDA 13, and of 12.9 from compute capability 10.0 on
_TYPES = {"ET_EXEC": "executable", "ET_REL": "relocatable", "ET_DYN": "shared"}
# Relocatable images have types of their own (SHT_LOPROC and up) for variables and for their sections,
# of which those for global and shared memory have a size, but nothing in the image.
_WITHOUT_CONTENTS = ("SHT_NULL", "SHT_NOBITS", 0x70000007, 0x7000000A, 0x70000015)
_VARIABLE_KINDS = ("STT_OBJECT", "STT_LOPROC")
_VARIABLE_SECTIONS = re.compile(r"\.nv\.(global|shared|constant(?!0))")  # in constant0 are parameters
_NOT_OURS = re.compile(r"\.nv\.|__U[DF]T(_|$)")  # symbols that linkers leave undefined for the driver
_SECTION_HEADER, _PROGRAM_HEADER = 64, 56  # bytes of each, in any 64-bit ELF file

# Attributes (EIATTR_...) of functions. Those of all are in .nv.info, barriers in .nv.info.KERNEL.
_FRAME_SIZE, _MIN_STACK_SIZE, _REGCOUNT, _NUM_BARRIERS = 0x11, 0x12, 0x2F, 0x4C
_SIZED = 4  # EIFMT_SVAL: the record has the size of its value in place of the value
_RECURSIVE = 0xFFFFFFFF  # in place of a stack's size


class NotAnImage(ValueError):
    """What was given is no CUDA image, or one that is truncated or damaged: the message says which."""


def facts(image: bytes) -> dict:
    """What `image` says of itself, ready for JSON; all sizes are bytes. Raises `NotAnImage` only.

    architecture: `sm_90`. Suffixes (`sm_90a`) are left out: CUDA 13.0 does not write them down.
    elf_type: `executable` when linked, `relocatable` when not.
    kernels: for each short name, in brackets what `cuobjdump -res-usage` calls it:
        registers: of a thread, with what the functions that it calls need (REG).
        shared: static shared memory of a block (SHARED). From compute capability 9.0 on, executables
            have 1024 more, which CUDA keeps for itself, for kernels that use any (and some others).
        local: stack of a thread, with what the functions that it calls need once it is linked (STACK).
            None: the linker could not know, as the kernel recurses.
        constant: parameters, with what the driver puts before them (CONSTANT[0]).
        code: instructions.
        barriers: the number of the highest barrier plus one; 16 where the number is computed.
    functions: short names of global functions that are no kernels. Linkers drop, or make local, those
        that they see no use for outside the image.
    undefined: short names of what another image has to define, or the driver (`vprintf`).
    globals: size of each variable in global, constant or shared memory that has a symbol.
    line_info, debug_info: whether there are line tables; descriptions of the source (DWARF).
    size: of the whole image.
    """
    try:
        return _facts(image)
    except NotAnImage:
        raise
    except Exception as error:
        # pyelftools raises whatever it stumbles over, be it an OverflowError or an ELFParseError.
        raise NotAnImage(f"the image is damaged: reading it ends in {type(error).__name__}") from error


def short_name(symbol: str) -> str:
    """The name that a kernel has in its source: `_ZN6cudapy8__main__6kernelB2v1B94cw51...` is `kernel`.

    Numba mangles module, function, arguments and, as ABI tags, a counter and a hash of its options
    (numba/core/itanium_mangler.py): all but the function differ between processes or releases. Other
    symbols, such as those of C++, are returned as they are.
    """
    identifier = _tagged_identifier(symbol) if symbol.startswith("_Z") else symbol
    # The names of functions in functions have `<locals>` in them, escaped.
    return re.sub(r".*[_$]3clocals[_$]3e[_$.]*", "", identifier) or symbol


def _tagged_identifier(symbol: str) -> str:
    """The last of the identifiers (a length and a name each), or nothing when no ABI tag follows it."""
    identifier, rest = "", symbol.removeprefix("_Z").removeprefix("N")
    while match := re.match("[0-9]{1,4}", rest):
        end = match.end() + int(match[0])
        identifier, rest = rest[match.end() : end], rest[end:]
    return identifier if re.match("B[0-9]", rest) else ""


@dataclass(frozen=True)
class _Symbol:
    number: int
    name: str
    kind: str  # STT_...
    binding: str  # STB_...
    size: int
    entry: bool
    section: Section | None  # None: undefined


def _facts(image: bytes) -> dict:
    elf = _open(image)
    sections = _sections(elf, len(image))
    sizes = {section.name: section["sh_size"] for section in sections}
    symbols = [symbol for symbol in _symbols(sections) if symbol.name]
    placed = [symbol for symbol in symbols if symbol.section]
    functions = [s for s in placed if s.kind == "STT_FUNC" and not s.entry and s.binding != "STB_LOCAL"]
    undefined = [s for s in symbols if not s.section and not _NOT_OURS.match(s.name)]
    variables = [s for s in placed if s.kind in _VARIABLE_KINDS and _VARIABLE_SECTIONS.match(s.section.name)]
    info = {s.name: list(_records(s.data())) for s in sections if s.name.startswith(".nv.info")}
    return {
        "architecture": _architecture(elf),
        "elf_type": _TYPES.get(elf["e_type"], str(elf["e_type"])),
        "kernels": _by_short_name((s.name, _kernel(s, sizes, info)) for s in placed if s.entry),
        "functions": sorted(short_name(s.name) for s in functions),
        "undefined": sorted(short_name(s.name) for s in undefined),
        "globals": _by_short_name((s.name, s.size) for s in variables),
        "line_info": sizes.get(".debug_line", 0) > 0,
        "debug_info": sizes.get(".debug_info", 0) > 0,
        "size": len(image),
    }


def _open(image: bytes) -> ELFFile:
    if image[:4] != b"\x7fELF":
        raise NotAnImage("this is no CUDA image: it does not begin as an ELF file does")
    elf = ELFFile(io.BytesIO(image))
    if elf["e_machine"] != "EM_CUDA" or elf.elfclass != 64 or not elf.little_endian:
        kind = f"a {elf.elfclass}-bit ELF file for machine {elf['e_machine']}"
        raise NotAnImage(f"this is no CUDA image, but {kind}")
    return elf


def _sections(elf: ELFFile, size: int) -> list[Section]:
    # First, so that no damaged count is followed for long: what is counted lies inside the image.
    if elf["e_shentsize"] != _SECTION_HEADER:
        raise NotAnImage(f"the image is damaged: its section headers have {elf['e_shentsize']} bytes")
    _check_ends([elf["e_shoff"] + elf["e_shnum"] * _SECTION_HEADER], size)
    _check_ends([elf["e_phoff"] + elf["e_phnum"] * _PROGRAM_HEADER], size)
    sections = list(elf.iter_sections())
    stored = [section for section in sections if section["sh_type"] not in _WITHOUT_CONTENTS]
    _check_ends([section["sh_offset"] + section["sh_size"] for section in stored], size)
    return sections


def _check_ends(ends: list[int], size: int) -> None:
    if max(ends, default=0) > size:
        raise NotAnImage(f"the image is truncated: it has {size} bytes, of at least {max(ends)}")


def _symbols(sections: list[Section]) -> Iterator[_Symbol]:
    table = next((section for section in sections if section["sh_type"] == "SHT_SYMTAB"), None)
    if table is None:
        raise NotAnImage("the image is damaged: it has no symbol table")
    # pyelftools takes st_other for a visibility and drops NVIDIA's bits: read the sixth byte itself.
    others = table.data()[5 :: table["sh_entsize"]]
    for number, (symbol, other) in enumerate(zip(table.iter_symbols(), others, strict=True)):
        kind, place, size = symbol["st_info"], symbol["st_shndx"], symbol["st_size"]
        if not isinstance(place, int) and place != "SHN_UNDEF":
            continue  # defined without a section: a constant
        section = sections[place] if isinstance(place, int) else None
        entry = bool(other & _ENTRY)
        yield _Symbol(number, symbol.name, kind["type"], kind["bind"], size, entry, section)


def _records(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The (attribute, value) records of a section of .nv.info."""
    offset = 0
    while offset < len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, offset)
        end = offset + 4 + (size if form == _SIZED else 0)
        if end > len(data):
            raise NotAnImage("the image is damaged: its .nv.info ends inside an attribute")
        yield attribute, data[offset + 4 : end] if form == _SIZED else data[offset + 2 : end]
        offset = end


def _architecture(elf: ELFFile) -> str:
    shift = 8 if elf["e_ident"]["EI_ABIVERSION"] >= _NEW_ABI else 0
    return f"sm_{elf['e_flags'] >> shift & 0xFF}"


def _kernel(kernel: _Symbol, sizes: dict[str, int], info: dict[str, list[tuple[int, bytes]]]) -> dict:
    values = {code: value for code, value in info.get(".nv.info", []) if _is_about(kernel, value)}
    words = {code: struct.unpack("<II", value)[1] for code, value in values.items()}
    # Not from the upper byte of the code's sh_info: it is nought from compute capability 9.0 on, and
    # before it leaves out what the functions that the kernel calls need.
    if _REGCOUNT not in words:
        raise NotAnImage(f"the image is damaged: its kernel {short_name(kernel.name)} has no register count")
    stack = words.get(_MIN_STACK_SIZE, words.get(_FRAME_SIZE, 0))
    # In the code's flags with the old ABI, an attribute with the new one; the other is then nought.
    own = [value[0] for code, value in info.get(f".nv.info.{kernel.name}", []) if code == _NUM_BARRIERS]
    return {
        "registers": words[_REGCOUNT],
        "shared": sizes.get(f".nv.shared.{kernel.name}", 0),
        "local": None if stack == _RECURSIVE else stack,
        "constant": sizes.get(f".nv.constant0.{kernel.name}", 0),
        "code": kernel.size,
        "barriers": max([kernel.section["sh_flags"] >> 20 & 0x7F, *own]),
    }


def _is_about(kernel: _Symbol, value: bytes) -> bool:
    return len(value) == 8 and struct.unpack_from("<I", value)[0] == kernel.number


def _by_short_name(named: Iterable[tuple[str, object]]) -> dict:
    """What each symbol has, by its short name; `kernel#2` where another symbol is `kernel` already."""
    result: dict = {}
    for symbol, value in named:
        name, count = short_name(symbol), 1
        while (key := name if count == 1 else f"{name}#{count}") in result:
            count += 1
        result[key] = value
    return result
