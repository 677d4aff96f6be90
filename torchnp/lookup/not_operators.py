"""Names of torch and NumPy that are not functions of arrays, with the reasons why no operator corresponds to them.

A group consists of a reason and the names to which it applies, as globs of ``torch.*``, ``Tensor.*``, ``F.*``,
``np.*``.
"""

from __future__ import annotations

MODULES = (
    "amp", "ao", "backends", "compiler", "cpu", "cuda", "distributed", "distributions", "fx", "hub", "jit", "mps", "multiprocessing",
    "onnx", "optim", "package", "profiler", "quantization", "utils", "xpu",
)  # fmt: skip

GROUPS = (
    (
        "is a setting of torch's (gradients, autocast, determinism, threads, printing), and no function of tensors",
        "torch.are_deterministic_algorithms_enabled torch.autocast* torch.clear_autocast_cache torch.get_autocast_* "
        "torch.is_autocast_* torch.set_autocast_* torch.get_default_device torch.set_default_device "
        "torch.get_deterministic_debug_mode torch.set_deterministic_debug_mode torch.get_device_module "
        "torch.get_file_path torch.get_float32_matmul_precision torch.set_float32_matmul_precision torch.get_num_* "
        "torch.set_num_* torch.init_num_threads torch.inference_mode torch.is_anomaly_* torch.set_anomaly_enabled "
        "torch.is_deterministic_algorithms_warn_only_enabled torch.use_deterministic_algorithms torch.is_grad_enabled "
        "torch.is_inference_mode_enabled torch.is_warn_always_enabled torch.set_warn_always torch.set_grad_enabled "
        "torch.enable_grad torch.no_grad torch.set_flush_denormal torch.set_printoptions torch.set_default_tensor_type "
        "torch.prepare_multiprocessing_environment torch.profiler_* torch.compiled_with_cxx11_abi torch.GradScaler",
    ),
    (
        "compiles, traces or runs TorchScript and graphs",
        "torch.compile torch.fork torch.wait torch.import_ir_module* torch.merge_type_from_type_comment torch.parse_* "
        "torch.unify_type_list torch.cond torch.while_loop torch.vmap torch.sym_* torch.classproperty "
        "torch.export torch.typename",
    ),
    ("reads or writes files", "torch.load torch.save Tensor.share_memory_ Tensor.module_load"),
    (
        "is part of the state of torch's random engine",
        "torch.manual_seed torch.seed torch.initial_seed torch.get_rng_state torch.set_rng_state "
        "torch.thread_safe_generator",
    ),
    (
        "asks about Python objects or dtypes, and runs no operator",
        "torch.is_storage torch.is_tensor torch.get_default_dtype torch.set_default_dtype torch.broadcast_shapes "
        "torch.finfo torch.iinfo torch.to_dlpack Tensor.as_subclass Tensor.data_ptr "
        "Tensor.const_data_ptr Tensor.dim_order Tensor.element_size Tensor.itemsize Tensor.nbytes Tensor.storage "
        "Tensor.storage_type Tensor.untyped_storage Tensor.is_shared",
    ),
    ("gives a NumPy array in the tensor's own memory, and runs no operator", "Tensor.numpy"),
    (
        "belongs to autograd or to modules",
        "Tensor.backward Tensor.register_* Tensor.reinforce Tensor.requires_grad Tensor.grad* Tensor.retain_grad "
        "Tensor.volatile Tensor.name",
    ),
    (
        "belongs to a part of torch that has no operators on tensors",
        " ".join(f"torch.{module} torch.{module}.* torch.{module}.*.*" for module in MODULES),
    ),
    (
        "is a module of NumPy that has no counterpart in torch",
        "np.ma np.ma.* np.char np.char.* np.rec np.rec.* np.strings np.strings.* np.testing np.testing.* np.ctypeslib np.typing",
    ),
    ("calls a Python function for every element, slowly", "Tensor.apply_ Tensor.map_ Tensor.map2_"),
    (
        "works on sparse, quantized or nested tensors, which are no arrays",
        "torch.hsmm torch.saddmm Tensor.to_sparse* torch.sspaddmm torch.hspmm",
    ),
    (
        "is a class or a type, and no function of tensors",
        "torch.[A-Z]* F.[A-Z]* torch.device torch.dtype torch.layout torch.memory_format torch.linalg.LinAlgError torch.*.Tensor "
        "F.Optional",
    ),
    (
        "tells where or how a tensor is kept: its device, layout or dtype",
        "Tensor.is_cpu Tensor.is_cuda Tensor.is_ipu Tensor.is_maia Tensor.is_meta Tensor.is_mkldnn Tensor.is_mps "
        "Tensor.is_mtia Tensor.is_nested Tensor.is_quantized Tensor.is_sparse Tensor.is_sparse_csr Tensor.is_vulkan "
        "Tensor.is_xla Tensor.is_xpu Tensor.layout Tensor.device Tensor.dtype",
    ),
    (
        "serves torch's own Python code",
        "F.assert_int_or_pair F.boolean_dispatch F.handle_torch_function F.has_torch_function*",
    ),
    (
        "is a dtype, and no function of tensors",
        "torch.bool torch.int8 torch.int16 torch.int32 torch.int64 torch.uint8 torch.uint16 torch.uint32 torch.uint64 "
        "torch.float16 torch.float32 torch.float64 torch.complex64 torch.complex128 torch.half torch.float torch.double "
        "torch.short torch.int torch.long torch.cfloat torch.cdouble",
    ),
    (
        "is a dtype that NumPy does not have; ml_dtypes has it, and the kernels of torchnp take it",
        "torch.bfloat16 torch.float8_* torch.complex32 torch.chalf",
    ),
    ("is a constant, and the same in both", "torch.e torch.inf torch.nan torch.newaxis torch.pi"),
    (
        "is a class, a dtype or a constant, and no function of arrays",
        "np.bool np.bool_ np.byte np.bytes_ np.broadcast np.cdouble np.character np.clongdouble np.complex* np.csingle "
        "np.datetime64 np.double np.flexible np.float* np.generic np.half np.inexact np.int? np.int?? np.int_ np.intc np.integer "
        "np.intp np.long np.longdouble np.longlong np.number np.object_ np.short np.signedinteger np.single np.str_ "
        "np.timedelta64 np.ubyte np.uint* np.ulong np.ulonglong np.unsignedinteger np.ushort np.void np.matrix "
        "np.memmap np.ndarray np.ndenumerate np.ndindex np.nditer np.flatiter np.poly1d np.recarray np.record np.ufunc np.busdaycalendar "
        "np.True_ np.False_ np.euler_gamma np.ScalarType np.sctypeDict np.typecodes np.index_exp np.bmat "
        "np.asmatrix np.random.BitGenerator np.random.MT19937 np.random.PCG64* np.random.Philox "
        "np.random.SFC64 np.random.SeedSequence np.linalg.LinAlgError np.int8 np.int16 np.int32 np.int64",
    ),
    (
        "is a setting or asks about NumPy itself",
        "np.errstate np.printoptions np.set* np.get* np.geterr np.show_* np.test np.*.test np.info "
        "np.little_endian np.random.*bit_generator",
    ),
    (
        "reads, writes or prints text and files",
        "np.array2string np.array_repr np.array_str np.base_repr np.binary_repr np.format_float_* np.from* np.genfromtxt "
        "np.load* np.save* np.fromregex np.typename np.mintypecode",
    ),
    (
        "works on dates or strings, which tensors do not hold",
        "np.busday_* np.datetime_* np.is_busday np.isnat",
    ),
    (
        "is gone from newer versions of NumPy",
        "np.ndarray.itemset np.ndarray.newbyteorder np.ndarray.tostring",
    ),
    (
        "helps Python code that goes over arrays",
        "np.einsum_path np.iterable np.nested_iters np.min_scalar_type",
    ),
    (
        "reads, writes or changes the memory of an array as it stands",
        "np.ndarray.ctypes np.ndarray.dump* np.ndarray.setfield np.ndarray.setflags np.ndarray.tofile "
        "np.ndarray.data np.ndarray.flags np.ndarray.base np.ndarray.device",
    ),
)
