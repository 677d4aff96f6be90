"""Rows with strided or empty tensors: the strides of the results show by which steps torch computes them."""

_TURNED = "torch.tensor([[3,1],[0,3],[2,0]]).t()"
_INDICES = [
    f"[{one}, {two}]" for one in ("torch.tensor(1)", "torch.tensor([1])") for two in (_TURNED, f"{_TURNED}.int()")
]
_INDICES += [f"[{one}, {_TURNED}]" for one in ("torch.tensor(1).int()", "torch.tensor([[1,2,0]]).int()")]
_ALL = [
    *(f"si   index.Tensor  (x(4,4,2){turned}, {indices})" for indices in _INDICES for turned in ("", ".transpose(0,1)")),
    *(f"s    {op}  (x(0,{n})[:,::2], [None{more}])"
      for op in ("index.Tensor", "_unsafe_index.Tensor")
      for n, more in ((9, ""), (3, ", None"))),
    *(f"s    {op}  (x({size}), [None, torch.tensor({where})])"
      for op in ("index.Tensor", "_unsafe_index.Tensor")
      for size in ("0,0", "0,0,2", "2,0,0")
      for where in ("0", "[0,1]", "[]")),
    *(f"si   {op}  (x({size}), {indices}, {values})"
      for op in ("index_put", "index_put_", "_unsafe_index_put")
      for size, indices in (("3", "[None]"), ("3,2", "[None]"), ("3,2", "[None, None]"))
      for values in ("x(1)", "torch.tensor(1)")),
    *(f"s    take_along_dim  (x({size}), torch.zeros({of}, dtype=torch.int64), {dim})"
      for size, of, dim in (("0,2,0", "3,1,1", 0), ("0,2,3", "3,1,1", 0), ("0,0,3", "1,3,3", 1), ("2,0", "1,4", 1))),
    *(f"sic  inner  ({a}, {b})"
      for a, b in (("x(3,3).t()", "x(3,3)"), ("x(3,3).t()", "x(1,3).expand(3,3)"),
          ("x(3,3,2).permute(2,0,1)", "x(3,6)[:,::2]"), ("x(3,2).t()", "x(1)[0]"),
          ("x(1)[0]", "x(2,3,2).transpose(0,2)"))),
    *(f"sic  trapezoid.dx  (x({size}).permute({order}), dx=0.5, dim={dim})"
      for size, order, dim in (("3,2,2,3", "3,0,2,1", -1), ("3,2,1,1", "3,0,1,2", 0), ("3,4,3,1", "0,2,3,1", 0),
          ("0,1,4,1", "0,1,2,3", -1), ("4,0,1", "0,1,2", 0), ("2,0,0,4", "0,1,2,3", 2), ("0,0", "0,1", 1))),
    *(f"si   gradient.scalarint  (x({size}).permute(0,3,1,2), spacing=2, dim={dim}, edge_order=1)"
      for size in ("3,4,4,2", "1,3,2,2", "3,4,1,3")
      for dim in (0, -2, -3)),
    *(f"w    {op}  (x(4,4,2,3).permute(1,3,2,0), of([0.1,0.5]), {dim}, {keepdim})"
      for op in ("quantile", "nanquantile")
      for dim in (0, 2)
      for keepdim in (True, False)),
    *(f"f    nll_loss_nd  (x({size}), ints({of}).permute(0,2,1) % 2, p(2), {reduction})"
      for size, of in (("3,2,2,3", "3,3,2"),)
      for reduction in (0, 1)),
    *(f"f    {op}  (x(4,8)[:,:0], torch.tensor([1,1,3,1]), torch.tensor([0,3]), False, 0, False, {weights}, False, "
          f"-1)"
      for op in ("_embedding_bag", "_embedding_bag_forward_only")
      for weights in ("x(4)", "None")),
    *(f"f    {op}  (x(4,16)[:,::2][:,:0], torch.tensor([1,1,3,1]), torch.tensor([0,3]), False, 0, False, "
          f"{weights}, False, -1)"
      for op in ("_embedding_bag", "_embedding_bag_forward_only")
      for weights in ("x(4)", "None")),
    "bs   bilinear  (x(0,4,1), x(0,4,4), x(2,1,4), x(2))",
    "b    bilinear  (x(2,3), x(2,4), x(0,3,4), x(0))",
    *(f"bi   addbmm  (x(3,4), x({n},3,0), x({n},0,4), beta={beta}, alpha=-1)" for n in (1, 2) for beta in (0, 1, 2)),
    *(f"w    _ctc_loss_backward  (x(2), x(6,2,4), torch.tensor({labels}), [6,5], {lengths}, x(2), "
          f"x(2,6,{2 * n + 1}), {blank}, {never})"
      for labels, n in (("[[0,2,1],[1,0,0]]", 3), ("[[2,0],[0,1]]", 2))
      for lengths in (f"[{n},{n - 1}]", "[1,0]")
      for blank in (0, 1)
      for never in (True, False)),
    *(f"sib  pow.Tensor_Scalar  (x({n}), {exponent})" for n in (2, 16, 40, 70) for exponent in ("1e-50", "2.9999999999", "1.0000000001")),
    "s    pow.Tensor_Scalar  (x(40,2)[:,0], 3.0000000001)",
]  # fmt: skip

# Two faults at once: overlapping memory, and an error that torch raises before it checks memory.
_ONE_ON = "*(lambda a: ({}))(x(15))"
_ALL += [
    f"bs   sub_.Tensor  {_ONE_ON.format('a[:12], a[1:13]')}".replace("  *", "  (*") + ")",
    *(f"c    {op}  (" + _ONE_ON.format(f"a[:12], {rest}") + ")"
      for op, rest in (("clamp_.Tensor", "a[1:13], a[2:14]"), ("clamp_min_.Tensor", "a[1:13]"),
          ("lt_.Tensor", "a[1:13]"), ("fmod_.Tensor", "a[1:13]"))),
    *(f"b    {op}  (" + _ONE_ON.format("a[:12], a[1:13]") + ")" for op in ("pow_.Tensor", "bitwise_left_shift_.Tensor", "fmod_.Tensor")),
]  # fmt: skip

STREWN = "\n".join(_ALL)
