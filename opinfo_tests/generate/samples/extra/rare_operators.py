"""Rows for operators that OpInfo lacks: gradient, gamma samplers, recurrent cells, Sobol, Philox, some backwards."""

import torch

from torchnp.core.target import parse

RARE = """
fic  gradient.scalarint  (x(4,5), spacing=2)
f    gradient.scalarint  (x(4,5), dim=-1, edge_order=2)
fic  gradient.scalararray  (x(4,5), spacing=1.5, dim=[1,0])
fic  gradient.array  (x(4,5), dim=[0], edge_order=2)
f    gradient.scalarrayint  (x(4,5), spacing=[2,1.5])
f    gradient.scalarrayarray  (x(4,5), spacing=[2,1.5], dim=[1,0], edge_order=2)
f    gradient.tensorarrayint  (x(4,5), spacing=[p(5).cumsum(0)], dim=1)
f    gradient.tensorarrayint  (x(4,5), spacing=[p(4).cumsum(0), p(5).cumsum(0)], edge_order=2)
f    gradient.tensorarrayint  (x(5), spacing=[p(5).cumsum(0)])
fc   gradient.tensorarray  (x(4,5), spacing=[p(4).cumsum(0), p(5).cumsum(0)], dim=[0,1], edge_order=2)
s    _standard_gamma  (p(3,4))
s    _standard_gamma  (p(40).double() / 6, generator=g())
s    _sample_dirichlet  (p(3,4), generator=g())
s    _sample_dirichlet  (p(3,4).double().t())
s    _standard_gamma_grad  (p(3,40), p(3,40))
s    _standard_gamma_grad  (p(40).double() * 9, p(40).double() * 9)
s    _dirichlet_grad  (x(40, low=0.1, high=0.9), p(40), p(40) + 3)
s    _dirichlet_grad  (x(40, low=0.1, high=0.9).double(), p(40).double() * 9, p(40).double() * 9 + 40)
fi   _aminmax  (x(3,4))
fi   _aminmax.dim  (x(3,4), -1, True)
fi   _compute_linear_combination  (x(3,2,4), x(5,3))
fib  hash_tensor  (x(3,4))
fi   hash_tensor  (x(3,4), [1], keepdim=True)
f    _foreach_powsum.Scalar  ([x(3,4), x(5)], 3)
c    _foreach_powsum.Scalar  ([x(3,4), x(5)], 2)
-    _nnpack_available  ()
s    _efficientzerotensor  ([2,3])
s    _efficientzerotensor  ([0])
s    _efficientzerotensor  ([])
s    _efficientzerotensor  ([1,2,1])
s    _efficientzerotensor  ([4], dtype=torch.int64)
s    _efficientzerotensor  ([2,0,3])
s    _efficientzerotensor  ([5], dtype=torch.float64)
s    _efficientzerotensor  ([2,2], dtype=torch.bool)
s    _nnpack_spatial_convolution  (x(1,2,7,7), x(4,2,3,3), x(4), [1,1])
s    _nnpack_spatial_convolution  (x(1,3,6,4), x(2,3,3,3), x(2), [1,1])
s    _nnpack_spatial_convolution  (x(2,2,5,5), x(3,2,3,3), x(3), [1,1])
s    _nnpack_spatial_convolution  (x(1,1,8,8), x(1,1,5,5), x(1), [2,2])
s    _nnpack_spatial_convolution  (x(1,4,9,7), x(5,4,3,3), x(5), [0,0])
s    _nnpack_spatial_convolution  (x(1,2,5,5), x(3,2,3,3), x(3), [1,1])
fc   cumprod_backward  (p(3,4), p(3,4), 1, p(3,4))
f    cumprod_backward  (x(3,4), torch.tensor([[0.,1,2,3],[2,0,3,0],[1,2,4,0]], dtype=x(1).dtype), 1,
         torch.tensor([[0.,0,0,0],[2,0,0,0],[1,2,8,0]], dtype=x(1).dtype))
sc   matrix_exp_backward  (x(2,3,3), x(2,3,3))
s    glu_jvp  (x(3,2), x(3,4), x(3,4), -1)
f    glu_backward_jvp  (x(3,4), x(3,2), x(3,4), x(3,2), x(3,4), 1)
s    _weight_norm_differentiable_backward  (x(3,4), x(3,4), x(3,1), p(3,1), 0)
s    _weight_norm_differentiable_backward  (x(3,4), x(3,4), x(1,4), p(1,4), 1)
s    _batch_norm_impl_index_backward  (0, x(2,3,4), x(2,3,4), p(3), x(3), p(3), x(3), p(3), False, 1e-5,
         [True,True,True], torch.zeros(0, dtype=torch.uint8))
s    _convolution_double_backward  (x(1,2,5,5), x(3,2,3,3), x(3), x(1,3,3,3), x(3,2,3,3), x(1,2,5,5), [1,1], [0,0],
         [1,1], False, [0,0], 1, [True,True,True])
s    _slow_conv2d_backward.grad_input  (x(1,3,3,3), x(1,2,5,5), x(3,2,3,3), [3,3], [1,1], [0,0],
         grad_input=torch.zeros(0), grad_weight=torch.zeros(0), grad_bias=torch.zeros(0))
s    _slow_conv2d_backward.grad_input  (x(2,2,3,3), x(2,3,4,4), x(2,3,2,2), [2,2], [1,1], [0,0],
         grad_input=torch.zeros(0), grad_weight=torch.zeros(0), grad_bias=torch.zeros(0))
s    _slow_conv2d_backward.grad_input  (x(1,1,2,2), x(1,2,3,3), x(1,2,2,2), [2,2], [1,1], [0,0],
         grad_input=torch.zeros(0), grad_weight=torch.zeros(0), grad_bias=torch.zeros(0))
s    _slow_conv2d_backward.grad_input  (x(1,2,4,4), x(1,1,5,5), x(2,1,2,2), [2,2], [1,1], [0,0],
         grad_input=torch.zeros(0), grad_weight=torch.zeros(0), grad_bias=torch.zeros(0))
s    _slow_conv2d_backward.grad_input  (x(3,2,2,2), x(3,1,3,3), x(2,1,2,2), [2,2], [1,1], [0,0],
         grad_input=torch.zeros(0), grad_weight=torch.zeros(0), grad_bias=torch.zeros(0))
s    _slow_conv2d_backward.grad_input  (x(2,3,3,2), x(2,2,5,5), x(3,2,3,3), [3,3], [2,2], [1,0],
         grad_input=torch.zeros(0), grad_weight=torch.zeros(0), grad_bias=torch.zeros(0))
s    _slow_conv2d_backward.grad_input  (x(2,1,5,4), x(2,2,5,5), x(1,2,1,2), [1,2], [1,1], [0,0],
         grad_input=torch.zeros(2,2,5,5), grad_weight=torch.zeros(1,2,1,2), grad_bias=torch.zeros(1))
s    _slow_conv2d_backward.grad_input  (x(1,3,3,3), x(1,2,5,5), x(3,2,3,3), [3,3], [1,1], [0,0],
         grad_input=torch.zeros(2,5), grad_weight=torch.zeros(0), grad_bias=torch.zeros(0))
f    adaptive_avg_pool3d_backward.grad_input  (x(1,3,2,2,2), x(1,3,4,4,4), grad_input=torch.zeros(0,dtype=x(1).dtype))
f    adaptive_avg_pool3d_backward.grad_input  (x(3,2,1,3), x(3,4,5,6), grad_input=torch.zeros(3,4,5,6,dtype=x(1).dtype))
fibc to_dense_backward  (x(3,4), x(3,4))
s    _thnn_differentiable_lstm_cell_backward  (x(2,3), x(2,3), x(2,12), x(2,12), None, None, x(2,3), x(2,3))
s    _thnn_differentiable_lstm_cell_backward  (None, x(2,3), x(2,12), x(2,12), x(12), x(12), x(2,3), x(2,3))
s    _thnn_differentiable_gru_cell_backward  (x(2,3), x(2,9), x(2,9), x(2,3), x(9), x(9))
s    mkldnn_rnn_layer  (x(5,2,4), x(12,4), x(12,3), x(12), x(12), x(2,3), x(2,3), False, [], 2, 3, 1, True, False, False, False)
s    mkldnn_rnn_layer  (x(5,2,4), x(12,4), x(12,3), x(12), x(12), x(1,2,3), x(1,2,3), True, [], 2, 3, 1, True, False, False, False)
-    _sobol_engine_draw  (torch.arange(3), 9, torch.quasirandom.SobolEngine(3).sobolstate, 3, 5, None)
-    _sobol_engine_draw  (torch.arange(3), 2, torch.quasirandom.SobolEngine(3).sobolstate, 3, 0, torch.float64)
-    _sobol_engine_ff_  (torch.arange(3), 9, torch.quasirandom.SobolEngine(3).sobolstate, 3, 5)
-    _sobol_engine_ff_  (torch.arange(3), 0, torch.quasirandom.SobolEngine(3).sobolstate, 3, 5)
-    _sobol_engine_ff_  (torch.arange(3), 1, torch.quasirandom.SobolEngine(3).sobolstate, 3, 0)
-    _sobol_engine_ff_  (torch.arange(1), 64, torch.quasirandom.SobolEngine(1).sobolstate, 1, 3)
-    _sobol_engine_ff_  (torch.arange(7), 5, torch.quasirandom.SobolEngine(7).sobolstate, 7, 1000)
-    _sobol_engine_ff_  (torch.arange(2), 11, torch.quasirandom.SobolEngine(2).sobolstate, 2, 6)
-    _sobol_engine_ff_  (torch.arange(4), 3, torch.quasirandom.SobolEngine(4).sobolstate, 4, 7)
-    _sobol_engine_initialize_state_  (torch.zeros(40,30,dtype=torch.int64), 40)
-    _sobol_engine_initialize_state_  (torch.zeros(1,30,dtype=torch.int64), 1)
-    _sobol_engine_initialize_state_  (torch.zeros(2,30,dtype=torch.float64), 2)
-    _sobol_engine_initialize_state_  (torch.zeros(2,30,dtype=torch.int32), 2)
-    _sobol_engine_initialize_state_  (torch.zeros(2,30,dtype=torch.int64), 2)
-    _sobol_engine_initialize_state_  (torch.zeros(7,30,dtype=torch.int64), 7)
-    _sobol_engine_initialize_state_  (torch.zeros(9,30,dtype=torch.int64), 5)
-    _sobol_engine_initialize_state_  (torch.ones(12,30,dtype=torch.int64), 12)
-    _sobol_engine_initialize_state_  (torch.zeros(100,30,dtype=torch.int64), 100)
-    _sobol_engine_initialize_state_  (torch.zeros(300,30,dtype=torch.int64), 300)
-    _sobol_engine_scramble_  (torch.quasirandom.SobolEngine(4).sobolstate, torch.randint(2,(4,30,30)).tril(), 4)
-    _sobol_engine_scramble_  (torch.quasirandom.SobolEngine(9).sobolstate, torch.randint(2,(9,30,30)).tril(), 9)
-    _sobol_engine_scramble_  (torch.quasirandom.SobolEngine(1).sobolstate, torch.randint(2,(1,30,30)).tril(), 1)
-    _sobol_engine_scramble_  (torch.quasirandom.SobolEngine(7).sobolstate, torch.randint(2,(7,30,30)).tril(), 7)
-    _sobol_engine_scramble_  (torch.quasirandom.SobolEngine(5).sobolstate, torch.randint(2,(5,30,30)), 3)
-    _sobol_engine_scramble_  (torch.quasirandom.SobolEngine(2).sobolstate, torch.zeros(2,30,30,dtype=torch.int64), 2)
-    _sobol_engine_scramble_  (torch.quasirandom.SobolEngine(3).sobolstate, torch.randint(2,(3,30,30)).tril(), 3)
s    _convolution_double_backward  (x(1,2,5,5), x(2,2,2,2), x(2), x(1,2,3,3), x(2,2,2,2), x(1,2,5,5), [2], [1], [1], False, [0], 1, [True,True,True])
s    _standard_gamma  (torch.tensor([0.0, float('nan'), 1.5, 0.5]))
s    _sample_dirichlet  (torch.tensor([[0.0, 1.5, 0.5], [0.0, 0.0, 1.0]]))
"""

# torch 2.14 and later have CPU kernels for these.
PHILOX = """\
-    _philox_key_split  (torch.tensor([1,2],dtype=torch.uint64), 3)
-    _philox_key_split  (torch.tensor([[1,2],[2**63,7]],dtype=torch.uint64), 1)
-    _philox_key_split  (torch.tensor([[[5,2**40]]],dtype=torch.uint64), 40)
-    _philox_key_split  (torch.zeros(0,2,dtype=torch.uint64), 2)
-    _philox_key_fold_in  (torch.tensor([1,2],dtype=torch.uint64), 5)
-    _philox_key_fold_in  (torch.tensor([[1,2],[2**63,7]],dtype=torch.uint64), 2**40)
-    _philox_key_fold_in  (torch.tensor([1,2],dtype=torch.uint64), -1)
-    _philox_key_fold_in.Tensor  (torch.tensor([1,2],dtype=torch.uint64), torch.tensor(5,dtype=torch.uint64))
-    _philox_key_fold_in.Tensor  (torch.tensor([[1,2],[2**63,7]],dtype=torch.uint64), torch.tensor([2**63+5],dtype=torch.uint64))
s    _philox_uniform  (x(7), torch.tensor([1,2],dtype=torch.uint64), -1.5, 2.5)
s    _philox_uniform  (x(3,50).double(), torch.tensor([[1,2]],dtype=torch.uint64), 0, 1)
s    _philox_uniform  (x(3,50).half(), torch.tensor([[1,2],[3,4],[2**63,1]],dtype=torch.uint64).reshape(3,1,2), 0, 1)
s    _philox_uniform  (x(4,5).t().bfloat16(), torch.tensor([1,2],dtype=torch.uint64), 0, 3)
s    _philox_uniform.out  (x(7), torch.tensor([1,2],dtype=torch.uint64), 0, 1, out=x(0))
s    _philox_uniform_  (x(4,5), torch.tensor([1,2**50],dtype=torch.uint64), 0, 1)
s    _philox_uniform_  (x(4,5).t().double(), torch.tensor([1,2**50],dtype=torch.uint64), 0, 1)
s    _philox_normal  (x(7), torch.tensor([1,2],dtype=torch.uint64), -1.5, 2.5)
s    _philox_normal  (x(3,50).double(), torch.tensor([[1,2]],dtype=torch.uint64), 0, 1)
s    _philox_normal  (x(3,50).half(), torch.tensor([[1,2],[3,4],[2**63,1]],dtype=torch.uint64).reshape(3,1,2), 0, 1)
s    _philox_normal.out  (x(7), torch.tensor([1,2],dtype=torch.uint64), 0, 1, out=x(0))
s    _philox_normal_  (x(4,5), torch.tensor([1,2**50],dtype=torch.uint64), 0, 1)
s    _philox_normal_  (x(4,5).t().bfloat16(), torch.tensor([1,2**50],dtype=torch.uint64), 0, 1)
"""

# torch 2.15 and later have these.
PHILOX_RANDINT = """\
i    _philox_randint  (ints(3,7), torch.tensor([1,2],dtype=torch.uint64), -3, 100)
i    _philox_randint  (ints(3,7), torch.tensor([1,2],dtype=torch.uint64))
i    _philox_randint_  (ints(3,7).t(), torch.tensor([[1,2],[3,4],[5,2**63]],dtype=torch.uint64).reshape(1,3,2), 5)
i    _philox_randint.out  (ints(9), torch.tensor([1,2],dtype=torch.uint64), None, 5, out=ints(0))
-    _philox_randint  (torch.zeros(9,dtype=torch.uint64), torch.tensor([1,2],dtype=torch.uint64), 1, None)
-    _philox_randint  (torch.zeros(9,dtype=torch.uint32), torch.tensor([1,2],dtype=torch.uint64), 0, 2**20)
"""

HAS_PHILOX = parse(torch.__version__) >= (2, 14)
HAS_RANDINT = parse(torch.__version__) >= (2, 15)

RARE_OPERATORS = RARE + PHILOX * HAS_PHILOX + PHILOX_RANDINT * HAS_RANDINT
