"""Closures for simulations on a GPU: steps on arrays in device memory, of CuPy, PyTorch, Numba or JAX, without a copy.

    state = mac.DeviceState("burgers.safetensors", columns)
    state.step(y, closure, stream)       # y (columns, inputs) -> closure (columns, outputs), queued on the stream

The functions are those of mac/mac_cuda.h, in the library mac_runtime_cuda. This file needs nothing else of the package, and no NumPy.
"""

import ctypes
import ctypes.util
import os
from pathlib import Path

try:
    from ._mac import Error, UsageError
except ImportError:  # this file alone

    class Error(RuntimeError):
        pass

    class UsageError(Error):
        pass


__all__ = ["DeviceState"]

OK, INVALID_ARGUMENT = 0, 1
HOLDS = {"zero": 0, "linear": 1}
BYTES = {"double": 8, "float": 4}
REACHED_BY_CUDA = (2, 3, 13)  # kinds of memory in DLPack: of the device, pinned, managed


class _Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int32), ("message", ctypes.c_char * 508)]


_size, _stride, _pointer = ctypes.c_size_t, ctypes.c_ssize_t, ctypes.c_void_p
_SIGNATURES = {
    "mac_model_open": [ctypes.c_char_p, ctypes.c_int, ctypes.POINTER(_pointer)],
    "mac_cuda_available": [],
    "mac_device_state_create": [_pointer, _size, ctypes.POINTER(_pointer)],
    "mac_device_state_reset": [_pointer, _pointer],
    "mac_device_state_reset_columns": [_pointer, _pointer, _size, _pointer],
    "mac_device_state_save": [_pointer, _pointer, _size, _pointer, _size, _pointer],
    "mac_device_state_restore": [_pointer, ctypes.c_char_p, _size, _pointer, _pointer, _size, _pointer],
    "mac_device_state_set_mask": [_pointer, _pointer],
    "mac_device_state_check": [_pointer, _pointer],
    "mac_step_device_strided": [_pointer] + 2 * [_pointer, _stride, _stride] + [_pointer],
    "mac_step_device_strided_float": [_pointer] + 2 * [_pointer, _stride, _stride] + [_pointer],
    "mac_closure_at_device_strided": [_pointer, ctypes.c_int, ctypes.c_double, _pointer, _stride, _stride, _pointer],
    "mac_closure_at_device_strided_float": [_pointer, ctypes.c_int, ctypes.c_double, _pointer, _stride, _stride, _pointer],
}
_ANSWERS = {
    "mac_model_inputs": _size,
    "mac_model_outputs": _size,
    "mac_model_close": None,
    "mac_device_state_free": None,
    "mac_device_state_memory": _size,
    "mac_device_state_device": ctypes.c_int,
}
_loaded = None


def _library():
    """libmac_runtime_cuda: MAC_RUNTIME_CUDA, or beside the package, or in its build folder, or where the system finds it."""
    global _loaded
    if _loaded:
        return _loaded
    name, here = "libmac_runtime_cuda.so", Path(__file__).absolute().parent
    places = [Path(os.environ["MAC_RUNTIME_CUDA"])] if "MAC_RUNTIME_CUDA" in os.environ else []
    places += [here / name, here.parents[1] / name]
    found = next((str(place) for place in places if place.is_file()), None) or ctypes.util.find_library("mac_runtime_cuda")
    if not found:
        raise Error(f"{name} was not found: it is built where nvcc is; the environment variable MAC_RUNTIME_CUDA can name it")
    library = ctypes.CDLL(found)
    for function, arguments in _SIGNATURES.items():
        getattr(library, function).argtypes = [*arguments, ctypes.POINTER(_Error)]
        getattr(library, function).restype = ctypes.c_int
    for function, answer in _ANSWERS.items():
        getattr(library, function).argtypes = [_pointer]
        getattr(library, function).restype = answer
    library.mac_device_state_bytes.argtypes, library.mac_device_state_bytes.restype = [_pointer, _size], _size
    _loaded = library
    return library


def _call(function, *arguments):
    error = _Error()
    status = getattr(_library(), function)(*arguments, ctypes.byref(error))
    if status != OK:
        raise (UsageError if status == INVALID_ARGUMENT else Error)(error.message.decode())


def _stream(stream):
    """The number of a stream: of CuPy (ptr), PyTorch (cuda_stream), or the number itself; None: the default stream."""
    for name in ("ptr", "cuda_stream"):
        if hasattr(stream, name):
            return getattr(stream, name) or None
    return stream or None


class _DlTensor(ctypes.Structure):  # as dlpack.h has it
    _fields_ = [
        ("data", _pointer), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class _Array:
    """Where the numbers of an array lie: pointer, shape, strides in elements, kind ("double", "float", or that of DLPack)."""

    def __init__(self, array, name):
        if hasattr(array, "__cuda_array_interface__"):
            about = array.__cuda_array_interface__
            kinds = {"<f8": "double", "<f4": "float", "|u1": "byte", "|b1": "byte"}
            self.kind = kinds.get(about["typestr"], about["typestr"])
            self.pointer, self.shape = about["data"][0], tuple(about["shape"])
            width = int(about["typestr"][2:])
            strides = about.get("strides")
            self.strides = tuple(s // width for s in strides) if strides else _dense(self.shape)
        elif hasattr(array, "__dlpack__"):
            self._from_dlpack(array, name)
        else:
            raise UsageError(f"{name} is a {type(array).__name__}: expected an array on a GPU, with __cuda_array_interface__ or __dlpack__")

    def _from_dlpack(self, array, name):
        if int(array.__dlpack_device__()[0]) not in REACHED_BY_CUDA:
            raise UsageError(f"{name} is an array in host memory: expected one on a GPU")
        capsule = array.__dlpack__(stream=-1)  # nobody waits: the host orders its streams
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.argtypes, get.restype = [ctypes.py_object, ctypes.c_char_p], _pointer
        tensor = _DlTensor.from_address(get(capsule, b"dltensor"))
        kinds = {(2, 64): "double", (2, 32): "float", (1, 8): "byte", (6, 8): "byte"}
        self.kind = kinds.get((tensor.code, tensor.bits), f"a number of {tensor.bits} bits")
        self.pointer = (tensor.data or 0) + tensor.byte_offset
        self.shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
        self.strides = tuple(tensor.strides[i] for i in range(tensor.ndim)) if tensor.strides else _dense(self.shape)

    def require(self, name, shape, kinds):
        if self.kind not in kinds:
            raise UsageError(f"{name} holds {self.kind}: expected float64 or float32" if "double" in kinds else
                             f"{name} holds {self.kind}: expected {' or '.join(kinds)}")  # fmt: skip
        if self.shape != shape:
            raise UsageError(f"{name} has the shape {self.shape}: expected {shape}")


def _dense(shape):
    strides, size = [], 1
    for extent in reversed(shape):
        strides.append(size)
        size *= extent
    return tuple(reversed(strides))


def _list(columns):
    """A list of columns for C, and how many."""
    columns = [int(column) for column in columns]
    if any(column < 0 for column in columns):
        raise UsageError(f"column {min(columns)} does not exist: they count from 0")
    return (_size * len(columns))(*columns), len(columns)


class DeviceState:
    """The memory of so many columns on the current GPU, and the closure of a model file that steps them.

    Arrays are (columns, inputs) and (columns, outputs), float64 or float32, with any strides: `field.T` of an array (inputs, columns) does.
    A step is queued on `stream` (a stream of CuPy or PyTorch, or its number; None: the default stream) and does not wait; it may be captured
    into a CUDA graph.
    """

    def __init__(self, model, columns):
        self._state, library, opened = None, _library(), _pointer()
        _call("mac_model_open", os.fsencode(model), 0, ctypes.byref(opened))
        try:
            state = _pointer()
            _call("mac_device_state_create", opened, columns, ctypes.byref(state))
            self._state = state
            self.columns = columns
            self.inputs, self.outputs = library.mac_model_inputs(opened), library.mac_model_outputs(opened)
        finally:
            library.mac_model_close(opened)

    def __del__(self):
        if getattr(self, "_state", None):
            _loaded.mac_device_state_free(self._state)
            self._state = None

    @property
    def device(self):
        """The number of the GPU."""
        return _library().mac_device_state_device(self._state)

    @property
    def nbytes(self):
        """What it takes in the GPU's memory."""
        return _library().mac_device_state_memory(self._state)

    def step(self, y, closure, stream=None):
        """One closure step of all columns: y -> closure, in physical units. A column whose y is not finite takes no step, and its closure is NaN."""
        of_y, of_closure = _Array(y, "y"), _Array(closure, "closure")
        of_y.require("y", (self.columns, self.inputs), BYTES)
        of_closure.require("closure", (self.columns, self.outputs), BYTES)
        if of_y.kind != of_closure.kind:
            raise UsageError(f"y holds {of_y.kind} and closure {of_closure.kind}: expected one of the two for both")
        function = "mac_step_device_strided" + ("_float" if of_y.kind == "float" else "")
        _call(function, self._state, of_y.pointer, of_y.strides[1], of_y.strides[0],
              of_closure.pointer, of_closure.strides[1], of_closure.strides[0], _stream(stream))  # fmt: skip

    def closure_at(self, hold, fraction, closure, stream=None):
        """The closure at a fraction of the step that the last step opened, for the stages of an integrator; hold: "zero" or "linear"."""
        if hold not in HOLDS:
            raise UsageError(f'hold is "{hold}": expected "zero" or "linear"')
        of = _Array(closure, "closure")
        of.require("closure", (self.columns, self.outputs), BYTES)
        function = "mac_closure_at_device_strided" + ("_float" if of.kind == "float" else "")
        _call(function, self._state, HOLDS[hold], fraction, of.pointer, of.strides[1], of.strides[0], _stream(stream))

    def set_mask(self, mask):
        """Steps are those of the columns whose byte in mask, (columns) on the GPU, is not 0; None: of all. The array must live on."""
        of = None
        if mask is not None:
            of = _Array(mask, "mask")
            of.require("mask", (self.columns,), ("byte",))
            if of.strides != (1,) and self.columns > 1:
                raise UsageError("mask is not contiguous")
        _call("mac_device_state_set_mask", self._state, of.pointer if of else None)
        self._mask = mask

    def reset(self, columns=None, stream=None):
        """As newly created: all columns, or those listed."""
        if columns is None:
            return _call("mac_device_state_reset", self._state, _stream(stream))
        _call("mac_device_state_reset_columns", self._state, *_list(columns), _stream(stream))

    def save(self, columns=None, stream=None):
        """All that the next step depends on, as bytes, those of `closure.state`; of all columns, or of those listed."""
        listed, count = (None, self.columns) if columns is None else _list(columns)
        buffer = ctypes.create_string_buffer(_library().mac_device_state_bytes(self._state, count))
        _call("mac_device_state_save", self._state, listed, count, buffer, len(buffer), _stream(stream))
        return buffer.raw

    def restore(self, saved, source=None, columns=None, stream=None):
        """Takes back what `save` or `closure.state` gave: columns source[k] of it to columns[k] of the state; without lists all."""
        listed, count = (None, self.columns) if columns is None else _list(columns)
        sources, given = (None, count) if source is None else _list(source)
        if given != count:
            raise UsageError(f"source lists {given} columns, columns {count}")
        saved = bytes(saved)
        _call("mac_device_state_restore", self._state, saved, len(saved), sources, listed, count, _stream(stream))

    def check(self, stream=None):
        """Waits for the stream; an error that names column and component where something was not finite since the last check."""
        _call("mac_device_state_check", self._state, _stream(stream))
