"""The emulator of CUDA is itself tested: right kernels give NumPy's numbers, planted errors are seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from cuda_emulator import building, nvrtc
from cuda_emulator import standin as cp
from cuda_emulator.running import cuda_text, few_blocks

pytestmark = pytest.mark.skipif(building.MISSING is not None, reason=str(building.MISSING))
RNG = np.random.default_rng(5)
X = RNG.standard_normal(700).astype(np.float32)
MATRIX = RNG.standard_normal((70, 45))

RIGHT = r"""
extern "C" __global__ void scale(const float* __restrict__ x, float* __restrict__ y, float a, int n)
{
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        y[i] = a * x[i];
}

__device__ __forceinline__ double warp_sum(double value)
{
    for (int step = 16; step > 0; step /= 2)
        value += __shfl_xor_sync(0xffffffff, value, step);
    return value;
}

extern "C" __global__ __launch_bounds__(256)
void total(const float* __restrict__ x, double* __restrict__ sums, int n)
{
    __shared__ double partial[8];
    double sum = 0.0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        sum += x[i];
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = warp_sum(threadIdx.x < 8 ? partial[threadIdx.x] : 0.0);
        if (threadIdx.x == 0)
            sums[blockIdx.x] = sum;
    }
}

extern "C" __global__ void transpose(
    const double* __restrict__ x, double* __restrict__ y, int n, int m)
{
    __shared__ double tile[32][33];
    int i = blockIdx.y * 32, j = blockIdx.x * 32;
    for (int k = threadIdx.y; k < 32; k += 8)
        if (i + k < n && j + threadIdx.x < m)
            tile[k][threadIdx.x] = x[(i + k) * m + j + threadIdx.x];
    __syncthreads();
    for (int k = threadIdx.y; k < 32; k += 8)
        if (j + k < m && i + threadIdx.x < n)
            y[(j + k) * n + i + threadIdx.x] = tile[threadIdx.x][k];
}

extern "C" __global__ void histogram(const int* __restrict__ x, int* __restrict__ counts, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n)
        atomicAdd(&counts[x[i]], 1);
}

extern "C" __global__ void reversed_in_warps(int* __restrict__ x)
{
    __shared__ int kept[64];
    kept[threadIdx.x] = x[threadIdx.x];
    __syncwarp();
    x[threadIdx.x] = kept[threadIdx.x / 32 * 32 + 31 - threadIdx.x % 32];
}
"""


@pytest.fixture(params=[0, 1, 7], ids=["as numbered", "backward", "shuffled"])
def order(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The threads run in this order."""
    monkeypatch.setattr(cp, "order", request.param)
    yield


def right(name: str) -> Any:
    return cp.RawKernel(RIGHT, name)


@pytest.mark.usefixtures("order")
def test_right_kernels_give_numpys_numbers() -> None:
    y = cp.empty(700, np.float32)
    right("scale")((2,), (256,), (cp.asarray(X), y, np.float32(3.0), np.int32(700)))
    np.testing.assert_array_equal(cp.asnumpy(y), np.float32(3.0) * X)

    sums = cp.empty(2)
    right("total")((2,), (256,), (cp.asarray(X), sums, np.int32(700)))
    np.testing.assert_allclose(cp.asnumpy(sums).sum(), X.sum(dtype=np.float64), rtol=1e-14)

    turned = cp.empty((45, 70))
    sizes = np.int32(70), np.int32(45)
    right("transpose")((2, 3), (32, 8), (cp.asarray(MATRIX), turned, *sizes))
    np.testing.assert_array_equal(cp.asnumpy(turned), MATRIX.T)

    places, counts = RNG.integers(0, 5, 300).astype(np.int32), cp.zeros(5, np.int32)
    right("histogram")((2,), (256,), (cp.asarray(places), counts, np.int32(300)))
    np.testing.assert_array_equal(cp.asnumpy(counts), np.bincount(places))

    x = cp.asarray(np.arange(64, dtype=np.int32))
    right("reversed_in_warps")((1,), (64,), (x,))
    np.testing.assert_array_equal(cp.asnumpy(x), np.arange(64).reshape(2, 32)[:, ::-1].ravel())


def test_nvrtc_takes_what_the_emulator_runs() -> None:
    if nvrtc.nvrtc() is None:
        pytest.skip("the wheel nvidia-cuda-nvrtc is not installed")
    for architecture in nvrtc.ARCHITECTURES:
        figures = nvrtc.compiled(RIGHT, architecture)
        assert figures.keys() == {"scale", "total", "transpose", "histogram", "reversed_in_warps"}
        assert all(f.registers and not f.spills for f in figures.values())
    with pytest.raises(ValueError, match="never referenced"):
        nvrtc.compiled(
            'extern "C" __global__ void f(int* x) { int unused = 1; x[0] = 2; }', "sm_80"
        )


def one(body: str, parameters: str = "double* __restrict__ x, int n") -> Any:
    """A kernel whose body begins in line 3."""
    return cp.RawKernel(f'extern "C" __global__ void f({parameters})\n{{\n{body}\n}}', "f")


# what is planted: the body of a kernel on x[64], run by 64 threads; what is reported
PLANTED = {
    "one element too many": ("x[threadIdx.x + 1] = 0.0;", "x[64] is outside of 64 elements"),
    "one too few": (
        "double left = x[threadIdx.x - 1]; if (left > n) x[0] = left;",
        "is outside of 64 elements",
    ),
    "all threads store into one cell": ("x[0] = threadIdx.x;", "two threads touch x[0]"),
    "a sum without an atomic": ("x[3] += 1.0;", "two threads touch x[3]"),
    "an atomic sum that others read": (
        "atomicAdd(&x[0], 1.0); if (threadIdx.x == 5 && x[0] > 3.0) x[1] = 0.0;",
        "two threads touch x[0]",
    ),
    "a neighbour is read while it is stored": (
        "if (threadIdx.x > 0) x[threadIdx.x] = x[threadIdx.x - 1];",
        "with no barrier between",
    ),
    "a missing barrier": (
        "__shared__ double s[64];\n"
        "s[threadIdx.x] = x[threadIdx.x];\n"
        "x[threadIdx.x] = s[63 - threadIdx.x];",
        "s[",
    ),
    "a missing barrier in a tree": (
        "__shared__ double s[64];\n"
        "s[threadIdx.x] = x[threadIdx.x];\n"
        "__syncthreads();\n"
        "for (int step = 32; step > 0; step /= 2)\n"
        "    if (threadIdx.x < step)\n"
        "        s[threadIdx.x] += s[threadIdx.x + step];\n"
        "if (threadIdx.x == 0) x[0] = s[0];",
        "two threads touch s[",
    ),
    "a barrier of the warp where the block's is needed": (
        "__shared__ double s[64];\n"
        "s[threadIdx.x] = x[threadIdx.x];\n"
        "__syncwarp();\n"
        "x[threadIdx.x] = s[63 - threadIdx.x];",
        "s[",
    ),
    "shared memory of the last iteration": (
        "__shared__ double s[64];\n"
        "for (int turn = 0; turn < 2; turn++) {\n"
        "    s[threadIdx.x] = x[threadIdx.x];\n"
        "    __syncthreads();\n"
        "    x[threadIdx.x] = s[63 - threadIdx.x];\n"
        "}",
        "two threads touch s[",
    ),
    "a barrier in one arm": (
        "if (threadIdx.x < 40) __syncthreads();\nelse __syncthreads();",
        "not all threads come to this barrier",
    ),
    "a barrier that some threads pass by": (
        "if (threadIdx.x < 40)\n    __syncthreads();\n__syncthreads();",
        "not all threads come to this barrier",
    ),
    "a shuffle in one arm": (
        "double y = 0.0;\n"
        "if (threadIdx.x % 2) y = __shfl_xor_sync(0xffffffff, threadIdx.x, 1);\n"
        "x[threadIdx.x] = y;",
        "line 4: not all threads come",
    ),
    "a shuffle after lanes have returned": (
        "if (threadIdx.x > 40) return;\n"
        "double y = __shfl_down_sync(0xffffffff, 1.0, 1);\n"
        "x[threadIdx.x] = y;",
        "line 4: not all threads come",
    ),
    "a shuffle of some lanes": (
        "x[threadIdx.x] = __shfl_sync(0x0000ffff, 1.0, 0);",
        "a shuffle without all 32 lanes",
    ),
    "shared memory before it is stored": (
        "__shared__ double s[64];\nx[threadIdx.x] = s[threadIdx.x];",
        "is read before anything is stored",
    ),
    "an index outside of shared memory": (
        "__shared__ double s[2][32];\ns[0][threadIdx.x] = 1.0;",
        "is outside of 32",
    ),
    "an index outside of a local array": (
        "double kept[4]; kept[0] = 0.0;\n"
        "for (int k = 0; k <= n / 16; k++) kept[k] = k;\n"
        "x[threadIdx.x] = kept[0];",
        "line 4: an index is outside of a local array",
    ),
    "an index of 32 bits overflows": (
        "int wide = n * 40000000 + threadIdx.x;\nif (wide >= 0 && wide < n) x[wide] = 0.0;",
        "line 3: a product overflows",
    ),
    "a division by zero": (
        "int k = n - 64;\nx[threadIdx.x] = threadIdx.x + 5 / k;",
        "line 4: an integer is divided by zero",
    ),
    "NaN becomes an integer": (
        'int k = int(x[threadIdx.x] * nan(""));\nif (k == 3) x[0] = 0.0;',
        "line 3: a float that no integer holds",
    ),
    "a shift by too much": ("x[threadIdx.x] = 1 << n;", "a shift by more bits"),
    "a sum that overflows, and is only compared": (
        "int most = n + 2147483583;\nx[threadIdx.x] = most + 1 > most ? 1.0 : 2.0;",
        "line 4: a sum overflows",
    ),
    "shuffles in both arms": (
        "double y = threadIdx.x % 2 ? __shfl_xor_sync(0xffffffff, 1.0, 1)"
        " : __shfl_xor_sync(0xffffffff, 2.0, 1);\nx[threadIdx.x] = y;",
        "line 3: not all threads come",
    ),
    "shuffles of a function that both arms call": (
        "auto turned = [](double y) { return __shfl_xor_sync(0xffffffff, y, 1); };\n"
        "if (threadIdx.x % 32 < 16)\n    x[threadIdx.x] = turned(1.0);\n"
        "else\n    x[threadIdx.x] = turned(2.0);",
        "line 3: not all threads come",
    ),
    "a barrier of a function that both arms call": (
        "auto waited = [] { __syncthreads(); };\nif (threadIdx.x < 32)\n    waited();\nelse\n    waited();",
        "line 3: not all threads come",
    ),
    "a loop without end": ("while (n > 0)\n    x[threadIdx.x] += 1.0;", "no end: the threads"),
    "a loop without end, with a barrier": ("while (n > 0)\n    __syncthreads();", "no end: a thread has"),
    "one thread that waits for another": (
        "if (threadIdx.x == 3)\n    while (x[0] < 100.0)\n        n -= 1;",
        "no end: the threads",
    ),
}


@pytest.mark.usefixtures("order")
@pytest.mark.parametrize("name", PLANTED)
def test_planted_errors_are_seen(name: str) -> None:
    body, message = PLANTED[name]
    x = cp.asarray(np.arange(64.0))
    with pytest.raises(RuntimeError) as caught:
        one(body)((1,), (64,), (x, np.int32(64)))
    assert message in str(caught.value)


# each thread reads what its neighbour has, which is then stored by the neighbour, or by a thread
# of the other warp; both read global memory first
READ_BY_WARP = """\
double read = x[threadIdx.x ^ 1];
__syncwarp();
x[{place}] = read + n;"""


@pytest.mark.usefixtures("order")
def test_a_warp_that_waited_may_store_what_its_threads_have_read() -> None:
    x = cp.asarray(np.arange(64.0))
    one(READ_BY_WARP.format(place="threadIdx.x"))((1,), (64,), (x, np.int32(64)))
    np.testing.assert_array_equal(cp.asnumpy(x), np.arange(64).reshape(-1, 2)[:, ::-1].ravel() + 64)


@pytest.mark.usefixtures("order")
def test_another_warp_that_stores_it_must_wait_for_the_block() -> None:
    text = READ_BY_WARP.format(place="threadIdx.x ^ 32")
    with pytest.raises(RuntimeError, match="with no barrier between, and one stores"):
        one(text)((1,), (64,), (cp.asarray(np.arange(64.0)), np.int32(64)))
    x = cp.asarray(np.arange(64.0))
    one(text.replace("__syncwarp", "__syncthreads"))((1,), (64,), (x, np.int32(64)))
    want = np.arange(64)[np.arange(64) ^ 33] + 64
    np.testing.assert_array_equal(cp.asnumpy(x), want)


@pytest.mark.usefixtures("order")
@pytest.mark.parametrize("readers", ["threadIdx.x < 32", "threadIdx.x >= 32", "threadIdx.x > 20"])
def test_a_cell_that_many_have_read_is_stored_by_one_that_waited_for_them(readers: str) -> None:
    """A barrier of the warp is enough where no thread of another warp has read it."""
    body = f"double read = {readers} ? x[63] : 0.0;\n__syncwarp();\nif (threadIdx.x == 63) x[63] = read;"
    launch = (1,), (64,), (cp.asarray(np.arange(64.0)), np.int32(64))
    if readers == "threadIdx.x >= 32":
        one(body)(*launch)
        return
    with pytest.raises(RuntimeError, match=r"two threads touch x\[63\]"):
        one(body)(*launch)
    one(body.replace("__syncwarp", "__syncthreads"))(*launch)


def test_blocks_that_touch_one_cell_are_seen_in_any_order() -> None:
    kernel = one("if (threadIdx.x == 0) x[blockIdx.x / 2] = 1.0;")
    with pytest.raises(RuntimeError, match=r"two threads touch x\[0\]"):
        kernel((2,), (64,), (cp.zeros(4), np.int32(4)))


FILL_HALF = "if (threadIdx.x < n) x[threadIdx.x] = 1.0;"


@pytest.mark.usefixtures("order")
def test_memory_in_which_nothing_is_stored_must_not_be_read() -> None:
    """By a kernel, by a function of CuPy's, as an index, or by the host."""
    x, n = cp.empty(64), (np.int32(32),)
    one(FILL_HALF)((1,), (64,), (x, *n))
    assert cp.asnumpy(x[:32]).sum() == 32.0
    add = one("double y = x[threadIdx.x];\nx[threadIdx.x] = y + n;")
    add((1,), (64,), (x, *n))  # of NaN, that nobody has looked at
    assert cp.asnumpy(x[:32]).sum() == 33.0 * 32
    with pytest.raises(RuntimeError, match="the host reads memory in which nothing is stored"):
        cp.asnumpy(x)
    for body in (
        "x[threadIdx.x] += 1.0;", "atomicAdd(&x[threadIdx.x], 1.0 * n);", "if (x[threadIdx.x] > n) x[0] = 1.0;",
        "double s = 0.0;\nfor (int k = 0; k < 3; k++) s += x[3 * threadIdx.x % 64 + k];\nx[n] = s;",
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=r"x\[\d+\] is read before anything is stored"):
            one(body)((1,), (64,), (cp.empty(64), *n))
    y = cp.empty(64)
    for read in (
        lambda: cp.sum(y), lambda: y + 1.0, lambda: y.get(), lambda: cp.asarray(X)[cp.empty(3, np.int64)], lambda: float(y[3]),
        lambda: cp.argsort(y), lambda: cp.add(y, y, out=cp.empty(64)), lambda: y.astype(np.float32),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="in which nothing is stored"):
            read()


def test_what_is_moved_holds_what_it_held() -> None:
    """Arrays that grow are copied with the room behind what they hold; views read nothing."""
    x = cp.empty(4)
    x[:2] = 1.0
    y = cp.concatenate((x, cp.empty_like(x)))
    y[2:4] = cp.asarray(np.arange(2.0))
    y[::-1][:4] = x[1]
    assert cp.asnumpy(y).tolist() == [1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    z = x.copy().reshape(2, 2)
    assert cp.asnumpy(z[0]).tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="in which nothing is stored"):
        cp.asnumpy(z)
    z[1] = x[2:]
    with pytest.raises(RuntimeError, match="in which nothing is stored"):
        cp.asnumpy(z)
    cp.multiply(x[:2], 2.0, out=z[1])
    assert cp.asnumpy(z).tolist() == [[1.0, 1.0], [2.0, 2.0]]


def test_a_kernel_is_not_launched_with_more_threads_than_it_is_compiled_for() -> None:
    text = 'extern "C" __global__ __launch_bounds__(64)\nvoid f(double* __restrict__ x)\n{\nx[threadIdx.x] = 1.0;\n}'
    kernel = cp.RawKernel(text, "f")
    kernel((1,), (64,), (cp.empty(64),))
    for block in ((96,), (32, 4)):
        with pytest.raises(ValueError, match="no such launch.* of 64 threads"):
            kernel((1,), block, (cp.empty(128),))


def test_two_streams_that_touch_one_memory_wait_for_each_other() -> None:
    x, n = cp.asarray(np.arange(64.0)), np.int32(64)
    store, read = one("x[threadIdx.x] = n;"), one("y[threadIdx.x] = x[threadIdx.x];", READS_X)
    side, other = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)

    def launch(kernel: Any, stream: Any, *args: Any) -> None:
        with stream:
            kernel((1,), (64,), args)

    launch(read, side, x, cp.empty(64))
    launch(read, other, x, cp.empty(64))  # both read
    with pytest.raises(RuntimeError, match="stores into memory of another one"):
        launch(store, side, x, n)
    side.wait_event(other.record())
    launch(store, side, x, n)
    with pytest.raises(RuntimeError, match="reads memory of another one"):
        launch(read, other, x, cp.empty(64))
    with pytest.raises(RuntimeError, match="reads memory of another one"):
        x + 1.0
    early = side.record()
    launch(store, side, x, n)
    other.wait_event(early)  # which was before the last store
    with pytest.raises(RuntimeError, match="reads memory of another one"):
        launch(read, other, x, cp.empty(64))
    with pytest.raises(RuntimeError, match="reads memory of another one"):
        x.get()
    side.synchronize()
    launch(read, other, x, cp.empty(64))
    other.synchronize()
    assert x.get()[0] == 64.0
    blocking = cp.cuda.Stream()
    launch(store, blocking, x, n)
    launch(store, cp.cuda.get_current_stream(), x, n)  # the null stream waits for it


READS_X = "const double* __restrict__ x, double* __restrict__ y"


def test_what_blocks_share_goes_around_where_blocks_are_few() -> None:
    """Strides that are wrong are seen where rows go around: from 32,768 rows on, or of few blocks."""

    def rows(x):
        return np.sum(x * x, axis=1), x - np.max(x, axis=1, keepdims=True)

    x = MATRIX
    text = cuda_text(rows, x)
    assert text.count("i += gridDim.x * blockDim.y") == 1
    planted = text.replace("i += gridDim.x * blockDim.y", "i += 2 * gridDim.x * blockDim.y")
    for program, known, right in ((text, few_blocks, True), (planted, nullcontext, True), (planted, few_blocks, False)):
        namespace: dict[str, Any] = {}
        with cp.installed(), known():
            exec(program, namespace)
            try:
                found = [cp.asnumpy(v) for v in namespace["rows_jit"](cp.asarray(x))]
                same = all(np.allclose(a, b) for a, b in zip(found, rows(x), strict=True))
            except RuntimeError as error:
                assert "in which nothing is stored" in str(error)
                same = False
        assert same == right


LAUNCHES: dict[str, tuple[Callable[[], tuple[Any, ...]], type[Exception], str]] = {
    "an int of 64 bits": (lambda: (cp.zeros(4), 4), TypeError, "n is int, got int64"),
    "a float for an int": (lambda: (cp.zeros(4), np.float32(4)), TypeError, "n is int"),
    "another dtype": (
        lambda: (cp.zeros(4, np.float32), np.int32(4)),
        TypeError,
        "x is a contiguous array of double, got ndarray float32",
    ),
    "an array of the host": (lambda: (np.zeros(4), np.int32(4)), TypeError, "x is a contiguous"),
    "steps between elements": (
        lambda: (cp.zeros(8)[::2], np.int32(4)),
        TypeError,
        "x is a contiguous",
    ),
    "too few arguments": (lambda: (cp.zeros(4),), TypeError, "2 parameters, and 1 arguments"),
}


@pytest.mark.parametrize("name", LAUNCHES)
def test_arguments_that_do_not_fit_are_refused(name: str) -> None:
    """CuPy passes all of these, and the kernel reads garbage."""
    made, error, message = LAUNCHES[name]
    with pytest.raises(error, match=message.replace("(", r"\(")):
        one("if (n < 0) x[0] = 1.0;")((1,), (64,), made())


def test_launches_that_a_gpu_refuses_are_refused() -> None:
    for grid, block in (((0,), (64,)), ((1,), (2048,)), ((1, 70000), (64,))):
        with pytest.raises(ValueError, match="no such launch"):
            one("x[0] = n;")(grid, block, (cp.zeros(4), np.int32(4)))


def test_arrays_that_share_memory_are_refused() -> None:
    kernel = one("y[0] = x[0];", "const double* __restrict__ x, double* __restrict__ y")
    x = cp.zeros(8)
    with pytest.raises(ValueError, match="x and y share memory|y and x share memory"):
        kernel((1,), (1,), (x[:5], x[4:]))
    kernel((1,), (1,), (x[:4], x[4:]))


def test_host_and_device_do_not_mix() -> None:
    x, y = cp.asarray(X), np.ones(700, np.float32)
    for mixed in (lambda: x + y, lambda: y * x, lambda: cp.dot(x, y), lambda: np.add(x, x, out=y)):
        with pytest.raises(TypeError, match="on the device"):
            mixed()
    assert isinstance(cp.sum(x), cp.ndarray) and isinstance(x[0], cp.ndarray)
    assert isinstance(cp.linalg.norm(x), cp.ndarray) and isinstance(np.exp(x), cp.ndarray)
    for absent in ("nanquantile", "no_such_function"):
        with pytest.raises(AttributeError, match=f"CuPy has no {absent}"):
            getattr(cp, absent)
