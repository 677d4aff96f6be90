"""Own rows of products with few bits, of fake quantization and of other ops of the CPU that OpInfo leaves out."""

# As in `own_rows`: dtypes, overload, arguments.
QUANTIZED = """
f    _grouped_mm  (x(16,32), x(2,32,16), torch.tensor([8,16],dtype=torch.int32))
f    _grouped_mm  (x(16,32), x(3,16,32).mT, torch.tensor([8,8,16],dtype=torch.int32))
f    _grouped_mm  (x(2,16,32), x(32,16), torch.tensor([8,16],dtype=torch.int32))
f    _grouped_mm  (x(16,32), x(32,16), torch.tensor([8,32],dtype=torch.int32))
f    _grouped_mm  (x(2,16,32), x(2,32,16))
f    _grouped_mm  (x(16,32), x(32,12), None)
s    _scaled_mm  (x(4,7).to(torch.float8_e4m3fn), x(7,5).to(torch.float8_e4m3fn), torch.tensor(0.5), torch.tensor(2.0), x(5), None, torch.float32)
s    _scaled_mm  (x(4,7).to(torch.float8_e5m2), x(5,7).to(torch.float8_e4m3fn).t(), p(4,1), p(1,5), None, None, torch.bfloat16)
s    _scaled_mm  (x(4,7).to(torch.float8_e5m2), x(7,6), torch.tensor(0.5), torch.tensor(2.0))
s    _scaled_mm_v2  (x(4,7).to(torch.float8_e5m2), x(7,5).to(torch.float8_e4m3fn), [torch.tensor(0.5)], [0], [0], [torch.tensor(2.0)], [0], [0], x(5), torch.float16)
s    _scaled_mm_v2  (x(4,7).to(torch.float8_e5m2), x(7,5).to(torch.float8_e5m2), [p(4,1)], [1], [0], [p(1,5)], [1], [0], None, torch.float32)
-    _int_mm  ((ints(3,5) * 40).char(), (ints(5,4) * -30).char())
-    _int_mm  ((ints(3,5) * 40).char(), (ints(4,5) * -30).char())
f    _weight_int8pack_mm  (x(3,32), (ints(5,32) * 30 - 60).char(), p(5))
-    _convert_weight_to_int4pack_for_cpu  (torch.arange(96 * 8, dtype=torch.int32).view(96, 8) % 16, 2)
f    _weight_int4pack_mm_for_cpu  (x(3,64), (ints(80,32) * 77).byte(), 32, x(2,80,2))
s    _dyn_quant_pack_4bit_weight  ((ints(5,32) * 77).byte(), p(5), x(5), 64, 64, 5)
s    _dyn_quant_matmul_4bit  (x(3,64), torch.cat([ints(160) * 77.0, p(10)]), 32, 64, 5)
"""

# torch has code for these on GPUs only; the table says what they mean.
GPU_ONLY = ("mm.dtype", "bmm.dtype", "addmm.dtype", "baddbmm.dtype", "mm.dtype_out", "bmm.dtype_out", "addmm.dtype_out",
            "baddbmm.dtype_out", "_scaled_grouped_mm")  # fmt: skip
