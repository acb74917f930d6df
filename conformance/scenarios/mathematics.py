"""Numbers that depend on how code was compiled and linked: contraction, functions, half precision."""

from conformance.scenario import scenario
from conformance.scenarios.inputs import need, options, profile
from conformance.scenarios.inspection import setting

FLOATS = {"float32": "f32", "float64": "f64"}
APART = ("ptx", "cubin")


def _multiply_add(stage, kind: str, number: str, **jit_options):
    """A kernel that adds to a product which linked code gives; no sum cancels."""
    import numpy as np

    cuda = stage.cuda
    name = f"product_{FLOATS[number]}"
    product = stage.declare(name, f"{number}({number}, {number})")

    def kernel(out, a, b, c):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = product(a[i], b[i]) + c[i]

    a, b, c = (np.linspace(low, low + 7, 256).astype(number) for low in (0.1, 1.3, 0.7))
    link = [stage.input(name, kind)]
    kernel = stage.jit(kernel, f"void({', '.join([f'{number}[::1]'] * 4)})", link=link, **jit_options)
    return kernel, a * b + c, a, b, c


@scenario(each={"kind": APART, "number": FLOATS}, needs=lambda kind, number: need(kind))
def product_apart(stage, kind, number):
    """A product that linked code gives and the kernel adds to is rounded first: bit for bit NumPy's."""
    kernel, *arguments = _multiply_add(stage, kind, number, lto=False)
    stage.launch(kernel, *arguments)


@scenario(
    each={"kind": ("ltoir", "cu"), "number": FLOATS},
    needs=lambda kind, number: ["option:lto", *need(kind)],
    profile="extended",
)
def product_inlined(stage, kind, number):
    """With LTO product and sum may be contracted to one operation, which rounds once: 1 ULP from NumPy's.

    NumPy's rounds the product (half a unit of the product, no more than half a unit of a sum of positive
    numbers) and then the sum; the fused operation rounds the exact sum. What is rounded last differs by half
    a unit at most, so the results are the same number or neighbours.
    """
    kernel, *arguments = _multiply_add(stage, kind, number, lto=True)
    functions = stage.image()["functions"]
    stage.check(not functions, f"functions that were not inlined: {functions}")
    stage.launch(kernel, *arguments, ulp=1)


@scenario(each={"kind": ("cubin", "ltoir")}, needs=need, profile=profile)
def correctly_rounded(stage, kind):
    """A square root and a division that the source asks to be rounded correctly: bit for bit, LTO or not."""
    import numpy as np

    cuda = stage.cuda
    root = stage.declare("root_f64", "float64(float64, float64)")

    def kernel(out, a, b):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = root(a[i], b[i])

    a, b = np.linspace(0.3, 1e6, 256), np.linspace(1.1, 9, 256)
    kernel = stage.jit(kernel, link=[stage.input("root_f64", kind)], **options(kind))
    stage.launch(kernel, np.sqrt(a) / b, a, b)


@scenario(each={"kind": ("cubin", "ltoir")}, needs=need, profile=profile)
def sine(stage, kind):
    """A sine that linked code takes: 3 ULP from the nearest number, for CUDA's manual says 2 of sinf."""
    import numpy as np

    cuda = stage.cuda
    function = stage.declare("sine_f32", "float32(float32)")

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = function(a[i])

    a = np.linspace(0.01, 3.0, 256, dtype=np.float32)
    reference = np.sin(a.astype(np.float64)).astype(np.float32)
    kernel = stage.jit(kernel, link=[stage.input("sine_f32", kind)], **options(kind))
    stage.launch(kernel, reference, a, ulp=3)


@scenario(each={"kind": ("cubin", "ltoir")}, needs=need, profile=profile)
def power(stage, kind):
    """A power that linked code takes: 3 ULP from NumPy's: CUDA's manual says 2 of pow, NumPy's has 1."""
    import numpy as np

    cuda = stage.cuda
    function = stage.declare("power_f64", "float64(float64, float64)")

    def kernel(out, a, b):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = function(a[i], b[i])

    a, b = np.linspace(0.5, 9, 256), np.linspace(-3, 3, 256)
    kernel = stage.jit(kernel, link=[stage.input("power_f64", kind)], **options(kind))
    stage.launch(kernel, np.power(a, b), a, b, ulp=3)


# -- half precision -------------------------------------------------------------------------------

HALF_KINDS = ("cu", "cubin", "ltoir")


@scenario(cases="C30", each={"kind": HALF_KINDS}, needs=need, profile=profile)
def float16_sum(stage, kind):
    """A sum of two float16 numbers, as their bits, by CUDA C++ that includes cuda_fp16.h."""
    import numpy as np

    cuda = stage.cuda
    add = stage.declare("half_add_f16", "uint16(uint16, uint16)")

    def kernel(out, a, b):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = add(a[i], b[i])

    a = np.linspace(-8, 8, 128).astype(np.float16)
    b = np.linspace(0.1, 30, 128).astype(np.float16)
    kernel = stage.jit(kernel, link=[stage.input("half_add_f16", kind)], **options(kind))
    stage.launch(kernel, (a + b).view(np.uint16), a.view(np.uint16), b.view(np.uint16))


@scenario(cases="C30", each={"kind": HALF_KINDS}, needs=need, profile=profile)
def float16_to_float32(stage, kind):
    """A float16 number as float32, by CUDA C++ that includes cuda_fp16.h."""
    import numpy as np

    cuda = stage.cuda
    convert = stage.declare("half_convert_f32", "float32(uint16)")

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = convert(a[i])

    a = np.array([0, -0.0, 1, 65504, 6e-8, np.inf, -2.5, 0.1], dtype=np.float16)
    kernel = stage.jit(kernel, link=[stage.input("half_convert_f32", kind)], **options(kind))
    stage.launch(kernel, a.astype(np.float32), a.view(np.uint16))


@scenario(cases="C30", each={"kind": HALF_KINDS}, needs=need, profile=profile)
def bfloat16_sum(stage, kind):
    """A sum of two numbers rounded to bfloat16, by CUDA C++ that includes cuda_bf16.h."""
    import numpy as np

    cuda = stage.cuda
    add = stage.declare("brain_add_bf16", "float32(float32, float32)")

    def kernel(out, a, b):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = add(a[i], b[i])

    a = np.linspace(-8, 8, 128, dtype=np.float32)
    b = np.linspace(0.1, 30, 128, dtype=np.float32)
    reference = _to_bfloat16(_to_bfloat16(a) + _to_bfloat16(b))
    kernel = stage.jit(kernel, link=[stage.input("brain_add_bf16", kind)], **options(kind))
    stage.launch(kernel, reference, a, b)


def _to_bfloat16(values):
    """float32 numbers with the 8 bits of precision that bfloat16 has, rounded to nearest, ties to even."""
    import numpy as np

    bits = values.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return rounded.view(np.float32)


# -- headers --------------------------------------------------------------------------------------

_SOURCE = """#include <{header}>
extern "C" __device__ int with_header(int *return_value, int a)
{{
    *return_value = a + OF_THE_HEADER;
    return 0;
}}
"""


def _with_header(stage, form: str, header: str) -> None:
    import numpy as np

    cuda = stage.cuda
    source = _SOURCE.format(header=header)
    if form == "path":
        item = str(stage.folder / "with_header.cu")
        (stage.folder / "with_header.cu").write_text(source)
    else:
        item = stage.code(source, "cu", "with_header.cu")
    function = stage.declare("with_header", "int32(int32)", link=item)

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = function(a[i])

    a = np.arange(8, dtype=np.int32)
    stage.launch(stage.jit(kernel), a + 17, a)


@scenario(cases="C30", each={"form": ("path", "text"), "places": ("one", "two")})
def extra_search_path(stage, form, places):
    """A header that only the setting of extra search paths leads to, which may be a list."""
    folder = stage.folder / "headers"
    folder.mkdir()
    (folder / "header_of_mine.h").write_text("#define OF_THE_HEADER 17\n")
    paths = str(folder) if places == "one" else f"/nonexistent:{folder}"
    with setting("CUDA_NVRTC_EXTRA_SEARCH_PATHS", paths, "numba.cuda.cudadrv.nvrtc"):
        _with_header(stage, form, "header_of_mine.h")


@scenario(cases="C30", each={"form": ("path", "text")}, fails="missing-header")
def missing_header(stage, form):
    """A header that is nowhere: the compiler's error names it."""
    _with_header(stage, form, "header_of_nobody.h")
