"""Several threads, streams and contexts that compile and link at once."""

import signal
import threading
import time
from contextlib import suppress

from conformance.scenario import scenario
from conformance.scenarios.inputs import need
from conformance.stage import NotLaunched

# Threads may hang in a linker for good, so that all of these run in processes of their own.
SECONDS = 6


def in_threads(tasks) -> None:
    """Run all tasks at once; the first error of any is raised, and so is a hang."""
    errors = []
    start = threading.Barrier(len(tasks))

    def run(task):
        try:
            start.wait(10)
            task()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(task,), daemon=True) for task in tasks]
    for thread in threads:
        thread.start()
    # One that hangs and keeps the interpreter's lock lets no Python code tell it: a signal ends the process.
    signal.alarm(SECONDS + 2)
    deadline = time.monotonic() + SECONDS
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0))
    signal.alarm(0)
    hanging = sum(thread.is_alive() for thread in threads)
    if hanging:
        raise AssertionError(f"{hanging} of {len(threads)} threads have not come to an end in {SECONDS} s")
    if errors:
        raise errors[0]


def _adding(stage, item):
    cuda = stage.cuda
    add = stage.declare("add_i32", "int32(int32, int32)")

    def kernel(out, a):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = add(a[i], a[i])

    return stage.jit(kernel, link=[item])


def _signature(dtype: str) -> str:
    return f"void({dtype}[::1], {dtype}[::1])"


def _launch(stage, kernel, dtype: str = "int32") -> None:
    """Launch and check; on a recording driver, up to the launch."""
    import numpy as np

    a = np.arange(8, dtype=dtype)
    with suppress(NotLaunched):
        stage.launch(kernel, a + a, a)
    stage.spy.phase = "launch"  # which thread linked last is nobody's business


@scenario(each={"kind": ("ptx", "cu")}, needs=need, isolated=True)
def kernel_in_each_thread(stage, kind):
    """Four threads, each with a kernel of its own that links the same file."""
    item = stage.input("add_i32", kind)
    kernels = [_adding(stage, item) for _ in range(4)]
    in_threads([lambda k=k: k.compile(_signature("int32")) for k in kernels])
    for kernel in kernels:
        _launch(stage, kernel)


@scenario(each={"kind": ("ptx",)}, needs=need, isolated=True)
def one_kernel_for_all(stage, kind):
    """Four threads that compile one kernel for one signature: it is compiled and linked once."""
    kernel = _adding(stage, stage.input("add_i32", kind))
    in_threads([lambda: kernel.compile(_signature("int32"))] * 4)
    if (len(kernel.overloads), stage.spy.loads) != (1, 1):
        raise AssertionError(f"{len(kernel.overloads)} overloads and {stage.spy.loads} loads, not one each")
    _launch(stage, kernel)


@scenario(needs=need("ptx"), isolated=True)
def signature_in_each_thread(stage):
    """Four threads that compile one kernel, each for another signature."""
    kernel = _adding(stage, stage.input("add_i32", "ptx"))
    types = ("int8", "int16", "int32", "uint16")
    in_threads([lambda t=t: kernel.compile(_signature(t)) for t in types])
    if len(kernel.overloads) != len(types):
        raise AssertionError(f"{len(kernel.overloads)} overloads instead of {len(types)}")
    for dtype in types:
        _launch(stage, kernel, dtype)


@scenario(needs=[n for kind in ("ptx", "cu", "cubin", "fatbin") for n in need(kind)], isolated=True)
def kind_in_each_thread(stage):
    """Four threads, each with a kernel that links another kind."""
    kernels = [_adding(stage, stage.input("add_i32", kind)) for kind in ("ptx", "cu", "cubin", "fatbin")]
    in_threads([lambda k=k: k.compile(_signature("int32")) for k in kernels])
    for kernel in kernels:
        _launch(stage, kernel)


@scenario(needs=need("ptx"), isolated=True)
def one_that_fails(stage):
    """Two threads link what cannot be linked, two others what can: only the first two get an error."""
    good = [_adding(stage, stage.input("add_i32", "ptx")) for _ in range(2)]
    bad = [_adding(stage, str(stage.broken("no_extension"))) for _ in range(2)]
    errors = []

    def fail(kernel):
        try:
            kernel.compile(_signature("int32"))
        except RuntimeError as error:
            errors.append(error)

    tasks = [lambda k=k: k.compile(_signature("int32")) for k in good]
    in_threads([*tasks, *(lambda k=k: fail(k) for k in bad)])
    if len(errors) != 2:
        raise AssertionError(f"{len(errors)} errors instead of 2")
    for kernel in good:
        _launch(stage, kernel)


@scenario(needs=need("ptx"), device="a recording driver refuses the launches", isolated=True)
def launches_in_threads(stage):
    """Four threads that launch one kernel at once, which is compiled by the first."""
    import numpy as np

    kernel = _adding(stage, stage.input("add_i32", "ptx"))
    a = np.arange(64, dtype=np.int32)
    outs = [np.empty_like(a) for _ in range(4)]
    in_threads([lambda out=out: stage.call(kernel, (1, 64), out, a) for out in outs])
    for out in outs:
        stage.verify(out, a + a)


@scenario(needs=need("ptx"), device="streams order launches")
def streams(stage):
    """Two streams that launch kernels with linked code, each between its own copies."""
    import numpy as np

    cuda = stage.cuda
    kernel = _adding(stage, stage.input("add_i32", "ptx"))
    arrays = [np.arange(8, dtype=np.int32) * (i + 1) for i in range(2)]
    results = []
    for a in arrays:
        stream = cuda.stream()
        out, there = cuda.device_array_like(a, stream=stream), cuda.to_device(a, stream=stream)
        stage.call(kernel, (1, 8, stream), out, there)
        results.append(out.copy_to_host(stream=stream))
        stream.synchronize()
    for a, result in zip(arrays, results, strict=True):
        stage.verify(result, a + a)


@scenario(needs=need("ptx"), isolated=True)
def after_a_reset(stage):
    """A new kernel once the context has been reset."""
    _launch(stage, _adding(stage, stage.input("add_i32", "ptx")))
    stage.cuda.current_context().reset()
    _launch(stage, _adding(stage, stage.input("add_i32", "ptx")))


@scenario(needs=need("ptx"), isolated=True)
def after_closing(stage):
    """A new kernel once every context has been closed."""
    _launch(stage, _adding(stage, stage.input("add_i32", "ptx")))
    stage.cuda.close()
    _launch(stage, _adding(stage, stage.input("add_i32", "ptx")))
