"""Constraints of fake quantization, low-bit products and assertions.

See `opinfo_tests.generate.constraints.constraint`.
"""

from __future__ import annotations

from typing import Any

from .constraint import C, I, N, Ordered, T, rule

# ---------------------------------------------------------------- what torch reads or writes outside its memory

# Kernels that do not check their arguments: for invalid ones torch crashes or returns arbitrary memory.
UNCHECKED = frozenset(
    ["_weight_int8pack_mm", "_weight_int4pack_mm_for_cpu", "_dyn_quant_matmul_4bit", "_dyn_quant_pack_4bit_weight",
     "_convert_weight_to_int4pack_for_cpu",      "_validate_compressed_sparse_indices",
       "_validate_sparse_csr_tensor_args", "_validate_sparse_csc_tensor_args",
     "_validate_sparse_bsr_tensor_args", "_validate_sparse_bsc_tensor_args", "_validate_sparse_compressed_tensor_args",
     "_validate_sparse_coo_tensor_args", "_jagged_to_padded_dense_forward", "_padded_dense_to_jagged_forward",
     "_fused_moving_avg_obs_fq_helper",
     "_fused_moving_avg_obs_fq_helper_functional", "fused_moving_avg_obs_fake_quant", "choose_qparams_optimized",
     "_scaled_mm", "_scaled_mm_v2", "_scaled_grouped_mm", "_scaled_grouped_mm_v2", "_grouped_mm",
     "_saturate_weight_to_fp16", "_print", "_unpack_dual", "resize_", "resize_as_", "set_", "set", "requires_grad_", "record_stream",
     "_nnpack_spatial_convolution", "rrelu_with_noise.out", "_compute_linear_combination.out", "_cummax_helper",
       "_cummin_helper", "_sobol_engine_ff_", "_sobol_engine_initialize_state_",
     "_sobol_engine_scramble_"]
)  # fmt: skip

# ---------------------------------------------------------------- fake quantization

_SCALE, _LIMITS = T("1", "float32", "positive"), {"quant_min": C((-128, -8, 0)), "quant_max": C((127, 7, 255))}

_TRUSTED: dict[str, Any] = {"wild": 0, "mixed": 0}

ROWS = (
    rule("_int_mm", args={"self": T("n k", "int8"), "mat2": T("k m", "int8")}),
    rule("_sparse_mm", args={"sparse": T("n k"), "dense": T("k m", "same")}, dtypes="inexact", mixed=3),
    rule("_sparse_addmm", args={"self": T("~n ~m"), "mat1": T("n k", "same"), "mat2": T("k m", "same")},
         dtypes="inexact", mixed=3),
    rule("*fake_quantize_per_tensor* _fake_quantize_learnable_per_tensor*", dtypes="float", args={
        **_LIMITS, "scale": N((0.02, 0.1, 1.5)), "zero_point": I(0, 5)}),
    rule("fake_quantize_per_tensor_affine.tensor_qparams _fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
         args={"scale": _SCALE, "zero_point": T("1", "int32", (0, 5)), "fake_quant_enabled": T("1", "int64", (0, 2))}),
    rule("fake_quantize_per_channel_affine fake_quantize_per_channel_affine_cachemask", dtypes="float", args={
        **_LIMITS, "self": T("n c m?"), "scale": T("c", "float32", "positive"), "zero_point": T("c", "int32", (0, 5)),
        "axis": C((1,))}),
    rule("_fake_quantize_learnable_per_tensor_affine*", args={"scale": _SCALE, "zero_point": T("1", "float32")}),
    rule("_fake_quantize_learnable_per_channel_affine*", dtypes="float", args={
        **_LIMITS, "self": T("n c m?"), "grad": T("n c m?", "same"), "scale": T("c", "float32", "positive"),
        "zero_point": T("c", "float32"), "axis": C((1,))}),
    rule("_fake_quantize_learnable_*_backward", dtypes="float", args={"self": T("n c m?", "float32"),
         "grad": T("n c m?", "float32")}),
    rule("fake_quantize_*_backward", args={"mask": T("like", "bool")}),
    rule("_nested_tensor_from_mask_left_aligned", args={"t": T("n c m"), "mask": T("n c", "bool")}),
    rule("_compute_linear_combination", args={"input": T("k n m?"), "coefficients": T("o k", "same")}, dtypes="inexact",
         mixed=0, wild=0),  # for coefficients of another shape torch reads out of bounds
    rule("_convert_indices_from_coo_to_csr", args={"self": Ordered(T("k", "main", (0, "n-1"), layout="c")), "size": I("n", "n")},
         dtypes="index", **_TRUSTED),
    rule("_convert_indices_from_csr_to_coo", args={"crow_indices": Ordered(T("n+1", "main", (0, "k"), layout="c"), "k"),
         "col_indices": T("k", "same", (0, "m"), layout="c")}, dtypes="index", **_TRUSTED),
    rule("_nested_compute_contiguous_strides_offsets", args={"nested_size": T("n m", "int64", (1, 4), layout="c")},
         **_TRUSTED),
    # torch's search compares errors, so NaN ends it at any step. It takes n_bins * ratio steps, and never ends if that
    # is negative.
    rule("choose_qparams_optimized", values="tame",
         dies=lambda case: case.args[3] > 0 and not 0 <= case.args[2] * case.args[3] <= 1000),
    rule("_test_optional_*intlist", args={"values": T("n", "int32")}),
    rule("_test_optional_floatlist", args={"values": T("n", "float32")}),
)  # fmt: skip
