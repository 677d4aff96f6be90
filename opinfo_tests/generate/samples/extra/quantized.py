"""Rows for products of low-bit weights, scaled and grouped products, and fake quantization."""

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
"""

# Low-bit weights: values out of range, strided operands, too many scales or groups, sums that overflow before scaling.
FEW = "(ints({0}) * 30 - 60).char()"
WEIGHTS = [
    *(f"f    _weight_int8pack_mm  ({a}, {b}, {s})"
      for a in ("x(3,32)", "x(3,64)[:, :32]", "x(6,32)[::2]", "x(32,3).t()", "x(0,32)", "x(1,32).expand(3,32)")
      for b, s in ((FEW.format("4,32"), "p(4)"), (FEW.format("4,32,2"), "p(4)"), (FEW.format("0,32"), "p(0)"))),
    *(f"f    _weight_int8pack_mm  (torch.full((2,64), {n}).to(x(1).dtype), torch.full((3,64), 127).char(), "
          f"torch.full((3,), {s}).to(x(1).dtype))"
      for n, s in ((100.0, 1e-4), (3.0, 2.0))),
    *(f"-    _convert_weight_to_int4pack_for_cpu  ((torch.arange({rows} * 4, dtype=torch.int32).view({rows}, "
          f"4){change}), 2)"
      for rows in (16, 32, 48, 64, 80)
      for change in (" * 7", " - 9", " * 300")),
    *(f"f    _weight_int4pack_mm_for_cpu  (ints(3,64).to(x(1).dtype), (ints({rows},32) * 77).byte(), 32, "
          f"ints({groups},{rows},2).to(x(1).dtype))"
      for rows in (16, 32, 48, 64, 80)
      for groups in (2, 3)),
    *(f"s    _dyn_quant_matmul_4bit  ({a}, torch.cat([ints(48) * 77.0, p({n})]), 32, 32, 3)"
      for a in ("torch.tensor([127.,-128,0.5,1.5,2.5,-0.5,-1.5,-2.5] * 4).view(1,32)",
          "torch.tensor([127.5,-127.5,0.5,1.5] * 8).view(1,32)", "torch.tensor([1.,-1] * 16).view(1,32)",
          "torch.zeros(1,32)", "torch.tensor([255.,0,0.5,1.5,2.5,3.5,4.5,5.5] * 4).view(1,32)")
      for n in (3, 6)),
    *(f"-    _dyn_quant_matmul_4bit  (torch.full((2,32), {n}, dtype=torch.bfloat16), torch.cat([ints(48) * 77.0, "
          f"torch.full((3,), {scale})]), 32, 32, 3)"
      for n, scale in ((1e30, 1e10), (-1e30, 1e10), (1.7, 0.37), (3e38, 3.0))),
]  # fmt: skip

# Strided scales, a bias per column, results that overflow, empty dimensions, swizzles, strides of groups.
F8 = "torch.float8_e4m3fn"
SCALED = [
    *(f"s    _scaled_mm  (torch.full((4,16), {n}).to({F8}), torch.full((16,5), {n}).to({F8}), {a}, {b}, {bias}, "
          f"{result}, {out})"
      for n in (0.5, 440.0)
      for a, b in (("torch.tensor(1.)", "torch.tensor(1.)"), ("p(4,1)", "p(1,5)"), ("p(4,2)[:, :1]", "p(1,5)"),
          ("p(4,1)", "p(5,1).t()"), ("p(4,1)", "p(1,10)[:, ::2]"))
      for bias, result, out in (("None", "None", "None"), ("None", "torch.tensor(4.)", "None"),
            ("None", "torch.tensor(4.)", F8), ("x(5)", "None", "torch.float32"), ("x(1,5)", "None", "torch.float32"),
            ("x(5,1)", "None", "torch.float32"), ("x(1,1,5)", "None", "torch.float32"),
            ("x(5).double()", "None", "torch.float32"), ("None", "torch.tensor(4.)", "torch.bfloat16"))),
    *(f"s    _scaled_mm_v2  (torch.ones({n},{k}).to({F8}), torch.ones({k},{m}).to({F8}), [{a}], [{kind}], {sa}, "
          f"[{b}], [{kind}], {sb}, None, torch.float32{dims})"
      for n, k, m in ((4, 16, 5), (4, 0, 5), (0, 16, 5))
      for kind, a, b in ((0, "torch.tensor(1.)", "torch.tensor(2.)"), (1, f"p({n},1)", f"p(1,{m})"),
          (1, "p(9,1)", f"p(1,{m})"))
      for sa, sb, dims in (("[0]", "[0]", ""), ("[]", "[]", ""), ("[0,1]", "[0]", ""), ("[1]", "[0]", ""),
            ("[0]", "[0,1]", ""), ("[0]", "[0]", ", [1,0]"), ("[0]", "[0]", ", [0,1]"), ("[0]", "[0]", ", [1]"))),
    *(f"f    _grouped_mm  ({a}, {b}{offs})"
      for a, b, offs in (("x(2,8,12)[..., :8]", "x(2,8,8)", ""), ("x(2,8,20)[..., :8]", "x(2,8,8)", ""),
          ("x(2,8,16)[..., 4:12]", "x(2,8,8)", ""), ("x(2,8,8)", "x(2,8,12)[..., :8]", ""),
          ("x(1,8).expand(8,8)", "x(1,8,8)", ", torch.tensor([8], dtype=torch.int32)"),
          ("x(64).as_strided((8,8),(4,1))", "x(1,8,8)", ", torch.tensor([8], dtype=torch.int32)"),
          ("x(64).as_strided((8,8),(8,1))", "x(1,8,8)", ", torch.tensor([8], dtype=torch.int32)"),
          ("x(99).as_strided((8,8),(1,4))", "x(1,8,8)", ", torch.tensor([8], dtype=torch.int32)"),
        ("x(2,8,8)", "x(2,8,5)", ""), ("x(2,8,8)", "x(2,5,8).mT", ""), ("x(2,3,8)", "x(2,8,8)", ""),
          ("x(8,8)", "x(2,3,8).mT", ", torch.tensor([4,8], dtype=torch.int32)"), ("x(1,1,8)", "x(1,8,8)", ""),
          ("x(2,0,8)", "x(2,8,8)", ""))),
]  # fmt: skip

# Fake quantization of half precision, NaN and infinities, with fractional and out-of-range zero points; choice of
# ranges.
ENDS = "ends({0}).to(x(1).dtype)"
FAKED = [
    *(f"f    {op}  (ends(0.5, 1.5, 2.5, -0.5, 0.3, 1e9, -1e9, 3e30), {scale}, {zero}, {low}, {high})"
      for op in ("fake_quantize_per_tensor_affine", "fake_quantize_per_tensor_affine_cachemask")
      for scale in (1.0, 0.1, 0.3)
      for zero, low, high in ((0, -128, 127), (3, 0, 255), (0, 0, 0))),
    *(f"f    fake_quantize_per_tensor_affine_cachemask  (torch.arange(-40, 40).to(x(1).dtype) * {step}, {scale}, "
          f"0, -128, 127)"
      for step, scale in ((0.05, 0.1), (0.15, 0.3), (0.035, 0.07), (0.005, 0.01))),
    *(f"f    {op}  (ends(0.5, 1.5).reshape(2,4), torch.tensor([1.,0.1]), torch.tensor({zero}), 0, -8, 7)"
      for op in ("fake_quantize_per_channel_affine", "fake_quantize_per_channel_affine_cachemask")
      for zero in ("[0.5,1.5]", "[0.,300.]", "[-2.25,2.5], dtype=torch.float16", "[0,3], dtype=torch.int32",
          "[0,300], dtype=torch.int32", "[0,3]")),
    *(f"f    fake_quantize_per_channel_affine_cachemask  (x(2,3), torch.tensor([1.,0.1]){scale}, "
          f"torch.tensor([0,3], dtype=torch.int32), {axis}, -8, 7)"
      for scale in ("", ".bfloat16()", ".double()")
      for axis in (0, -2, 1, 2, -1)),
    *(f"s    _fake_quantize_learnable_per_tensor_affine{back}  ({grad}ends(0.5, 1.5, 2.5, 0.05, 0.15, 300., "
          f"-300.), torch.tensor([{scale}]), torch.tensor([{zero}]), -8, 7, 0.5)"
      for back, grad in (("", ""), ("_backward", "x(13), "))
      for scale in (1.0, 0.1)
      for zero in (0.5, 1.5, 2.5, -2.5, -3.0, 300.0, -300.0)),
    *(f"s    _fake_quantize_learnable_per_channel_affine{back}  ({grad}ends(0.5, 1.5, 2.5, 0.05, 0.15, "
          f"300.).reshape(2,6), torch.tensor([1.,0.1]), torch.tensor([{zero}]), 0, -8, 7, 0.5)"
      for back, grad in (("", ""), ("_backward", "x(2,6), "))
      for zero in ("0.5,1.5", "2.5,-2.5", "300.,-300.")),
    *(f"s    _fake_quantize_learnable_per_tensor_affine_backward  (x(80), torch.arange(-40., 40) * {step}, "
          f"torch.tensor([{scale}]), torch.tensor([{zero}]), -128, 127, 1.0)"
      for step, scale in ((0.05, 0.1), (0.15, 0.3), (0.035, 0.07))
      for zero in (0.0, 3.0, 2.5)),
    *(f"s    _fake_quantize_learnable_per_channel_affine_backward  (x(2,80), torch.arange(-40., "
          f"40).expand(2,80) * {step}, torch.tensor([{scale},{scale}]), torch.tensor([0.,3.]), 0, -128, 127, 1.0)"
      for step, scale in ((0.05, 0.1), (0.15, 0.3), (0.035, 0.07))),
    *(f"s    {op}  (torch.tensor({values}))"
      for op in ("_choose_qparams_per_tensor", "fbgemm_linear_quantize_weight")
      for values in ("[[1.,-1.]]", "[[0.,0.]]", "[[1e-40,0.]]", "[[3e-39,0.]]", "[[1e-44,-1e-44]]", "[[255.,0.5]]",
          "[[254.5,-0.5]]", "[[127.5,-127.5]]", "[[1e-4,-3e-5]]", "[[3.,5.]]", "[[-3.,-5.]]", "[[3e38,-3e38]]")),
    *(f"s    fbgemm_linear_quantize_weight  (torch.tensor({values}))"
      for values in ("[[float('nan'),1.,-2.]]", "[[1.,float('nan'),-2.]]", "[[1.,2.],[float('nan'),-2.]]",
          "[[float('nan'),float('nan')]]", "[[[1.,2.],[3.,4.]]]")),
    *(f"s    choose_qparams_optimized  (x(40) * {k}, {n}, {bins}, {ratio}, {bits})"
      for k in (1, 0.01, 3000)
      for n, bins, ratio in ((40, 20, 0.5), (7, 200, 0.16), (0, 20, 0.5), (1, 20, 0.5))
      for bits in (2, 4, 8)),
    *(f"s    {op}  ({x}, torch.tensor([{on}]), torch.tensor([{faked}]), torch.tensor([{low}]), "
      f"torch.tensor([{high}]), torch.ones(1), torch.zeros(1, dtype=torch.int32), {rate}, {least}, {most}, {axis}, "
      f"{rows}, {symmetric})"
      for op in ("fused_moving_avg_obs_fake_quant", "_fused_moving_avg_obs_fq_helper")
        for x in ("x(3,4)", "torch.tensor([[1., float('inf')],[2.,3.]])", "torch.tensor([[1., -2.],[2.,3.]])")
        for low, high in (("-1.", "2."), ("float('inf')", "-float('inf')"), ("-float('inf')", "float('inf')"))
      for on, faked, rate, least, most, axis, rows, symmetric in ((1, 1, 0.01, 0, 255, 0, False, False),
            (1, 1, 0.5, -128, 127, -1, False, True), (1, 0, 1.0, 0, 255, 1, False, False),
            (0, 1, 0.5, 0, 15, 0, False, False)) if not (on == 0 and "inf" in low)),
    *(f"s    {op}  (torch.full((2,2), {now}), torch.tensor([1]), torch.tensor([0]), torch.tensor([{old}]), "
          f"torch.tensor([{old}]), torch.ones(1), torch.zeros(1, dtype=torch.int32), 0.5, 0, 255, 0)"
      for op in ("fused_moving_avg_obs_fake_quant", "_fused_moving_avg_obs_fq_helper")
      for now, old in ((3e38, -3e38), (-3e38, 3e38), (1e-45, 3e38))),
    *(f"s    _fused_moving_avg_obs_fq_helper  (x(3,4), torch.tensor([{on}]), torch.tensor([{faked}]), "
          f"torch.zeros({n}), torch.ones({n}), torch.ones({n}), torch.zeros({n}, dtype=torch.int32), 0.1, 0, 255, "
          f"{axis}, True, False)"
      for on in (0, 1)
      for faked in (0, 1)
      for axis, n in ((0, 3), (1, 4), (-2, 3), (1, 3))),
    *(f"s    _saturate_weight_to_fp16  ((x({n}) * 1e5){turn})"
      for n in ("3,4", "2,3,4", "5", "1,2,3,2")
      for turn in ("", ".mT" if "," in n else "")),
]  # fmt: skip

LOW_BIT = "\n".join([*WEIGHTS, *SCALED, *FAKED]) + "\n"
