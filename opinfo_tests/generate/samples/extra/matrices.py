"""Rows for matrices, FFTs, quantized products and conversions, on which a wrong kernel differs from torch."""

INF, NAN = "float('inf')", "float('nan')"
OTHERS = (".half()", ".bfloat16()", ".double()", ".to(torch.complex64)", ".int()")

# Errors for one or several failed matrices, with codes of either sign; singular matrices in a batch.
FAILED = "torch.tensor([[1.,2.],[2.,4.]], dtype=x(1).dtype)"
BATCH = f"torch.stack([torch.eye(2, dtype=x(1).dtype), torch.zeros(2,2, dtype=x(1).dtype) , {FAILED}, torch.zeros(2,2, dtype=x(1).dtype)])"
LAST = f"torch.stack([torch.eye(2, dtype=x(1).dtype), {FAILED}, torch.zeros(2,2, dtype=x(1).dtype)])"
FAILURES = [
    *(f"-    _linalg_check_errors  (torch.tensor({info}, dtype=torch.int32), '{name}', is_matrix={single})"
      for info, single in (("0", True), ("2", True), ("-3", True), ("[0,0]", False), ("[0,2,1]", False),
            ("[0,1,7]", False), ("[0,-4]", False), ("[[0,0],[3,1]]", False))
      for name in ("torch.linalg.inv", "torch.linalg.solve", "torch.linalg.cholesky", "torch.linalg.eig",
            "torch.linalg.svd", "torch.linalg.lstsq", "torch.linalg.lu_factor", "torch.linalg.ldl_factor", "bogus")),
    *(f"sc   {op}  ({a}{rest})"
      for op, rest in (("linalg_inv", ""), ("linalg_inv_ex", ""), ("linalg_inv_ex", ", check_errors=True"),
            ("linalg_lu_factor", ""), ("linalg_lu_factor_ex", ", check_errors=True"),
                       ("linalg_lu", ""), ("_lu_with_info", ", True, True"), ("_lu_with_info", ", True, False"),
                         ("linalg_ldl_factor", ""), ("linalg_ldl_factor_ex", ", check_errors=True"),
                         ("linalg_cholesky", ""),
                       ("_linalg_det", ""), ("_linalg_slogdet", ""), ("logdet", ""), ("linalg_solve_ex", ", x(3,2,1)"),
                         ("linalg_solve_ex", ", x(3,2,1), check_errors=True"), ("linalg_solve", ", x(2,1)"))
      for a in (LAST, FAILED)),
]  # fmt: skip

# Hand-written packed factors and pivots: cycles of three rows, non-square factors, pivots of dtypes that torch does not
# read.
UNPACKED = [
    *(f"sc   lu_unpack  (x({sizes}), torch.tensor({pivots}, dtype=torch.int32))"
      for sizes, pivots in (("3,3", "[2,3,3]"), ("3,3", "[3,3,3]"), ("2,3", "[2,2,1]"), ("2,3", "[1,2,2]"),
            ("3,2", "[2,3,1]"), ("2,2,2", "[[1,2,2],[2,2,1]]"))),
    *(f"sc   lu_unpack  (x(2,3,3), {pivots}, {data}, {rows})"
      for pivots in ("ints(2,3)", "torch.ones(2,3)", "torch.tensor([[2,3,3],[1,2,3]], dtype=torch.int32)")
        for data, rows in (("True", "False"), ("False", "True"), ("False", "False"))),
    *(f"sc   {op}  (torch.tensor([[0.,1,0],[0,0,1],[1,0,0]], dtype=x(1).dtype) + torch.eye(3, dtype=x(1).dtype) / 9)"
      for op in ("linalg_lu", "linalg_lu_factor", "_linalg_det", "_linalg_slogdet")),
    *(f"sc   {op}  (x({sizes}), pivot={pivot})"
      for op in ("linalg_lu", "linalg_lu_factor", "linalg_lu_factor_ex")
      for sizes in ("0,0", "2,0,3", "0,2,2", "3,0")
      for pivot in (False, True)),
    *(f"sc   {op}  (x(2,3,3){laid})"
      for op in ("_linalg_det", "_linalg_slogdet", "linalg_lu_factor", "linalg_inv", "linalg_ldl_factor")
      for laid in ("", ".mT", ".mT.contiguous().mT", "[:,:2,:2]", ".expand(2,3,3)[:1]")),
    *(f"s    {op}  (torch.diag(torch.tensor([1., {value}, -2.])))"
      for op in ("_linalg_det", "_linalg_slogdet", "slogdet", "logdet")
      for value in ("0.", "-0.", INF, f"-{INF}")),
]  # fmt: skip

# Outs that overlap the factored matrix, shifted by a row or column: refused where LAPACK works in the out.
ROOM, COUNTS = "torch.zeros(3,3)", "torch.zeros(3, dtype=torch.int32)"
BESIDE = [
    f"s    {op}  (**(lambda m: {{{{'A': m[0:3]{turn}, {outs}}}}})(x(5,3)))".format(f"m[{start}:{start + 3}]{turn}")
    for op, outs in (
        ("linalg_lu_factor.out", f"'LU': {{0}}, 'pivots': {COUNTS}"),
          ("linalg_lu_factor_ex.out", f"'LU': {{0}}, 'pivots': {COUNTS}, 'info': torch.zeros((), dtype=torch.int32)"),
        *(("linalg_lu.out", ", ".join(f"'{name}': {'{0}' if name == own else ROOM}" for name in "PLU")) for own in "PLU"),
        *((op, f"'{first}': {one}, {more}'LU': {two}, 'pivots': {COUNTS}")
          for op, first, more in (("_linalg_det.result", "result", ""),
              ("_linalg_slogdet.sign", "sign", "'logabsdet': torch.zeros(()), "))
          for one, two in (("torch.zeros(())", "{0}"),)),
    )
    for start in (0, 1) for turn in ("", ".mT")
]  # fmt: skip

# Linear systems: either side, vectors in batches, adjoints of complex factors, right-hand sides without columns,
# batches that do not fit.
TURNED = "torch.tensor([[1.,2,1],[3,1,1],[1,1,4]], dtype=x(1).dtype)"
PACKED = "torch.linalg.lu_factor(x({0}) + 4 * torch.eye(3))"
SOLVED = [
    *(f"sc   {op}  (4 * torch.eye(2) + x({a}) / 4, x({b}), left={left})"
      for op in ("linalg_solve", "linalg_solve_ex", "_linalg_solve_ex")
      for a, b, left in (("2,2", "2", True), ("3,2,2", "2", True), ("3,2,2", "3,2", True), ("3,2,2", "2,3", True),
            ("3,2,2", "2,2", True), ("2,2,2", "2,2", True), ("3,1,2,2", "4,2,1", True), ("2,2", "3,2,2", True),
                         ("2,2", "3,2,2", False), ("2,2", "3,2", False), ("3,2,2", "3,2", False),
                           ("3,2,2", "1,2,2", False), ("2,2", "2,0", True))),
    *(f"sc   linalg_lu_solve  (*torch.linalg.lu_factor(x({a}) + 4 * torch.eye(3)), x({b}), left={left}, adjoint={adjoint})"
      for (a, b) in (("3,3", "3,3"), ("2,3,3", "3,3"), ("3,3", "2,3,3")) for left in (True, False) for adjoint in (True, False)),
    *(f"s    linalg_lu_solve  (x({a}){cast}, torch.full(({p},), {n}, dtype=torch.int32), x({b}){cast})"
      for cast in ("", ".half()")
        for a, p, b in (("2,3,3", "2,3", "3,3,1"), ("3,3", "3", "3,0"), ("0,3,3", "0,3", "2,3,1"))
        for n in (0, 1)),
    *(f"s    linalg_solve.out  (**(lambda m: {{'A': 2 * torch.eye(3), 'B': m[0:3]{cut}{turn}, 'left': {left}, "
      f"'out': m[{start}:{start}+3]{cut}{turn}}})(x(5,3)))"
      for start in (0, 1) for cut in ("", "[:,:2]") for turn in ("", ".mT") for left in (True, False)),
]  # fmt: skip

# Hand-written LDL factors: 2x2 blocks, row exchanges, Hermitian factors, pivots at the limits of their dtypes.
LDL = [
    *(f"{kinds}   linalg_ldl_solve  (x(3,3), torch.tensor({pivots}, dtype=torch.{dtype}), x(3,{n}), hermitian={hermitian})"
      for kinds in ("s", "c")
        for pivots in ("[1,2,3]", "[3,3,3]", "[-2,-2,3]", "[-3,-3,3]", "[1,-3,-3]", "[2,-3,-3]")
        for n, dtype in ((2, "int32"), (1, "int64"))
        for hermitian in (True, False)),
    *(f"s    linalg_ldl_solve  (x(3,3), torch.tensor({pivots}, dtype=torch.{dtype}), x(3,{n}))"
      for n in (0, 2)
        for pivots, dtype in (("[1,2,3]", "uint8"), ("[1,2,3]", "uint16"), ("[0,2,3]", "int32"), ("[1,2,9]", "int32"),
            ("[1,2,-128]", "int8"), ("[1,2,-2**31]", "int32"), ("[1,2,-2**63]", "int64"), ("[1,2,3]", "bool"),
            ("[1.,2,3]", "float32"))),
    *(f"sc   {op}  (x(2,3,3){cast}, hermitian={hermitian})"
      for op in ("linalg_ldl_factor", "linalg_ldl_factor_ex")
      for hermitian in (True, False)
      for cast in ("", " + x(2,3,3).mT")),
    *(f"-    {op}  (torch.ones(2,2).to(torch.{dtype}))"
      for op in ("linalg_ldl_factor", "linalg_ldl_factor_ex")
      for dtype in ("float16", "bfloat16", "float8_e5m2", "float8_e4m3fn", "complex32", "int64")),
]  # fmt: skip

# Least squares: one matrix for several right-hand sides, batches that are partly rank-deficient, tolerances at their
# limits, NaN.
DRIVERS = ("'gels'", "'gelsd'", "'gelss'")
DEFICIENT = "torch.stack([torch.eye(3,2), torch.ones(3,2)]).to(x(1).dtype)"
SQUARES = [
    *(f"sc   linalg_lstsq  (x({a}), x({b}), driver={driver})" for driver in DRIVERS
      for a, b in (("4,2", "4,2"), ("4,2", "4"), ("3,4,2", "3,4"), ("2,4,2", "3,2,4,1"), ("1,4,2", "3,4,1"),
            ("4,4,2", "4,1"), ("4,2,2", "4,2"), ("2,2,2", "2,2"), ("2,3", "2,1"), ("0,3", "0,2"))),
    *(f"s    linalg_lstsq  ({a}, {b}, {rcond}, driver={driver})" for driver in ("'gelsd'", "'gelss'")
      for a, b in ((DEFICIENT, "x(2,3,1)"), (f"{DEFICIENT}[:,None]", "x(2,4,3,1)"),
            ("torch.diag(torch.tensor([1., 5e-7, 1e-7]))[:, :3]", "x(3,1)"),
            ("torch.cat([torch.diag(torch.tensor([1., 4e-7])), torch.zeros(6,2)])", "x(8,1)"))
      for rcond in ("None", "0.5")),
    *(f"s    linalg_lstsq  ({a}, {b}, driver={driver})"
      for driver in DRIVERS
      for a, b in ((f"torch.full((3,2), {NAN})", "x(3,1)"), ("x(3,2)", f"torch.full((3,1), {NAN})"),
          (f"torch.full((3,2), {NAN})", f"torch.full((3,1), {NAN})"),
          (f"torch.stack([torch.eye(3,2), torch.full((3,2), {NAN})])", "x(2,3,1)"))),
    *(f"s    linalg_lstsq  (torch.eye(3,2), torch.tensor([[{INF}],[2.],[3.]]), driver={driver})" for driver in DRIVERS),
    *(f"-    linalg_lstsq  (torch.ones(3,2).to(torch.{dtype}), torch.ones(3,1).to(torch.{dtype}), {rcond}, "
          f"driver={driver})"
      for dtype in ("float16", "bfloat16", "int64", "complex32")
      for rcond in ("None", "0.5")
      for driver in ("'gels'", "'gelsd'")),
]  # fmt: skip

# Empty products, and products of single numbers: their dtypes, the effect of beta, and what torch refuses even then.
EMPTY = (
    ("mm", "2,0", "0,3"),
    ("mm", "0,2", "2,3"),
    ("bmm", "2,0,3", "2,3,4"),
    ("bmm", "0,2,3", "0,3,4"),
    ("matmul", "2,0", "0,3"),
    ("matmul", "3,2,0", "0,3"),
    ("mv", "2,0", "0"),
    ("mv", "0,2", "2"),
    ("dot", "0", "0"),
    ("vdot", "0", "0"),
    ("matmul", "2,0,3", "3,0"),
    ("inner", "2,0", "3,0"),
)
NOTHING = [
    *(f"-    {op}  (torch.zeros({a}).to(torch.{one}), torch.zeros({b}).to(torch.{two}))" for op, a, b in EMPTY
      for one, two in (("bool", "bool"), ("uint16", "uint16"), ("complex32", "complex32"),
            ("float8_e5m2", "float8_e5m2"), ("float32", "float64"), ("int64", "int32"), ("float16", "bool"))),
    *(f"fi   {op}  ({given}, beta={beta})" for op, given in (
        ("addmm", "x(2,3), x(2,0), x(0,3)"), ("addmm", "x(3), x(2,0), x(0,3)"), ("addmm", "x(), x(2,0), x(0,3)"),
          ("addmm", "x(0,3), x(0,2), x(2,3)"), ("baddbmm", "x(2,2,3), x(2,2,0), x(2,0,3)"),
          ("baddbmm", "x(1,1,3), x(2,2,0), x(2,0,3)"),
        ("baddbmm", "x(2,2,3), x(2,2,0), x(2,0,3).double()"), ("addbmm", "x(2,3), x(0,2,4), x(0,4,3)"),
          ("addbmm", "x(2,3), x(2,2,0), x(2,0,3)"), ("addbmm", "x(0,3), x(0,0,4), x(0,4,3)"),
          ("addbmm", "x(3), x(0,2,4), x(0,4,3)"),
        ("addmv", "x(2), x(2,0), x(0)"), ("addmv", "x(1), x(2,0), x(0)"), ("addmv", "x(), x(2,0), x(0)"),
              ("addmv", "x(0), x(0,2), x(2)"), ("_addmm_activation", "x(3), x(2,0), x(0,3)"))
          for beta in (0, 2, 1.5, 2**40)),
    *(f"fc   {op}  ({given})"
      for op, given in (("mm", "ends().reshape(6,1), torch.tensor([[0.,1.,-2.]]).to(x(1).dtype)"),
          ("mm", "torch.zeros(1,1).to(x(1).dtype), ends().reshape(1,6)"),
          ("mm", "ends().reshape(6,1), torch.zeros(1,1).to(x(1).dtype)"),
          ("matmul", "ends().reshape(6,1), torch.zeros(1,2).to(x(1).dtype)"),
          ("outer", "ends(), torch.tensor([0.,1.,-2.]).to(x(1).dtype)"))),
    *(f"fi   outer  (x({a}), x({b}){cast})"
      for a, b in (("0", "3"), ("3", "0"), ("1", "0"), ("0", "0"), ("0", "1"))
      for cast in ("", ".double()")),
]  # fmt: skip

# Tensors added to products: values beyond the dtype's range, rounding after each matrix, and the order of errors for
# several wrong dtypes.
FULL = "torch.full(({0},), {1}).to(x(1).dtype)"
ADDED = [
    *(f"f    addbmm  (torch.full((2,3), {base}).to(x(1).dtype), torch.ones({n},2,1).to(x(1).dtype), "
          f"torch.ones({n},1,3).to(x(1).dtype), beta={beta}, alpha={alpha})"
      for base, n in ((256.0, 200), (2048.0, 200))
      for beta, alpha in ((1, 1), (0.5, 0.5))),
    *(f"fi   {op}  ({given}, beta={beta}, alpha={alpha})"
      for op, given in (("addmm", "x(2,2), x(2,2), x(2,2)"), ("addmm", "x(2,2), x(2,2), x(2,2).int()"),
          ("baddbmm", "x(1,2,2), x(1,2,2), x(1,2,2)"), ("baddbmm", "x(1,2,2), x(1,2,2), x(1,2,2).int()"),
        ("addbmm", "x(2,2), x(1,2,2), x(1,2,2)"), ("addmv", "x(2), x(2,2), x(2)"),
              ("addmv", "x(2), x(2,2), x(2).int()"), ("addr", "x(2,2), x(2), x(2)"),
              ("_addmm_activation", "x(2), x(2,2), x(2,2)"))
          for beta, alpha in ((1, 1e5), (1e5, 1), (1, 1e300), (1e300, 1), (1, 2**70), (1, 300), (-1, -1))),
    *(f"f    {op}  ({a}, {b}, {c})"
      for op, sizes in (("addmm", ("2,2", "2,2", "2,2")), ("addmv", ("2", "2,2", "2")),
          ("addbmm", ("2,2", "1,2,2", "1,2,2")))
      for a, b, c in (
        [[f"x({n}){cast}" for n, cast in zip(sizes, casts, strict=True)]
          for casts in ((".int()", ".bool()", ""), (".bool()", ".int()", ""), ("", ".int()", ".bool()"),
              ("", "", ".int()"))])),
    *(f"c    _addmm_activation  (x(2), x(3,4), x(4,2), use_gelu={gelu})" for gelu in (True, False)),
    *(f"-    {op}  (torch.ones(2).to(torch.{dtype}), torch.ones(2).to(torch.{dtype}))"
      for op in ("dot", "vdot", "outer", "inner")
      for dtype in ("complex32", "bool", "uint16", "float8_e5m2")),
    *(f"b    addr  (m(2,3), m(2), m(3), beta={beta}, alpha={alpha})" for beta in (True, False, 0, 2) for alpha in (True, False, 0, 2)),
    *(f"f    addr  (x(2,2), {FULL.format(2, 300.0)}, {FULL.format(2, n)}, alpha={alpha})"
      for n, alpha in ((300.0, 0.01), (3e-5, 1e-4), (300.0, 300))),
    *(f"-    addr  (torch.ones(2,2).to(torch.{dtype}), torch.ones(2).to(torch.{dtype}), "
          f"torch.ones(2).to(torch.{dtype}))"
      for dtype in ("complex32", "uint16", "float8_e5m2", "bool")),
    *(f"s    addr_  ({self}, x(2), x(3){cast})"
      for self in ("torch.ones(1,3,dtype=torch.int64).expand(2,3)", "torch.ones(2,3,dtype=torch.int64)",
          "x(1,3).expand(2,3)", "m(2,3)")
      for cast in ("", ".double()", ".to(torch.complex64)")),
    *(f"s    mv.out  (x({a}), x({b}), out=torch.zeros({out}))"
      for a, b in (("3,2", "2"), ("3,2", "4"), ("1,2", "2"))
      for out in ("1", "()", "3", "2", "3,1", "0", "3, dtype=torch.float64", "1, dtype=torch.int64")),
    *(f"s    mv  (x(3,2){a}, x(2){b})" for a in OTHERS for b in OTHERS if a != b),
]  # fmt: skip

# Products of any shape: two misfits at once, rows that do not fold, vectors with batches, outs that share memory.
SHAPES = [
    *(f"s    matmul  (x({a}){turn}, x({b}){cast})"
      for a, b in (("4,3,2", "5"), ("4,3,2", "5,2"), ("3", "2,3,4"), ("3", "2,5,4"), ("3", "2,0,4"),
          ("2,3,3,4", "4,5,4,2"), ("2,1,3,4", "3,5,4,2"), ("3,4", "5,4,2"), ("3,4", "5,6,2"), ("0,3,2", "2,5"),
          ("3,0,2", "2,5"))
      for turn in ("", ".transpose(0,-2)") if "," in a or not turn
      for cast in ("", ".int()")),
    *(f"s    matmul  (x(3), x({b}){turn})"
      for b in ("2,3,3", "2,4,3,3", "1,3,3", "2,1,3,3")
      for turn in ("", ".mT", ".transpose(0,-2)", ".transpose(0,-1)") if "2,3,3" not in b or "transpose" not in turn),
    *(f"s    matmul.out  (x({a}), x({b}), out={out})"
      for a, b, n in (("3", "2,3,4", "2,4"), ("3", "3,4", "4"), ("2,3", "3", "2"), ("2,5,3", "3", "2,5"),
          ("2,3", "3,4", "2,4"), ("2,5,3", "3,4", "2,5,4"), ("2,5,3", "2,3,4", "2,5,4"),
          ("1,2,5,3", "2,3,4", "1,2,5,4"), ("3", "3", "1"))
      for out in (f"torch.zeros({n.split(',')[-1]}).expand({n})", f"torch.zeros({n}, dtype=torch.float64)",
            f"torch.zeros({n}, dtype=torch.int64)", f"torch.zeros({n},2)[...,0]", "torch.zeros(7)",
            "torch.zeros(7, dtype=torch.float64)")),
    *(f"f    linear  ({x}, x(4,3), {bias})"
      for x in ("x(2,3)", "x(2,5,3)", "x(5,2,3).transpose(0,1)", "x(3)", "x(0,3)")
      for bias in ("x(4)", "x(1,4)", "x(8)[::2]", "x(4,1)", "x(5,4)", "x()", "x(1)", "x(4).double()", "x(1,4).double()",
          "x(8)[::2].double()", "x(1).expand(4)", "x(1,4).int()")),
    *(f"fib  {op}  (x({a}){one}, x({b}), [{i}], [{j}])"
      for op in ("tensordot",)
      for a, b, i, j in (("2,1", "3,2", 1, 0), ("3,2", "1,4", 1, 0), ("1", "3", 0, 0), ("3", "1", -1, 0),
          ("3", "3", 0, 0), ("3,1", "3,1", 0, 0), ("1,3", "4,3", 1, 1), ("0", "1", 0, 0), ("1", "0", 0, 0))
      for one in ("", "[..., ::1]")),
    *(f"{kinds}   {op}  ({a}, {b}{rest})"
      for kinds in ("fib", "c")
      for op, rest in (("tensordot", ", [0], [0]"), ("inner", ""))
      for a, b in (("x(6)[::2]", "x(3)"), ("x(3)", "x(1).expand(3)"), ("x(6)[::2]", "x(6)[1::2]"))),
    *(f"f    {op}  ({FULL.format('1,2', 300.0)}, torch.tensor([[300.,-300.]]).to(x(1).dtype){rest})"
      for op, rest in (("linalg_vecdot", ""), ("inner", ""), ("linalg_vecdot", ", dim=1"), ("cosine_similarity", ""))),
    *(f"fc   linalg_vecdot  (x({a}), x({b}), dim={dim})"
      for a, b in (("3", "3"), ("3", "1"), ("2,3", "3"), ("1", "3"))
      for dim in (0, -1, 1, -2, 5)),
    "f    linalg_cross  (torch.tensor([300.,301.,2.]).to(x(1).dtype), torch.tensor([300.,301.,3.]).to(x(1).dtype))",
    *(f"fi   {op}  (x({a}), x({b}){rest})"
      for op, rest in (("cross", ""), ("linalg_cross", ""), ("linalg_cross", ", dim=0"))
      for a, b in (("3,3", "1,3"), ("1,3", "3,3"), ("2,3", "3"), ("3,1", "3,4"), ("2,3", "1,3"), ("3,2,3", "1,2,3"),
          ("0,3", "1,3"), ("3,0", "3,1"))),
    *(f"b    trace  (m({n}))" for n in ("2,2", "3", "2,2,2", "0,0", "1,0")),
    *(f"f    bilinear  (x({a}), x({b}), x({w}){bias})"
      for bias in ("", ", x(4)", ", x(4).double()", ", x(1)")
      for a, b, w in (("2,0", "2,3", "4,0,3"), ("2,3", "2,0", "4,3,0"), ("0,3", "0,2", "4,3,2"), ("3", "2", "4,3,2"),
          ("2,5,3", "2,5,2", "4,3,2"))),
    *(f"f    chain_matmul  ([x(2,3){turn}])" for turn in ("", ".mT", "[:, ::2]", ".expand(2,3)")),
]  # fmt: skip

# Equations whose sizes or letters do not fit, ellipses of different widths, unusual contraction paths, mixed dtypes.
EQUATIONS = [
    *(f"s    einsum  ('{equation}', [{', '.join(f'x({n})' for n in sizes)}])" for equation, *sizes in (
        ("i,i,i", "3", "1", "4"), ("i,i,i->i", "1", "3", "1"), ("i,i,i", "4", "1", "4"), ("é,é", "3", "3"),
          ("é->é", "3"), ("...i,...i->...", "2,4,3", "4,3"), ("...i,...i", "4,3", "2,4,3"),
          ("i...,i...->...", "3,4", "3,2,4"), ("...,...->...", "4", "2,4"),
        ("...ij,...jk->...ik", "5,2,3", "3,4"), ("aB,Bc", "2,3", "3,4"), ("bA,cB", "2,3", "4,5"),
          ("Ab,aB", "2,3", "4,5"), ("ab,cb->ca", "2,3", "4,3"), ("ab,bc->ca", "2,3", "3,4"),
          ("bca,db->cad", "2,3,4", "5,2"), ("acb,bd->dca", "2,3,4", "4,5"), ("abd,cbd->acd", "2,3,4", "5,3,4"),
          ("dab,dcb->cda", "2,3,4", "2,5,4"))),
    *(f"fi   einsum  ('ij,jk,kl', [x(2,3), x(3,4), x(4,2)], path={path})"
      for path in ([0, 1, 0, 1], [1, 2, 0, 1], [2, 0, 1, 0], [-1, 0, 0, 1], [0, -1, 0, 1], [-2, -1, 0, 1], [0, 3, 0, 1],
          [0, 0, 0, 1], [0, 1], [0, 1, 0, 2])),
    *(f"s    einsum  ('{equation}', [{one}, {two}])"
      for equation in ("ij,ij->ij", "ij,ij->ji", "ij,ij")
      for one in ("x(2,3)", "x(2,3).int()", "x(2,1).expand(2,3)", "x(1,3).expand(2,3)", "x(3,4).mT[::2]")
      for two in ("x(2,3)", "x(3,2).mT.double()", "x(2,6)[:, ::2].double()", "x(2,1).double()", "x(1,3).double()")),
    *(f"s    _trilinear  (x({a}), x({b}), x({c}), {e1}, {e2}, {e3}, {dims}, {unroll})"
      for (a, b, c), (e1, e2, e3) in ((("2,3", "2,3", "2,3"), ("[]", "[]", "[]")),
          (("2,3", "2,3", "3"), ("[]", "[]", "[0]")), (("2,3", "2,3", "3"), ("[]", "[]", "[-2]")),
          (("2", "3", "2,3"), ("[-1]", "[-2]", "[]")))
      for dims in ("[]", "[0]", "[-1]", "[-2]", "[0,-1]") for unroll in (0, 1)),
]  # fmt: skip

# Distances with NaN, infinities and equal rows, around the number of rows from which torch uses products; extreme p.
POINTS = "(lambda a, b, p: (x({0}), a, b, p, torch.cdist(a, b, p)))"
DISTANCES = [
    *(f"s    {op}  (ends().reshape(3,2), ends().reshape(3,2).flip(0), {p}{mode})"
      for op, mode in (("_cdist_forward", ", None"), ("_cdist_forward", ", 1"))
      for p in (0.0, 0.5, 1.0, 2.0, 3.0, INF)),
    *(f"s    {op}  (ends().reshape(3,2){p})" for op in ("_pdist_forward", "pdist") for p in ("", ", 0.0", ", 1.0", ", 3.0", f", {INF}")),
    *(f"s    _pdist_forward  (x({n}), {p})"
      for n in ("3,2", "1", "2", "0", "1,2", "3,0", "3,2,2")
      for p in ("2.0", INF, f"-{INF}", "-1.0", "0.3")),
    *(f"f    {op}  ((lambda a: torch.cat([a, a])[:{n}])(x(13,3)), (lambda a: a)(x(13,3)), 2.0, {mode})"
      for op in ("cdist", "_cdist_forward")
      for n in (24, 25, 26)
      for mode in (None, 0, 1, 2)),
    *(f"s    {op}  (*(lambda a: (a, a[:3]{rest}))(torch.arange(75.).reshape(-1,3)[:{n}] * 33))"
      for op, rest in (("_cdist_forward", ", 2.0, None"), ("_cdist_forward", ", 2.0, 1"),
          ("_cdist_forward", ", 2.0, 2"), ("_euclidean_dist", ""))
      for n in (24, 25)),
    *(f"fic  _euclidean_dist  (x(2,3), x(4,3){cast})" for cast in ("", ".double()")),
    *(f"s    _cdist_backward  (*{POINTS.format('3,3')}(ends().reshape(3,2), ends().reshape(3,2).flip(0), {p}))"
      for p in (0.0, 1.0, 2.0, 3.0, INF)),
    *(f"s    _cdist_backward  (*{POINTS.format('2,3')}(ints(2,4).float(), ints(3,4).float(), {p}))"
      for p in (0.0, 0.3, 0.7, 1.0, 1.3, 2.0, 2.5, INF)),
    *(f"s    _cdist_backward  (*{POINTS.format('3,2')}(torch.tensor([[{INF},1.],[2.,3.],[{NAN},1.]]), "
          f"torch.tensor([[1.,2.],[2.,3.]]), {p}))"
      for p in (0.0, 0.7, 1.0, 1.5, 2.0, 3.0, INF)),
    *(f"s    _pdist_backward  (torch.tensor([{NAN},{INF},2.]), {a}, {p}, torch.pdist({a}, {p}))"
      for a in ("torch.ones(3,2)", "torch.eye(3)")
      for p in (0.0, 0.7, 1.0, 1.5, 2.0, 3.0, INF)),
    *(f"s    _cdist_backward  (torch.tensor([[{NAN},{INF},2.],[1e30,{NAN},-{INF}]]), {a}[:2], {a}, {p}, "
          f"torch.cdist({a}[:2], {a}, {p}))"
      for a in ("torch.ones(3,2)", "torch.eye(3)", "torch.full((3,2), 1e30).tril()")
      for p in (0.0, 0.7, 1.0, 1.5, 2.0, 3.0, INF)),
    *(f"s    _pdist_backward  (x(3), {a}, {p}, torch.pdist({a}, {p}))"
      for a in (f"torch.tensor([[{INF},1.],[2.,3.],[4.,1.]])", "torch.ones(3,2)")
      for p in (0.0, 0.7, 1.0, 1.5, 2.0, 3.0, INF)),
    *(f"s    _cdist_backward  (x({g}), x({a}), x({b}), {p}, x({g}){cast})"
      for g, a, b in (("2,3,0", "3,4", "2,0,4"), ("2,0,3", "0,4", "2,3,4"), ("2,3,2", "3,4", "2,2,4"),
          ("3,2", "3,0", "2,0"), ("0,3,2", "0,3,4", "2,4"))
      for p in (0.0, 1.0, 2.0)
      for cast in ("", ".double()")),
    *(f"s    _pdist_backward  (x(3), ints(3,4).float(), {p}, torch.pdist(ints(3,4).float(), {p}){cast})"
      for p in (0.0, 0.7, 1.0, 2.0, INF)
      for cast in ("", ".double()")),
    *(f"-    cosine_similarity  (torch.full((2,3), {n}, dtype=torch.{one}), torch.full((2,3), {n}, "
          f"dtype=torch.{two}), 1, {eps})"
      for n in (0, 3, 300)
      for one, two in (("float16", "float32"), ("float32", "bfloat16"), ("int64", "float16"), ("float64", "float32"),
          ("float16", "float16"), ("int64", "int64"))
      for eps in (1e-8, 0.0, 1e-3)),
    *(f"s    cosine_similarity  (x(2,3), x(2,3), 1, {eps})" for eps in (0, -1e-9, NAN, INF)),
]  # fmt: skip

# FFTs: repeated or wrong dimensions and sizes, padded signals in another memory order, empty half spectra.
PLANES = ", memory_format=torch.channels_last)"
TRANSFORMED = [
    *(f"fi   {op}  (x(2,3,4,5).to(x(1).dtype{PLANES}, {sizes}{dim})"
      for op in ("fft_fft2", "fft_ifft2", "fft_rfft2", "fft_fftn", "fft_rfftn")
      for sizes in ("None", "[6,7]", "[3,2]")
      for dim in ("", ", [0,1]", ", [1,2]")),
    *(f"s    {op}  (torch.randn(2,4,3,4, dtype=torch.complex64).to(memory_format=torch.channels_last), {sizes})"
      for op in ("fft_hfft2", "fft_irfft2", "fft_hfftn", "fft_irfftn")
      for sizes in ("None", "[6,7]", "[3,2]")),
    *(f"i    {op}  (x(4,6){cut})"
      for op in ("fft_fft", "fft_ifft", "fft_rfft", "fft_ihfft", "fft_hfft", "fft_irfft", "fft_fft2", "fft_rfft2")
      for cut in ("[:, ::2]", "[::2]", ".t()", "[::2].t()", ".expand(2,4,6)", "[1:, 1:]", "[::2, ::2].t()")),
    *(f"s    {op}  (x(4,5), {n})"
      for op in ("fft_fft", "fft_ifft", "fft_rfft", "fft_irfft", "fft_hfft", "fft_ihfft")
      for n in (-1, 0, -2, 1, 2, 9)),
    *(f"s    {op}  (x(4,5), {s}, {dim})"
      for op in ("fft_fftn", "fft_rfftn", "fft_irfftn", "fft_hfftn", "fft_ihfftn", "fft_fft2", "fft_rfft2",
          "fft_irfft2", "fft_hfft2")
      for s, dim in (("None", "[0,-2]"), ("None", "[1,-1]"), ("None", "[0,0]"), ("[3,-1]", "[0,1]"),
          ("[-1,3]", "[0,1]"), ("[3,0]", "[0,1]"), ("[3]", "[0,1]"), ("[3,4,5]", "None"), ("None", "[]"), ("[]", "[]"),
          ("None", "[0,2]"))),
    *(f"-    {op}.out  (torch.ones(4, dtype=torch.{dtype}), out=torch.zeros({n}, dtype=torch.{out}){grown})"
      for op, n in (("fft_rfft", 3), ("fft_ihfft", 3), ("fft_fft", 4), ("fft_irfft", 6), ("fft_hfft", 6),
          ("fft_rfftn", 3), ("fft_fftn", 4), ("fft_irfftn", 6))
      for dtype, out in (("float32", "complex64"), ("float32", "float32"), ("float32", "int64"), ("float16", "int64"),
            ("complex64", "int64"), ("complex64", "complex64"), ("complex64", "float32"), ("float32", "complex128"),
            ("complex64", "float64"))
        for grown in ("", f"[:1].expand({n})")),
    *(f"-    fft_rfftfreq  ({n}, {d}{dtype})"
      for n in (-3, -2, -1, 0, 1, 7)
      for d in (1.0, 0.3)
      for dtype in ("", ", dtype=torch.bfloat16", ", dtype=torch.float16", ", dtype=torch.complex64",
          ", dtype=torch.int64")),
    *(f"-    fft_fftfreq  ({n}, {d}{dtype})"
      for n in (-1, 0, 1, 6, 33)
      for d in (1.0, 0.3, 0.0)
      for dtype in ("", ", dtype=torch.bfloat16", ", dtype=torch.float16", ", dtype=torch.complex64",
          ", dtype=torch.int64") if n or not d),
    *(f"fi   {op}  (x(4,5){dim})"
      for op in ("fft_fftshift", "fft_ifftshift")
      for dim in ("", ", [0]", ", [-1]", ", [0,1]", ", [0,0]", ", [1,-1]", ", []", ", [2]")),
    *(f"-    {op}  (torch.ones({n}).to(torch.{dtype}), [1], 0, {rest})"
      for op, rest, dtypes in (("_fft_r2c", "True", ("float16", "bfloat16", "float32", "float8_e5m2", "int64",
          "complex64")), ("_fft_r2c", "False", ("float16", "float32")),
          ("_fft_c2c", "True", ("complex32", "complex64", "float32")),
          ("_fft_c2r", "2", ("complex32", "complex64", "float16")))
      for dtype in dtypes
      for n in ("2,0", *(("2,2", "0,2") if op == "_fft_c2r" else ("0,3", "2,3", "2,1")))),
    *(f"s    _fft_r2c.out  (x(3,{n}), [1], {mode}, {half}, "
          f"out=torch.zeros(3,{n if half == 'False' else n // 2 + 1}, dtype=torch.{dtype}))"
      for n in (1, 2, 3)
      for mode in (0, 1)
      for half in ("True", "False")
      for dtype in ("complex64", "float32", "complex128", "int64")),
]  # fmt: skip

# Signals and windows of different dtypes, lengths shorter and longer than the signal, windows that are 0 or NaN at the
# ends.
ZEROED = "torch.tensor([0.,1,1,0])"
WINDOWED = [
    *(f"s    stft  (x(20){cast}, 4, {hop}, {win}, {window}, {flags}{rest})"
      for cast in ("", ".double()")
      for hop, win, window in (("None", "None", "None"), ("1", "2", "None"), ("2", "3", "torch.hann_window(3)"),
          ("2", "4", "torch.ones(4, dtype=torch.complex64)"), ("2", "4", "torch.ones(4).double()"))
      for flags in ("False", "True")
        for rest in ("", ", True", ", False", ", None, True", ", False, True", ", True, True", ", None, False")),
    *(f"s    stft  (x(21), {n}, {hop}, {win}, None, False, None, True, align_to_window=True)"
      for n, hop, win in ((8, 2, 8), (8, 4, 4), (9, 3, 5), (8, 5, 2))),
    *(f"s    istft  ({spectrum}, 4, {hop}, None, {window}, {center}, False, None, {length}{back})"
      for spectrum, back in (("torch.randn(3,7, dtype=torch.complex64)", ""),
          ("torch.randn(4,7, dtype=torch.complex64)", ""), ("torch.randn(4,7, dtype=torch.complex64)", ", True"))
      for hop in (1, 2)
        for window in ("None", ZEROED, f"torch.tensor([1.,{NAN},1,1])", "torch.hann_window(4)",
            "torch.tensor([1+2j,2,1j,1])")
        for center in (True, False)
        for length in ("None", "5", "40", "-2") if hop == 2 or length in ("None", "5")),
    *(f"s    istft  (torch.randn(3,7, dtype=torch.complex64), 4, {hop}, {win}, {window}, {center}, True)"
      for hop, win, window in ((3, 2, "None"), (3, 3, "None"), (1, 2, "None"), (2, 3, "torch.ones(3)"), (5, 4, "None"),
          (4, 4, "None"), (1, 5, "None"), (0, 4, "None"))
      for center in (True, False)),
]  # fmt: skip

# Low-bit weights: out-of-range values, strided operands, too many scales or groups, sums that overflow before scaling.
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

# Strided scales, biases per column, results that overflow, empty dimensions, swizzles, strides of groups.
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

# Fake quantization of halves, NaN and infinities, with fractional and out-of-range zero points; choice of ranges.
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

# Indices of sparse layouts: unsorted, repeated, batched; empty blocks.
INDICES = [
    *(f"-    _convert_indices_from_coo_to_csr  (torch.tensor({rows}), 6, out_int32={narrow})"
      for rows in ("[0,3,1,5,2]", "[4,0,0,0,0,0,0,5]", "[2]", "[5,4,3,2,1,0]", "[0,0,3]", "[1,5,5,0,0,0,2]", "2")
      for narrow in (False, True)),
    *(f"-    _convert_indices_from_csr_to_coo  (torch.tensor({rows}), torch.tensor({columns}), out_int32={narrow}, "
          f"transpose={turned})"
      for rows, columns in (("[0,2,3]", "[0,1,1]"), ("[[0,2,3],[0,1,3]]", "[[0,1,1],[0,1,2]]"),
          ("[[[0,1],[0,1]],[[0,1],[0,1]],[[0,1],[0,1]]]", "[[[0],[1]],[[2],[3]],[[4],[5]]]"))
      for narrow in (False, True)
      for turned in (False, True)),
    *(f"-    _validate_sparse_bs{by}_tensor_args  (torch.tensor({starts}), torch.tensor({at}), "
          f"torch.zeros({values}), [{size}])"
      for by in "rc"
      for starts, at, values, size in (("[0,1,2]", "[0,1]", "2,2,2", "4,4"), ("[0,1,2]", "[0,1]", "2,0,2", "2,4"),
          ("[0,1,2]", "[0,1]", "2,2,0", "4,2"), ("[0,1,2]", "[0,1]", "2,0,0", "2,2"),
          ("[0,1,2]", "[0,1]", "2,3,2", "4,4"), ("[0,2,2]", "[0,0]", "2,2,2", "4,4"),
          ("[0,2,2]", "[1,0]", "2,2,2", "4,4"))),
    *(f"-    _validate_sparse_coo_tensor_args  (torch.tensor({indices}), torch.zeros({n}), [2,3], {merged})"
      for indices, n in (("[[0,1],[1,0]]", 2), ("[[0,0],[1,1]]", 2), ("[[1,0],[0,1]]", 2), ("[[0,0],[2,1]]", 2),
          ("[[0],[3]]", 1), ("[[-1],[0]]", 1))
      for merged in (None, True, False)),
    *(f"-    requires_grad_  (torch.ones(2, dtype=torch.{dtype}), {on})"
      for dtype in ("int64", "bool", "float32", "complex64", "float8_e5m2")
      for on in (True, False)),
]  # fmt: skip

# Conversions at the limits of dtypes, and numbers at and beyond the ends of their ranges.
ODD = (
    f"torch.tensor([{NAN}, -{NAN}, {INF}, -{INF}, 0., -0., 464., 480., 447.9, 240., 248., 57344., 61440., 65519.999, "
    f"65520., 1e-9, 2**-127, 2**-130, 1 + 2**-11 + 2**-30, 1 + 2**-8 + 2**-30, 1e300, 2**-9 + 2**-40, 448.0000001, "
    f"-3.5], dtype=torch.float64)"
)
NARROW = (
    "float16",
    "bfloat16",
    "float32",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
)
DTYPES = (*NARROW, "float64", "complex32", "complex64", "complex128", "bool")
NUMBERS = (
    "0.0",
    "-0.0",
    "complex(0.,-0.)",
    "complex(-0.,0.)",
    "complex(0,3e39)",
    "complex(1,1e300)",
    "1j",
    "complex(-0.,1.)",
    "complex(1.,-0.)",
    "complex(1.,0.)",
    INF,
    NAN,
    "-256",
    "-255",
    "256",
    "2**63",
    "2.0**63",
    "-2**63",
    "2**64-1",
    "2**64",
    "-2**63-1",
    "65504.",
    "65520.",
    "449.",
    "1e5",
)
CONVERTED = [
    *(f"-    _to_copy  ({ODD}, dtype=torch.{dtype})" for dtype in DTYPES),
    *(f"-    _to_copy  ({ODD}.to(torch.{one}), dtype=torch.{two})"
      for one in (*NARROW, "complex32", "complex64")
      for two in DTYPES if one != two),
    *(f"-    _to_copy  (torch.complex({ODD}, {ODD}.flip(0)), dtype=torch.{dtype})" for dtype in DTYPES),
    *(f"-    _to_copy  (torch.tensor([2**24+1, 2**53+1, 2049, 257, 2**62+2**38+1, -2**63, 65519, 65520, 465, "
          f"2**40+2**32+1]), dtype=torch.{dtype})"
      for dtype in DTYPES),
    *(f"-    _to_copy  (torch.tensor([{NAN},1.,0.]).to(torch.{one}), dtype=torch.{two})"
      for one in NARROW if one[:6] == "float8" and "uz" in one
      for two in ("int8", "uint8", "int16", "int64", "bool")),
    *(f"-    {op}  ({given}, {number})"
      for op, given in (("fill_.Scalar", "torch.ones(2, dtype=torch.{0})"),)
      for number in NUMBERS
      for given in [given.format(d) for d in ("float32", "uint8", "int64", "float16", "bool", "complex64", "complex32",
          "float8_e4m3fn", "float8_e5m2")]),
    *(f"-    scalar_tensor  ({number}, dtype=torch.{dtype})"
      for number in NUMBERS
      for dtype in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "uint8", "complex32")),
    *(f"-    full  ([2], {number}{dtype})"
      for number in NUMBERS
      for dtype in ("", ", dtype=torch.bool", ", dtype=torch.uint8", ", dtype=torch.float8_e4m3fn",
          ", dtype=torch.complex64")),
    *(f"-    {op}  (torch.ones({shape}, dtype=torch.{one}), {number})"
      for op in ("result_type.Scalar", "mul.Scalar")
      for shape in ("2", "0", "()")
      for one in ("uint8", "int64", "float32", "bfloat16", "bool", "float8_e5m2", "uint16")
      for number in ("2**63", "1j", "1.5", "True", "2")),
    *(f"-    {op}  (torch.ones({a}, dtype=torch.{one}), torch.ones({b}, dtype=torch.{two}))"
      for op in ("result_type.Tensor", "add.Tensor")
      for a, b in (("2", "()"), ("0", "2"), ("0", "()"))
      for one in ("uint8", "bfloat16", "float8_e5m2", "uint16", "bool", "float16")
      for two in ("complex128", "complex64", "float8_e5m2", "float64", "uint16", "int8", "bfloat16")),
]  # fmt: skip

# Outs and targets that torch resizes, keeps, expands or refuses.
WRITTEN = [
    *(f"-    abs.out  (torch.ones(2, dtype=torch.{one}), out=torch.zeros(2, dtype=torch.{two}))"
      for one in ("complex64", "complex128", "float32", "int64")
      for two in ("complex64", "complex128", "float32", "float64", "int64", "bool")),
    *(f"-    {op}  (torch.tensor([1.,0.]), {rest}out=torch.zeros({n}, dtype=torch.{two}))"
      for op, rest, n in (("all.out", "0, ", "()"), ("any.out", "0, ", "()"), ("all.all_out", "", "()"),
          ("any.all_out", "", "()"), ("isposinf.out", "", "2"), ("isneginf.out", "", "2"), ("signbit.out", "", "2"),
          ("isinf.out", "", "2"))
      for two in ("bool", "uint8", "int64", "float32", "complex64")),
    *(f"-    {op}  ({given}, out=torch.zeros({n}, dtype=torch.{two}))"
      for op, given in (("sum.IntList_out", "torch.ones(2,3, dtype=torch.{0}), [1]"),
          ("mean.out", "torch.ones(2,3, dtype=torch.{0}), [1]"), ("prod.int_out",
          "torch.ones(2,3, dtype=torch.{0}), 1"), ("cumsum.out", "torch.ones(2, dtype=torch.{0}), 0"),
          ("norm.out", "torch.ones(2,3, dtype=torch.{0}), 2, [1]"),
          ("softmax.int_out", "torch.ones(2, dtype=torch.{0}), 0"))
      for given in [given.format(d) for d in ("int64", "float32", "bool", "complex64")]
        for n, two in (("2", "int64"), ("2", "float32"), ("2", "bool"), ("2", "float64"), ("3", "uint8"),
            ("0", "complex64"))),
    *(f"s    {op}  ({target}{rest})"
      for op, rest in (("neg_", ""), ("abs_", ""), ("ceil_", ""), ("sigmoid_", ""), ("erf_", ""), ("relu_", ""),
          ("clamp_", ", -9, 9"), ("clamp_", ", 0, 1"), ("fill_.Scalar", ", 2"), ("masked_fill_.Scalar", ", m(2,3), 2"),
          ("fill_diagonal_", ", 2."), ("index_fill_.int_Scalar", ", 0, torch.tensor([0]), 1"), ("copy_", ", x(2,3)"),
          ("div_.Tensor", ", x(2,3)"), ("div_.Tensor", ", x(4,2,3)"), ("logical_and_", ", x(4,2,3)"),
          ("bitwise_and_.Tensor", ", x(4,2,3)"))
      for target in ("x(1,3).expand(2,3)", "torch.ones(1,3,dtype=torch.int64).expand(2,3)", "x(2,1).expand(2,3)",
            "torch.ones(2,3,dtype=torch.bool)", "torch.ones(2,3,dtype=torch.int64)",
            "torch.ones(1,3).half().expand(2,3)")),
    *(f"s    {op}  ({target}, {p}, {train})"
      for op in ("dropout_", "feature_dropout_", "alpha_dropout_", "feature_alpha_dropout_")
      for target in ("x(1,3).expand(2,3)", "x(1,3).half().expand(2,3)", "torch.ones(1,3,dtype=torch.int64).expand(2,3)")
      for p, train in ((0.5, False), (0.0, True), (1.0, True))),
    *(f"s    {op}  ({target}{rest})"
      for op, rest in (("float_power_.Scalar", ", 2"), ("cumsum_", ", 0"), ("cumsum_", ", 0, dtype=torch.float64"),
          ("cumprod_", ", 0"), ("mvlgamma_", ", 1"), ("addmv_", ", x(3,2), x(2)"),
          ("addmv_", ", x(3,2).double(), x(2).double()"), ("baddbmm_", ", x(1,3,2), x(1,2,2)"))
      for target in ("x(3)", "x(2)", "torch.ones(3, dtype=torch.int64)", "torch.ones(2, dtype=torch.int64)",
          "torch.ones(2, dtype=torch.bool)", "x(1).expand(3)", "x(1,3,2)", "x(3).double()", "x(1,2,2).int()")),
    *(f"-    {op}  ({given}, out=torch.zeros({n}, dtype=torch.{dtype}))"
      for op, given in (("linspace.out", "0., 1., 4"), ("arange.out", "4"), ("range.out", "0., 3."), ("eye.out", "2"),
          ("full.out", "[4], 2.5"), ("logspace.out", "0., 1., 4"))
      for n in ("4", "2,2", "0", "5", "4,1")
      for dtype in ("float32", "int64", "complex64")),
    *(f"-    {op}  (torch.ones(2,3, dtype=torch.{one}), [1], {rest}out=torch.zeros(2, dtype=torch.{two}))"
      for op, rest in (("mean.out", ""), ("sum.IntList_out", ""), ("std.out", "True, "), ("logsumexp.out", ""),
          ("nansum.out", ""))
      for one in ("int64", "bool", "float32")
      for two in ("bool", "int64", "float32")),
    *(f"s    {op}  ({given}, {out}={target})"
      for op, given, out in (*((f"_upsample_{kind}2d_aa.out", "x(1,1,2,2), [2,2], False", "out")
          for kind in ("bilinear", "bicubic", "lanczos")), ("upsample_bicubic2d_backward.grad_input",
          "x(1,1,2,2), [2,2], [1,1,2,2], False", "grad_input"))
      for target in ("x(1,1,1,2).expand(1,1,2,2)", "x(1,1,2,1).expand(1,1,2,2)", "x(1,1,2,2)", "x(1)")),
    *(f"s    {op}  (**(lambda m: {{'{first}': m[:, :, :2], 'output_size': [2,2], {size}'align_corners': False, "
          f"'{out}': m[:, :, {start}:{start}+2]}})(x(1,1,3,2)))"
      for op, first, size, out in (*((f"_upsample_{kind}2d_aa.out", "self", "", "out")
          for kind in ("bilinear", "bicubic", "lanczos")), ("upsample_bicubic2d_backward.grad_input", "grad_output",
          "'input_size': [1,1,2,2], ", "grad_input"))
      for start in (0, 1)),
    *(f"s    copy_  (*(lambda a: (a, a{turn}))(x(1,3).expand(3,3)))" for turn in ("", ".clone()", ".mT", "[:]")),
    *(f"s    {op}  ({self}, {rest})"
      for op, rest in (("addmm_", "x(2,4), x(4,3)"), ("addmm_", "x(2,4).double(), x(4,3).double()"),
          ("addbmm_", "x(2,2,4), x(2,4,3)"), ("addbmm_", "m(2,2,4), m(2,4,3)"), ("addr_", "x(2), x(3)"),
          ("addr_", "x(4), x(3)"), ("addmm_", "m(2,4), m(4,3)"), ("addmm_", "x(5,4), x(4,3)"))
      for self in ("x(1,3).expand(2,3)", "x(2,3)", "x(3)", "m(1,3).expand(2,3)", "x(1,1).expand(2,3)")),
    *(f"s    {op}  ({given}out=x({n}){grown})"
      for op, given, n in (("linalg_inv.out", "torch.eye(2), ", 2), ("linalg_cholesky.out", "torch.eye(2), ", 2),
          ("triu.out", "x(2,2), ", 2), ("renorm.out", "x(2,2), 2, 0, 1., ", 2), ("cumsum.out", "x(2,2), 0, ", 2),
          ("index_add.out", "x(2,2), 0, torch.tensor([0,1]), x(2,2), ", 2),
          ("scatter.src_out", "x(2,2), 0, torch.tensor([[0,1]]), x(1,2), ", 2), ("angle.out", "x(2,2), ", 4),
          ("dot.out", "x(2), x(2), ", 1), ("take.out", "x(4), torch.tensor([[0,1],[2,3]]), ", 4),
          ("masked_select.out", "x(2,2), torch.ones(2,2,dtype=torch.bool), ", 4))
      for grown in ("", ".expand(2,2)", "[:, None]", "[None]") if n < 4 or "(" not in grown),
    *(f"s    {op}.out  ({given}, out=torch.zeros({n}))"
      for op, given in (("mm", "x(2,3).t().contiguous().t(), x(3,2)"),
          ("matmul", "x(2,3), x(3,2).t().contiguous().t()"), ("linalg_inv", "torch.eye(2) * 2"),
          ("add", "x(2,3).t().contiguous().t(), x(2,3).t().contiguous().t()"), ("matmul", "x(2,3,2), x(2,2,2)"))
      for n in ("0", "5", "2,2,2")),
]  # fmt: skip

MATRICES = "\n".join([
    *FAILURES, *UNPACKED, *BESIDE, *SOLVED, *LDL, *SQUARES, *NOTHING, *ADDED, *SHAPES, *EQUATIONS, *DISTANCES,
      *TRANSFORMED, *WINDOWED, *WEIGHTS, *SCALED, *FAKED, *INDICES, *CONVERTED, *WRITTEN,
]) + "\n"  # fmt: skip
