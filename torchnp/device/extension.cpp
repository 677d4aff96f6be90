// C++ conversion between arrays and tensors of the device `np`, and two objects that torch accepts only from C++: an
// allocator and a generator. Everything except the generator works without this extension; scripts/bench_device.py
// prints the time that it saves.
//
// A storage made here owns a reference to the ndarray that holds its memory. Cases that these functions do not support
// (a dtype, a storage made by Python) are passed to the Python functions that they replace.
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/GeneratorForPrivateuseone.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <numpy/arrayobject.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>  // not torch/extension.h, which takes twice as long to compile

#include <unordered_map>

namespace {

const c10::Device kDevice(c10::DeviceType::PrivateUse1, 0);
std::unordered_map<PyArray_Descr*, at::ScalarType> to_torch;
std::unordered_map<int, PyArray_Descr*> to_numpy;
PyObject *share_by_python, *wrap_by_python;

void drop(void* array) {
  if (!Py_IsInitialized()) return;  // the system frees memory that outlives Python
  py::gil_scoped_acquire gil;
  Py_DECREF(static_cast<PyObject*>(array));
}

c10::DataPtr held(PyArrayObject* array) {
  Py_INCREF(array);
  return {PyArray_DATA(array), array, &drop, kDevice};
}

struct Allocator : c10::Allocator {
  c10::DataPtr allocate(size_t nbytes) override {
    py::gil_scoped_acquire gil;
    npy_intp size = static_cast<npy_intp>(nbytes);
    auto array = py::reinterpret_steal<py::object>(PyArray_ZEROS(1, &size, NPY_UINT8, 0));
    if (!array) throw py::error_already_set();
    return held(reinterpret_cast<PyArrayObject*>(array.ptr()));
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t nbytes) const override { default_copy_data(to, from, nbytes); }
} allocator;

// The CPU's Mersenne Twister generator, for this device.
struct Generator : at::CPUGeneratorImpl {
  Generator() {
    device_ = kDevice;
    key_set_ = c10::DispatchKeySet(c10::DispatchKey::PrivateUse1);
  }
};

// Guard of the only device, without streams; torch calls it several times in each operator call.
struct Guard : c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::PrivateUse1> {
  c10::Device getDevice() const override { return kDevice; }
  c10::Device exchangeDevice(c10::Device) const override { return kDevice; }
  c10::Stream getStream(c10::Device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, kDevice);
  }
  c10::Stream exchangeStream(c10::Stream) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, kDevice);
  }
} guard;

// A device tensor on an array's memory: `convert.wrap`.
PyObject* wrap(PyObject*, PyObject* argument) {
  HANDLE_TH_ERRORS
  if (!PyArray_CheckExact(argument)) return PyObject_CallOneArg(wrap_by_python, argument);
  auto* array = reinterpret_cast<PyArrayObject*>(argument);
  auto dtype = to_torch.find(PyArray_DESCR(array));
  if (dtype == to_torch.end() || !PyArray_SIZE(array)) return PyObject_CallOneArg(wrap_by_python, argument);
  const int dims = PyArray_NDIM(array);
  const int64_t itemsize = PyArray_ITEMSIZE(array);
  c10::SmallVector<int64_t, 5> sizes(dims), strides(dims);
  int64_t reach = 1;  // number of elements from the first to the last
  for (int i = 0; i < dims; i++) {
    sizes[i] = PyArray_DIM(array, i);
    strides[i] = PyArray_STRIDE(array, i) / itemsize;
    reach += (sizes[i] - 1) * strides[i];
  }
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), reach * itemsize, held(array), &allocator, true);
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::scalarTypeToTypeMeta(dtype->second));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return THPVariable_Wrap(std::move(tensor));
  END_HANDLE_TH_ERRORS
}

// An array on a device tensor's memory: `convert.share`.
PyObject* share(PyObject*, PyObject* argument) {
  HANDLE_TH_ERRORS
  if (!THPVariable_Check(argument)) return PyObject_CallOneArg(share_by_python, argument);
  const at::Tensor& tensor = THPVariable_Unpack(argument);
  const auto& impl = *tensor.unsafeGetTensorImpl();
  if (!impl.has_storage() || tensor.is_conj() || tensor.is_neg() || tensor._is_zerotensor())
    return PyObject_CallOneArg(share_by_python, argument);
  const auto& memory = tensor.storage().data_ptr();
  auto dtype = to_numpy.find(static_cast<int>(tensor.scalar_type()));
  if (memory.get_deleter() != &drop || dtype == to_numpy.end()) return PyObject_CallOneArg(share_by_python, argument);
  const int dims = static_cast<int>(tensor.dim());
  const int64_t itemsize = PyDataType_ELSIZE(dtype->second);
  c10::SmallVector<npy_intp, 5> sizes(dims), strides(dims);
  for (int i = 0; i < dims; i++) {
    sizes[i] = tensor.size(i);
    strides[i] = tensor.stride(i) * itemsize;
  }
  auto* data = static_cast<char*>(memory.get()) + tensor.storage_offset() * itemsize;
  Py_INCREF(dtype->second);
  PyObject* array = PyArray_NewFromDescr(
      &PyArray_Type, dtype->second, dims, sizes.data(), strides.data(), data, NPY_ARRAY_WRITEABLE, nullptr);
  if (!array) return nullptr;
  auto* owner = static_cast<PyObject*>(memory.get_context());
  Py_INCREF(owner);
  if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(array), owner) < 0) {
    Py_DECREF(array);
    return nullptr;
  }
  return array;
  END_HANDLE_TH_ERRORS
}

// Sets the dtype maps, and the Python functions that the two above replace and fall back to.
void ready(const py::dict& dtypes, const py::object& share_, const py::object& wrap_) {
  for (auto& pair : dtypes) {
    auto* numpy = reinterpret_cast<PyArray_Descr*>(pair.first.inc_ref().ptr());
    auto torch = reinterpret_cast<THPDtype*>(pair.second.ptr())->scalar_type;
    to_torch[numpy] = torch;
    to_numpy[static_cast<int>(torch)] = numpy;
  }
  share_by_python = share_.inc_ref().ptr();
  wrap_by_python = wrap_.inc_ref().ptr();
}

PyMethodDef methods[] = {{"share", share, METH_O, nullptr}, {"wrap", wrap, METH_O, nullptr}, {nullptr, nullptr, 0, nullptr}};

// Hides a torch warning: the C++ hooks that it recommends would replace the Python hooks.
struct Quiet : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

}  // namespace

REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &allocator)

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  if (_import_array() < 0) throw py::error_already_set();
  {
    Quiet quiet;
    c10::WarningUtils::WarningHandlerGuard unsaid(&quiet);
    at::_GeneratorRegister([](c10::DeviceIndex) { return at::make_generator<Generator>(); });
  }
  module.def("ready", &ready);
  module.def("guard", [] { c10::impl::DeviceGuardImplRegistrar(c10::DeviceType::PrivateUse1, &guard); });
  PyModule_AddFunctions(module.ptr(), methods);
}
