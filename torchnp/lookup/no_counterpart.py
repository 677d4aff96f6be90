"""The reasons why operators have no counterpart in NumPy or SciPy, and no short equivalent there.

A group consists of a reason and the operators to which it applies, as globs of ``family/name`` (``rnn/*``,
``*/cudnn_*``). Each row without ``like=`` needs a call in ``data/equivalents.toml`` or a line here.
"""

from __future__ import annotations

import fnmatch

from torchnp.lookup import op_index

GROUPS = (
    ("is a prim: what aten's operators are made of in torch, and these have the counterparts", "prims.*/*"),
    (
        "asks how a tensor is kept or was made: its memory, its device or its place in autograd",
        "shape/* set_storage/* view/* view_dtype/* slicing/* copy/* assertions/*",
    ),
    (
        "is one of torch's names for a library or a device, whose work another operator does here",
        "*/cudnn_* */miopen_* */mkldnn_* */mps_* */thnn_* */fbgemm_* */to_mkldnn* */*_overrideable accelerators/*",
    ),
    (
        "is a formula of gradients, which NumPy does not compute",
        "backward.*/* */*_backward* */*_grad */_amp_* optim/* */cummaxmin_backward */glu_jvp",
    ),
    ("is a part of another operator, and no function that programs call", "*/_* */*_forward */*_helper* */linalg__*"),
    (
        "is a layer of neural networks, which are several lines in NumPy",
        "activation/* attention/* batchnorm/* conv/* dropout/* embedding/* fold/* grid/* normalization/* pool/* "
        "pool_adaptive/* rearrange/* resample/* rnn/* softmax/* */conv_depthwise3d tensor_products/bilinear",
    ),
    ("is a loss, which is a line or some in NumPy", "loss/* nll/* ctc/*"),
    ("simulates numbers of few bits", "fake_quantize/* quantized_matmul/* scaled_matmul/*"),
    (
        "is a product and a sum in one call, which NumPy writes as two",
        "matmul/add*",
    ),
    (
        "gives or takes a factorization in LAPACK's packed form, which SciPy wraps differently",
        "qr_svd_eigh/* ldl/* lu/* cholesky_triangular/*",
    ),
    ("is a Fourier transform that SciPy alone has, of several dimensions or of windows", "fft/* stft/*"),
    (
        "is a polynomial; scipy.special has some by other names (eval_chebyu, eval_sh_chebyt, eval_sh_chebyu)",
        "polynomial/*",
    ),
    ("joins or cuts sequences of unlike lengths", "sequence/*"),
    ("makes one number of all bits of a tensor", "hash_tensor/*"),
    ("takes the norms along all dimensions but one", "vectornorm/norm_except_dim"),
    ("scales slices down to a largest norm, which takes several lines in NumPy", "vectornorm/renorm*"),
    ("leaves out slices that repeat the one before", "unique/unique_dim_consecutive"),
)


def reason(op: str) -> str:
    """Return why an operator (``aten::lstm``) has no counterpart; "" if it has one, or if no group covers it."""
    bodies = op_index.bodies(op)
    if not bodies or any(body.like for body in bodies):
        return ""
    place = f"{bodies[0].family}/{op.partition('::')[2]}"
    return next((why for why, globs in GROUPS if any(fnmatch.fnmatchcase(place, g) for g in globs.split())), "")
