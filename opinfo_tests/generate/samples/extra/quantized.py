"""Rows for low-bit products, fake quantization and other CPU operators that OpInfo lacks."""

# Each line has the dtypes, the overload and the arguments, as in `general`.
QUANTIZED = """
f    _grouped_mm  (x(16,32), x(2,32,16), torch.tensor([8,16],dtype=torch.int32))
f    _grouped_mm  (x(16,32), x(3,16,32).mT, torch.tensor([8,8,16],dtype=torch.int32))
f    _grouped_mm  (x(2,16,32), x(32,16), torch.tensor([8,16],dtype=torch.int32))
f    _grouped_mm  (x(16,32), x(32,16), torch.tensor([8,32],dtype=torch.int32))
f    _grouped_mm  (x(2,16,32), x(2,32,16))
f    _grouped_mm  (x(16,32), x(32,12), None)
s    _scaled_mm  (x(4,7).to(torch.float8_e4m3fn), x(7,5).to(torch.float8_e4m3fn), torch.tensor(0.5),
         torch.tensor(3.0), x(5), None, torch.float32)
s    _scaled_mm  (x(4,7).to(torch.float8_e5m2), x(5,7).to(torch.float8_e4m3fn).t(), p(4,1), p(1,5), None, None, torch.bfloat16)
s    _scaled_mm  (torch.full((4,16), 440.).to(torch.float8_e4m3fn), torch.full((16,5), 40.).to(torch.float8_e4m3fn),
         torch.tensor(1.), torch.tensor(1.))
s    _scaled_mm  (torch.full((4,16), 5e4).to(torch.float8_e5m2), torch.full((16,5), 40.).to(torch.float8_e5m2),
         torch.tensor(1.), torch.tensor(1.))
s    _scaled_mm  (x(2,7).to(torch.float8_e4m3fn), x(7,3).to(torch.float8_e4m3fn), torch.tensor(0.5),
         torch.tensor(3.0), None, None, torch.float32)
s    _scaled_mm  (x(3,5).to(torch.float8_e5m2), x(5,5).to(torch.float8_e5m2), p(3,1), p(1,5), x(5), None, torch.float32)
s    _scaled_mm  (x(4,7).to(torch.float8_e5m2), x(7,6), torch.tensor(0.5), torch.tensor(3.0))
s    _scaled_mm_v2  (x(4,7).to(torch.float8_e5m2), x(7,5).to(torch.float8_e4m3fn), [torch.tensor(0.5)], [0], [0],
         [torch.tensor(3.0)], [0], [0], x(5), torch.float16)
s    _scaled_mm_v2  (x(3,4).to(torch.float8_e5m2), x(4,2).to(torch.float8_e5m2), [torch.tensor(1.5)], [0], [0],
         [torch.tensor(2.0)], [0], [0], x(2), torch.float32)
s    _scaled_mm_v2  (x(2,7).to(torch.float8_e5m2), x(7,3).to(torch.float8_e5m2), [torch.tensor(0.5)], [0], [0],
         [torch.tensor(3.0)], [0], [0], None, torch.bfloat16)
s    _scaled_mm_v2  (x(3,5).to(torch.float8_e4m3fn), x(5,5).to(torch.float8_e4m3fn), [p(3,1)], [1], [0], [p(1,5)],
         [1], [0], x(5), torch.float32)
s    _scaled_mm_v2  (x(4,7).to(torch.float8_e5m2), x(7,5).to(torch.float8_e5m2), [p(4,1)], [1], [0], [p(1,5)], [1],
         [0], None, torch.float32)
f    _grouped_mm  (x(2,16,32), x(2,32,16), None, x(16))
f    _grouped_mm  (x(2,16,32), x(2,32,16), None, None, x(1).dtype)
f    _grouped_mm  (x(2,16,32), x(2,32,16), None, None, torch.float16)
s    _scaled_mm  (x(4,7).to(torch.float8_e5m2), x(7,5).to(torch.float8_e4m3fn), torch.tensor(0.5), torch.tensor(3.0),
         None, torch.tensor(4.0), torch.bfloat16, True)
s    _scaled_mm  (x(4,7).to(torch.float8_e5m2), x(7,5).to(torch.float8_e5m2), torch.tensor(0.5), torch.tensor(3.0), None, torch.tensor(4.0))
s    _scaled_mm_v2  (x(4,7).to(torch.float8_e5m2), x(7,5).to(torch.float8_e4m3fn), [torch.tensor(0.5)], [0], [0],
         [torch.tensor(3.0)], [0], [0], None, None, [], True)
-    _int_mm  ((ints(3,5) * 40).char(), (ints(5,4) * -30).char())
-    _int_mm  ((ints(3,5) * 40).char(), (ints(4,5) * -30).char())
f    _weight_int8pack_mm  (x(3,32), (ints(5,32) * 30 - 60).char(), p(5))
-    _convert_weight_to_int4pack_for_cpu  (torch.arange(96 * 8, dtype=torch.int32).view(96, 8) % 16, 2)
-    _convert_weight_to_int4pack_for_cpu  (torch.arange(32 * 4, dtype=torch.int32).view(32, 4) * 9 % 16, 2)
-    _convert_weight_to_int4pack_for_cpu  (torch.arange(16 * 8, dtype=torch.int32).view(16, 8) % 16, 1)
-    _convert_weight_to_int4pack_for_cpu  (torch.arange(48 * 6, dtype=torch.int32).view(48, 6) * 7 % 16, 4)
-    _convert_weight_to_int4pack_for_cpu  (torch.arange(64 * 2, dtype=torch.int32).view(64, 2) * 5 % 16, 8)
-    _convert_weight_to_int4pack_for_cpu  (torch.arange(80 * 32, dtype=torch.int32).view(80, 32) * 3 % 16, 2)
f    _weight_int4pack_mm_for_cpu  (x(3,64), (ints(80,32) * 77).byte(), 32, x(2,80,2))
f    _weight_int4pack_mm_for_cpu  (ints(3,128).to(x(1).dtype), (ints(80,64) * 77).byte(), 64, ints(2,80,2).to(x(1).dtype))
f    _weight_int4pack_mm_for_cpu  (ints(2,256).to(x(1).dtype), (ints(32,128) * 77).byte(), 128, ints(2,32,2).to(x(1).dtype))
f    _weight_int4pack_mm_for_cpu  (ints(2,256).to(x(1).dtype), (ints(32,128) * 77).byte(), 256, ints(1,32,2).to(x(1).dtype))
s    _weight_int4pack_mm_for_cpu  (x(2,512), (ints(32,256) * 77).byte(), 512, x(1,32,2))
s    _dyn_quant_pack_4bit_weight  ((ints(5,32) * 77).byte(), p(5), x(5), 64, 64, 5)
s    _dyn_quant_pack_4bit_weight  ((ints(5,32) * 77).byte(), p(5), None, 64, 64, 5)
s    _dyn_quant_pack_4bit_weight  ((ints(3,32) * 77).byte(), p(3,2).bfloat16(), None, 32, 64, 3)
s    _dyn_quant_pack_4bit_weight  ((ints(1,16) * 77).byte(), p(1), x(1), 32, 32, 1)
s    _dyn_quant_matmul_4bit  (x(3,64), torch.cat([ints(160) * 77.0, p(10)]), 32, 64, 5)
s    _dyn_quant_matmul_4bit  (torch.cat([torch.arange(64.).fmod(9) + 0.5, torch.tensor([255., 0.])])[2:].repeat(2,1),
         torch.cat([ints(160) * 77.0, p(10)]), 32, 64, 5)
s    _dyn_quant_matmul_4bit  (x(5,32), torch.cat([ints(64) * 77.0, p(4)]), 32, 32, 4)
s    _dyn_quant_matmul_4bit  (x(1,32), torch.cat([ints(48) * 77.0, p(3)]), 32, 32, 3)
s    _dyn_quant_matmul_4bit  (x(4,64), torch.cat([ints(96) * 77.0, p(3), x(3)]), 64, 64, 3)
s    _dyn_quant_matmul_4bit  (x(2,2,64), torch.cat([ints(160) * 77.0, p(10)]), 32, 64, 5)
f    fake_quantize_per_tensor_affine  (x(3,4), 0.02, 100, 0, 255)
f    fake_quantize_per_tensor_affine.tensor_qparams  (x(3,4), torch.tensor([0.02]), torch.tensor([3]), -128, 127)
f    fake_quantize_per_tensor_affine_cachemask  (x(3,4).t(), 0.3, -3, -8, 7)
f    fake_quantize_per_tensor_affine_cachemask_backward  (x(3,4), m(3,4))
f    _fake_quantize_per_tensor_affine_cachemask_tensor_qparams  (x(3,4), torch.tensor(0.02), torch.tensor(3), torch.tensor(1), -128, 127)
f    _fake_quantize_per_tensor_affine_cachemask_tensor_qparams  (x(3,4), torch.tensor(0.02), torch.tensor(3), torch.tensor(0), -128, 127)
f    fake_quantize_per_channel_affine  (x(3,4), torch.tensor([0.02,0.1,0.3]), torch.tensor([3.5,0.0,-2.25]), 0, -128, 127)
f    fake_quantize_per_channel_affine_cachemask  (x(3,4), torch.tensor([0.02,0.1,0.3,0.01]),
         torch.tensor([3,0,-2,1],dtype=torch.int32), 1, -128, 127)
f    fake_quantize_per_channel_affine_cachemask  (x(2,3,4), torch.tensor([0.02,0.1,0.3]), torch.tensor([3.5,0.0,-2.25]).half(), 1, -8, 7)
f    fake_quantize_per_channel_affine_cachemask_backward  (x(3,4), m(3,4))
f    _fake_quantize_learnable_per_tensor_affine  (x(3,4), torch.tensor([0.02]), torch.tensor([3.6]), -128, 127, 0.5)
f    _fake_quantize_learnable_per_channel_affine  (x(3,4), torch.tensor([0.02,0.1,0.3]), torch.tensor([3.6,0.0,-300.0]), 0, -128, 127, 0.5)
s    _fake_quantize_learnable_per_tensor_affine_backward  (x(3,4), x(3,4), torch.tensor([0.02]), torch.tensor([3.6]), -128, 127, 0.5)
s    _fake_quantize_learnable_per_channel_affine_backward  (x(3,4), x(3,4), torch.tensor([0.02,0.1,0.3]),
         torch.tensor([3.6,0.0,-300.0]), 0, -128, 127, 0.5)
s    _fused_moving_avg_obs_fq_helper  (x(3,4), torch.tensor([1]), torch.tensor([1]), torch.tensor([-1.0]),
         torch.tensor([1.0]), torch.ones(1), torch.zeros(1,dtype=torch.int32), 0.01, 0, 255, -1)
s    _fused_moving_avg_obs_fq_helper  (x(3,4), torch.tensor([1]), torch.tensor([1]), torch.full((3,), -float('inf')),
         torch.full((3,), float('inf')), torch.ones(3), torch.zeros(3,dtype=torch.int32), 0.01, -128, 127, 0, True,
         True)
s    _fused_moving_avg_obs_fq_helper.out  (x(3,4), torch.tensor([1]), torch.tensor([1]), torch.tensor([-1.0]),
         torch.tensor([1.0]), torch.ones(1), torch.zeros(1,dtype=torch.int32), 0.01, 0, 255, -1, out0=torch.zeros(0),
         out1=torch.zeros(0,dtype=torch.bool))
s    _fused_moving_avg_obs_fq_helper.out  (x(3,4), torch.tensor([1]), torch.tensor([1]), torch.full((3,),
         -float('inf')), torch.full((3,), float('inf')), torch.ones(3), torch.zeros(3,dtype=torch.int32), 0.01, -128,
         127, 0, True, True, out0=torch.zeros(0), out1=torch.zeros(0,dtype=torch.bool))
s    _fused_moving_avg_obs_fq_helper.out  (x(5), torch.tensor([1]), torch.tensor([1]), torch.tensor([-2.0]),
         torch.tensor([1.5]), torch.ones(1), torch.zeros(1,dtype=torch.int32), 0.3, 0, 15, -1, False, True,
         out0=torch.zeros(0), out1=torch.zeros(0,dtype=torch.bool))
s    _fused_moving_avg_obs_fq_helper.out  (x(2,3), torch.tensor([0]), torch.tensor([0]), torch.tensor([-2.0]),
         torch.tensor([1.5]), torch.ones(1), torch.zeros(1,dtype=torch.int32), 0.3, 0, 15, -1, out0=torch.zeros(2,3),
         out1=torch.zeros(2,3,dtype=torch.bool))
s    _fused_moving_avg_obs_fq_helper.out  (x(2,6), torch.tensor([1]), torch.tensor([1]), torch.full((2,),
         -float('inf')), torch.full((2,), float('inf')), torch.ones(2), torch.zeros(2,dtype=torch.int32), 0.01, -8, 7,
         0, True, False, out0=torch.zeros(0), out1=torch.zeros(0,dtype=torch.bool))
s    _fused_moving_avg_obs_fq_helper.out  (x(3,4), torch.tensor([1]), torch.tensor([0]), torch.tensor([-1.0]),
         torch.tensor([1.0]), torch.ones(1), torch.zeros(1,dtype=torch.int32), 0.5, 0, 255, -1, False, True,
         out0=torch.zeros(3,4), out1=torch.zeros(3,4,dtype=torch.bool))
s    _fused_moving_avg_obs_fq_helper.out  (x(3,4), torch.tensor([0]), torch.tensor([1]), torch.tensor([-1.0]),
         torch.tensor([1.0]), torch.ones(1), torch.zeros(1,dtype=torch.int32), 0.5, 0, 15, -1, False, False,
         out0=torch.zeros(3,4), out1=torch.zeros(0,dtype=torch.bool))
s    _fused_moving_avg_obs_fq_helper_functional  (x(3,4), torch.tensor([1]), torch.tensor([0]), torch.tensor([-1.0]),
         torch.tensor([1.0]), torch.ones(1), torch.zeros(1,dtype=torch.int32), 0.01, 0, 255, -1)
s    fused_moving_avg_obs_fake_quant  (x(3,4), torch.tensor([1]), torch.tensor([1]), torch.tensor([-1.0]),
         torch.tensor([1.0]), torch.ones(1), torch.zeros(1,dtype=torch.int32), 0.01, 0, 255, -1, False, True)
s    fused_moving_avg_obs_fake_quant  (x(2,8), torch.tensor([1]), torch.tensor([1]), torch.full((2,), -float('inf')),
         torch.full((2,), float('inf')), torch.ones(2), torch.zeros(2,dtype=torch.int32), 0.01, -128, 127, 0, True,
         False)
s    fused_moving_avg_obs_fake_quant  (x(3,4), torch.tensor([1]), torch.tensor([0]), torch.tensor([-1.0]),
         torch.tensor([1.0]), torch.ones(1), torch.zeros(1,dtype=torch.int32), 0.5, 0, 255, -1)
s    fused_moving_avg_obs_fake_quant  (x(3,4), torch.tensor([0]), torch.tensor([1]), torch.tensor([-1.0]),
         torch.tensor([1.0]), torch.ones(1), torch.zeros(1,dtype=torch.int32), 0.5, 0, 15, -1)
f    _choose_qparams_per_tensor  (x(3,4), True)
s    choose_qparams_optimized  (x(9), 8, 20, 0.16, 4)
s    choose_qparams_optimized  (x(9), 9, 50, 0.5, 8)
s    choose_qparams_optimized  (x(2,8), 16, 100, 0.3, 4)
s    choose_qparams_optimized  (x(7), 7, 30, 0.1, 2)
s    choose_qparams_optimized  (p(40), 40, 200, 0.16, 4)
s    choose_qparams_optimized  (x(3,4), 12, 10, 0.9, 2)
s    fbgemm_linear_quantize_weight  (x(3,4))
fi   dequantize.self  (x(3,4))
s    _saturate_weight_to_fp16  (x(3,4) * 3e4)
s    _saturate_weight_to_fp16  (x(3,4).t() * 1e5)
s    _saturate_weight_to_fp16  (x(5) * 7e4)
s    _saturate_weight_to_fp16  (x(9) * float('inf'))
s    _saturate_weight_to_fp16  (x(2,2,2))
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
