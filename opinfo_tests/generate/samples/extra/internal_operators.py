"""Rows for operators that torch and its compiler use internally, such as assertions and checks of sparse indices.

Also here: jagged tensors, ``set_``, torch's test operators, and ``out=`` forms of fused optimizers.
"""

# Each line has the dtypes, the overload and the arguments, as in `general`.
INTERNAL_OPERATORS = """
-    _assert_async  (torch.tensor(1.5))
-    _assert_async.msg  (torch.tensor([True]), 'message')
fi   _functional_assert_async.msg  (torch.tensor(1), 'message', x(2))
-    _assert_scalar  (1, 'message')
fi   _functional_assert_scalar  (2.5, 'message', x(2))
-    sym_constrain_range  (3, min=1, max=5)
-    sym_constrain_range_for_size  (3, max=5)
fi   _functional_sym_constrain_range  (3, 1, None, x(2))
fi   _functional_sym_constrain_range_for_size  (3, None, 5, x(2))
-    _make_dep_token  (dtype=torch.float64)
-    _print  ('a line of _print')
-    cudnn_is_acceptable  (torch.ones(2))
-    _use_cudnn_rnn_flatten_weight  ()
fibc requires_grad_  (x(3,4), False)
fibc requires_grad_  (x(3,4), True)
fibc _unpack_dual  (x(3,4), 0)
fi   to_mkldnn_backward  (x(3), x(3))
-    _convert_indices_from_coo_to_csr  (torch.tensor([0,0,1,3]), 4, out_int32=True)
-    _convert_indices_from_csr_to_coo  (torch.tensor([[0,2,3],[0,1,3]]), torch.tensor([[0,1,1],[2,0,1]]), transpose=True)
-    _validate_compressed_sparse_indices  (True, torch.tensor([0,1,3]), torch.tensor([2,0,1]), 2, 3, 3)
-    _validate_compressed_sparse_indices  (False, torch.tensor([0,1,3]), torch.tensor([2,0,1]), 2, 3, 3)
-    _validate_compressed_sparse_indices  (False, torch.tensor([0,1,3],dtype=torch.int32), torch.tensor([2,0,1],dtype=torch.int32), 2, 3, 3)
-    _validate_compressed_sparse_indices  (True, torch.tensor([0,2,3]), torch.tensor([0,1,1]), 2, 3, 3)
-    _validate_compressed_sparse_indices  (True, torch.tensor([0,1,2]), torch.tensor([2,0,1]), 2, 3, 3)
-    _validate_compressed_sparse_indices  (False, torch.tensor([0,1,3]), torch.tensor([2,1,0]), 2, 3, 3)
-    _validate_compressed_sparse_indices  (True, torch.tensor([0,1,3]), torch.tensor([2,0,3]), 2, 3, 3)
f    _validate_sparse_coo_tensor_args  (torch.tensor([[0,1,1],[2,0,2]]), x(3), [2,3], True)
f    _validate_sparse_coo_tensor_args  (torch.tensor([[0,1,1],[2,0,2]]), x(3), [2,3], False, True)
f    _validate_sparse_coo_tensor_args  (torch.tensor([[0,1,1],[2,2,0]]), x(3), [2,3], None, False)
f    _validate_sparse_csr_tensor_args  (torch.tensor([0,1,3]), torch.tensor([2,0,1]), x(3), [2,3])
f    _validate_sparse_csr_tensor_args  (torch.tensor([0,1,3]), torch.tensor([2,0,1]), x(3), [2,3], True)
f    _validate_sparse_csc_tensor_args  (torch.tensor([0,1,3]), torch.tensor([2,0,1]), x(3), [3,2])
f    _validate_sparse_csc_tensor_args  (torch.tensor([0,1,3]), torch.tensor([2,0,1]), x(3), [3,2], True)
f    _validate_sparse_bsr_tensor_args  (torch.tensor([0,1,3]), torch.tensor([2,0,1]), x(3,2,2), [4,6])
f    _validate_sparse_bsr_tensor_args  (torch.tensor([0,1,3]), torch.tensor([2,0,1]), x(3,2,2), [4,6], True)
f    _validate_sparse_bsc_tensor_args  (torch.tensor([0,1,3]), torch.tensor([2,0,1]), x(3,2,2), [6,4])
f    _validate_sparse_bsc_tensor_args  (torch.tensor([0,1,3]), torch.tensor([2,0,1]), x(3,2,2), [6,4], True)
f    _validate_sparse_compressed_tensor_args  (torch.tensor([0,1,3]), torch.tensor([2,0,1]), x(3), [2,3], torch.sparse_csr)
f    _validate_sparse_compressed_tensor_args  (torch.tensor([0,1,3]), torch.tensor([2,0,1]), x(3), [2,3], torch.sparse_csr, True)
fi   _sparse_mm  (x(3,4), x(4,2))
fi   _sparse_addmm  (x(2), x(3,4), x(4,2), beta=2)
fi   _jagged_to_padded_dense_forward  (x(6,2), [torch.tensor([0,2,6])], [3], 7.0)
fib  _padded_dense_to_jagged_forward  (x(2,5,3), [torch.tensor([0,2,6])], 6)
fib  _padded_dense_to_jagged_forward  (x(2,5,3), [torch.tensor([0,2,6])])
s    _padded_dense_to_jagged_forward  (x(2,5,3), [torch.tensor([0,2,6])], 7)
s    _padded_dense_to_jagged_forward  (x(2,3,3), [torch.tensor([0,2,6])], 6)
s    _padded_dense_to_jagged_forward  (x(2,3,2), [torch.tensor([0,3,4])])
s    _padded_dense_to_jagged_forward  (x(2,3,2), [torch.tensor([0,3,6])], 6)
s    _jagged_to_padded_dense_forward  (x(5,2), [torch.tensor([0,4,5])], [2], 0.0)
-    _nested_compute_contiguous_strides_offsets  (torch.tensor([[2,3,4],[4,3,5]]))
f    _nested_tensor_from_mask_left_aligned  (x(2,3,4), torch.tensor([[True,True,False],[True,False,False]]))
fibc set  (x(3,4))
fibc set.source_Tensor  (x(3), x(4,3).t())
fibc set_  (x(3,4))
fibc set_.source_Tensor  (x(3), x(4,3).t())
fibc set_.source_Tensor_storage_offset  (x(3), x(4,3), 2, [2,2], [3,1])
fi   set_.source_Tensor_storage_offset  (x(1), x(8)[3:], 1, [2], [2])
fi   set_.source_Tensor_storage_offset  (x(1), x(4,3)[1:,1:], 0, [2,2], [1,3])
fi   set_.source_Tensor  (x(3), x(4,3)[1:,1:])
fibc _foobar  (x(3,4))
-    _test_ambiguous_defaults.a  (torch.ones(2))
-    _test_ambiguous_defaults.b  (torch.ones(2))
fibc _test_autograd_multiple_dispatch.fullcoverage  (x(3,4).t())
fibc _test_autograd_multiple_dispatch.ntonly  (x(3,4), True)
fibc _test_autograd_multiple_dispatch_view  (x(3,4))
fibc _test_autograd_multiple_dispatch_view_copy  (x(3,4))
b    _test_check_tensor  (x(3) | True)
fibc _test_functorch_fallback  (x(3,4), x(3,4))
-    _test_optional_intlist  (torch.arange(3,dtype=torch.int32), [1,2,3])
-    _test_optional_filled_intlist  (torch.arange(2,dtype=torch.int32), [1,2])
s    _test_optional_floatlist  (x(3), [1.5,2.0,3.0])
fibc _test_parallel_materialize  (x(3,4), 2)
fic  _test_serialization_subcmul  (x(3,4), x(3,4), 2)
fibc _test_string_default  (x(3))
fibc _test_warn_in_autograd  (x(3,4))
s    _amp_update_scale.out  (torch.tensor(4.0), torch.tensor(1, dtype=torch.int32), torch.tensor(0.0), 2.0, 0.5, 2, out=torch.tensor(0.0))
s    _amp_foreach_non_finite_check_and_unscale.out  ([x(3)], torch.tensor(0.0), torch.tensor(0.5), out=[torch.zeros(3)])
s    _fused_sgd.out  ([x(3)], [x(3)], [], weight_decay=0.1, momentum=0.0, lr=0.1, dampening=0.0, nesterov=False,
         maximize=False, is_first_step=True, out=[torch.zeros(3)])
s    _fused_sgd.tensor_lr_out  ([x(3)], [x(3)], [], weight_decay=0.1, momentum=0.0, lr=torch.tensor(0.1),
         dampening=0.0, nesterov=False, maximize=False, is_first_step=True, out=[torch.zeros(3)])
s    _fused_adam.out  ([x(3)], [x(3)], [x(3)], [p(3)], [], [torch.ones(())], lr=0.1, beta1=0.9, beta2=0.99,
         weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False, out=[torch.zeros(3)])
s    _fused_adam.tensor_lr_out  ([x(3)], [x(3)], [x(3)], [p(3)], [], [torch.ones(())], lr=torch.tensor(0.1),
         beta1=0.9, beta2=0.99, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False, out=[torch.zeros(3)])
s    _fused_adamw.out  ([x(3)], [x(3)], [x(3)], [p(3)], [], [torch.ones(())], lr=0.1, beta1=0.9, beta2=0.99,
         weight_decay=0.1, eps=1e-8, amsgrad=False, maximize=False, out=[torch.zeros(3)])
s    _fused_adamw.tensor_lr_out  ([x(3)], [x(3)], [x(3)], [p(3)], [], [torch.ones(())], lr=torch.tensor(0.1),
         beta1=0.9, beta2=0.99, weight_decay=0.1, eps=1e-8, amsgrad=False, maximize=False, out=[torch.zeros(3)])
s    _fused_adagrad.out  ([x(3)], [x(3)], [p(3)], [torch.ones(())], lr=0.1, lr_decay=0.1, weight_decay=0.1, eps=1e-8,
         maximize=False, out=[torch.zeros(3)])
s    _fused_adagrad.tensor_lr_out  ([x(3)], [x(3)], [p(3)], [torch.ones(())], lr=torch.tensor(0.1), lr_decay=0.1,
         weight_decay=0.1, eps=1e-8, maximize=False, out=[torch.zeros(3)])
"""

# Families and overloads for which torch has no CPU kernel, but torchnp's table has.
NO_CPU_FAMILIES = ("vendor_aliases",)
NO_CPU = (
    "mm.dtype", "bmm.dtype", "addmm.dtype", "baddbmm.dtype", "mm.dtype_out", "bmm.dtype_out", "addmm.dtype_out",
    "baddbmm.dtype_out", "_scaled_grouped_mm", "_scaled_grouped_mm_v2", "_scaled_grouped_mm_v2.out", "pin_memory", "_pin_memory", "_pin_memory.out",
    "record_stream", "native_norm", "native_norm.out", "native_norm.ScalarOpt_dim_dtype",
    "native_norm.ScalarOpt_dim_dtype_out", "_resize_output_", "_resize_output", "_resize_output.out",
)  # fmt: skip
