"""mac.DeviceState: what is refused, anywhere; where there is a GPU the steps of the CPU, for arrays of PyTorch and CuPy.

The file needs of the package mac/device.py alone, so that it runs with a Python that the compiled half was not built for."""

import ctypes
import os
from pathlib import Path

import pytest

import mac.device
from mac.device import DeviceState, Error, UsageError

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = Path(os.environ.get("MAC_RUNTIME_CUDA") or ROOT / "build/libmac_runtime_cuda.so")
MODEL = ROOT / "zoo/burgers-mac.safetensors"
COLUMNS = 40

built = pytest.mark.skipif(not LIBRARY.is_file(), reason="libmac_runtime_cuda is not built: there is no nvcc")


@pytest.fixture(autouse=True)
def library(monkeypatch):
    monkeypatch.setenv("MAC_RUNTIME_CUDA", str(LIBRARY))


def device_error():
    try:
        mac.device._call("mac_cuda_available")
    except Error as error:
        return str(error)


@pytest.fixture
def gpu():
    if not LIBRARY.is_file():
        pytest.skip("libmac_runtime_cuda is not built: there is no nvcc")
    if error := device_error():
        pytest.skip(error)


def arrays_of(module):
    """A module, how it makes an array (columns, n) from numbers, and how it gives them back."""
    library = pytest.importorskip(module)
    if module == "torch":
        return lambda rows, kind="float64": library.tensor(rows, dtype=getattr(library, kind), device="cuda"), lambda array: array.cpu().tolist()
    return lambda rows, kind="float64": library.asarray(rows, dtype=kind), lambda array: array.get().tolist()


class Dlpack:
    """What PyTorch or CuPy offers, without __cuda_array_interface__."""

    def __init__(self, array):
        self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__


def inputs(step):
    return [[0.3 * ((7 * j + 3 * i + 5 * step) % 11 - 5) / 5 for i in range(6)] for j in range(COLUMNS)]


class Cpu:
    """The same library's steps on the CPU."""

    def __init__(self, columns=COLUMNS):
        self.library, model, self.state = mac.device._library(), ctypes.c_void_p(), ctypes.c_void_p()
        self.library.mac_model_open(str(MODEL).encode(), 0, ctypes.byref(model), None)
        create = self.library.mac_state_create
        create.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p]
        assert create(model, columns, ctypes.byref(self.state), None) == 0
        self.library.mac_model_close(model)

    def step(self, rows):
        y, closure = (ctypes.c_double * (6 * COLUMNS))(*[value for row in rows for value in row]), (ctypes.c_double * (6 * COLUMNS))()
        assert self.library.mac_step(self.state, y, closure, None) == 0
        return [list(closure[6 * j : 6 * j + 6]) for j in range(COLUMNS)]

    def save(self, size):
        buffer = ctypes.create_string_buffer(size)
        assert self.library.mac_state_save(self.state, buffer, ctypes.c_size_t(size), None) == 0
        return buffer.raw

    def restore(self, saved):
        assert self.library.mac_state_restore(self.state, saved, ctypes.c_size_t(len(saved)), None) == 0


def difference(a, b):
    return max(abs(x - y) for row, other in zip(a, b) for x, y in zip(row, other))


@pytest.mark.parametrize("module", ["torch", "cupy"])
@pytest.mark.parametrize("through", [lambda array: array, Dlpack], ids=["interface", "dlpack"])
def test_steps_are_those_of_the_cpu(module, through, gpu):
    make, read = arrays_of(module)
    state, cpu, closure = DeviceState(MODEL, COLUMNS), Cpu(), make([[0] * 6] * COLUMNS)
    assert state.inputs == state.outputs == 6 and state.device == 0 and state.nbytes > 4 * COLUMNS * 2640
    for n in range(20):
        state.step(through(make(inputs(n))), through(closure))
        assert difference(read(closure), cpu.step(inputs(n))) < 1e-6  # closures of order 0.1, networks in float32
    saved = state.save()
    cpu.restore(saved)
    assert cpu.save(len(saved)) == saved
    cpu.step(inputs(20))
    state.restore(cpu.save(len(saved)))
    state.step(through(make(inputs(21))), through(closure))
    assert difference(read(closure), cpu.step(inputs(21))) < 1e-6
    state.check()


@pytest.mark.parametrize("module", ["torch", "cupy"])
def test_strides_floats_masks_and_columns(module, gpu):
    make, read = arrays_of(module)
    rows, turned, single = (DeviceState(MODEL, COLUMNS) for _ in range(3))
    of_rows, of_turned, of_single = make([[0] * 6] * COLUMNS), make([[0] * COLUMNS] * 6), make([[0] * 6] * COLUMNS, "float32")
    for n in range(3):
        y = inputs(n)
        rows.step(make(y), of_rows)
        turned.step(make([list(column) for column in zip(*y)]).T, of_turned.T)
        single.step(make(y, "float32"), of_single)
    assert read(of_turned.T) == read(of_rows) and turned.save() == rows.save()
    assert difference(read(of_single), read(of_rows)) < 1e-5

    rows.closure_at("linear", 0.5, of_rows)
    turned.closure_at("linear", 0.5, of_turned.T)
    assert read(of_turned.T) == read(of_rows)
    turned.set_mask(make([0] + [1] * (COLUMNS - 1), "uint8"))
    before = turned.save([0])
    turned.step(make(inputs(3)), of_rows)
    assert turned.save([0]) == before and turned.save([1]) != rows.save([1])
    rows.reset([0])
    turned.restore(rows.save([0, 0, 0]), source=[2], columns=[5])
    assert turned.save([5]) == DeviceState(MODEL, 1).save()
    rows.reset()
    assert rows.save() == DeviceState(MODEL, COLUMNS).save()

    spoiled = inputs(0)
    spoiled[7][2] = float("nan")
    rows.step(make(spoiled), of_rows)
    with pytest.raises(Error, match=r"not finite.* in column 7, component 2 \(phi3\)"):
        rows.check()


def test_a_step_goes_into_a_graph_of_pytorch(gpu):
    torch = pytest.importorskip("torch")
    make, _ = arrays_of("torch")
    y, closure = make(inputs(0)), make([[0] * 6] * COLUMNS)
    state, direct = DeviceState(MODEL, COLUMNS), DeviceState(MODEL, COLUMNS)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        state.step(y, closure, torch.cuda.current_stream())
        y += 0.01 * closure
    for _ in range(5):
        graph.replay()
    torch.cuda.synchronize()
    replayed, y = y.clone(), make(inputs(0))
    for _ in range(5):
        direct.step(y, closure)
        y += 0.01 * closure
    assert torch.equal(y, replayed) and direct.save() == state.save()


def test_a_step_follows_a_stream_of_cupy(gpu):
    cupy = pytest.importorskip("cupy")
    make, read = arrays_of("cupy")
    stream, state, cpu = cupy.cuda.Stream(non_blocking=True), DeviceState(MODEL, COLUMNS), Cpu()
    with stream:
        closure = make([[0] * 6] * COLUMNS)
        state.step(make(inputs(0)), closure, stream)
        state.check(stream)
    assert difference(read(closure), cpu.step(inputs(0))) < 1e-6


@pytest.mark.parametrize(
    "spoil,sentence",
    [
        (lambda make, y: [[0.0] * 6] * COLUMNS, "y is a list: expected an array on a GPU, with __cuda_array_interface__ or __dlpack__"),
        (lambda make, y: make(inputs(0)).reshape(6, COLUMNS), r"y has the shape \(6, 40\): expected \(40, 6\)"),
        (lambda make, y: make(inputs(0), "float32"), "y holds float and closure double: expected one of the two for both"),
        (lambda make, y: make(inputs(0), "int32"), "expected float64 or float32"),
        (lambda make, y: y.cpu(), "y is an array in host memory: expected one on a GPU"),
    ],
)
def test_wrong_arrays_are_refused(spoil, sentence, gpu):
    make, _ = arrays_of("torch")
    y, closure = make(inputs(0)), make([[0] * 6] * COLUMNS)
    with pytest.raises(UsageError, match=sentence):
        DeviceState(MODEL, COLUMNS).step(spoil(make, y), closure)


@built
def test_models_that_do_not_step_there_are_refused():
    with pytest.raises(Error, match="ensemble, which does not step on a CUDA device"):
        DeviceState(ROOT / "zoo/burgers-mac-ensemble.safetensors", COLUMNS)
    with pytest.raises(Error, match="does not exist"):
        DeviceState(ROOT / "zoo/nothing.safetensors", COLUMNS)


@built
def test_says_so_where_there_is_no_device():
    if not (error := device_error()):
        pytest.skip("there is a device")
    assert "no CUDA device can be used" in error
    with pytest.raises(Error, match="no CUDA device can be used"):
        DeviceState(MODEL, COLUMNS)


def test_says_where_the_library_may_be(monkeypatch):
    monkeypatch.setattr(mac.device, "_loaded", None)
    monkeypatch.setattr(mac.device, "__file__", "/nowhere/at/all/device.py")
    monkeypatch.delenv("MAC_RUNTIME_CUDA")
    monkeypatch.setattr(mac.device.ctypes.util, "find_library", lambda name: None)
    with pytest.raises(Error, match="libmac_runtime_cuda.so was not found: .*MAC_RUNTIME_CUDA"):
        mac.device._library()
