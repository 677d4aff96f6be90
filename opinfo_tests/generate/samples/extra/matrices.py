"""Rows for factorizations, linear systems, products and distances that expose wrong kernels."""

INF, NAN = "float('inf')", "float('nan')"
OTHERS = (".half()", ".bfloat16()", ".double()", ".to(torch.complex64)", ".int()")

# Errors for one or several singular matrices, with codes of either sign; singular matrices in a batch.
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

# Handwritten packed factors and pivots: cycles of three rows, non-square factors, pivots of dtypes that torch does not
# accept.
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

# ``out=`` that overlaps the matrix, shifted by a row or column: an error if LAPACK would work in ``out=``.
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

# Linear systems: on either side, with batches of vectors, adjoints of complex factors, right-hand sides without
# columns, and batches that do not fit.
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

# Handwritten LDL factors: 2x2 blocks, row exchanges, Hermitian factors, pivots at the limits of their dtypes.
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

# Empty products, and products of single numbers: their dtypes, the effect of beta, and errors that torch raises even
# then.
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

# Tensors added to products: values beyond the range of the dtype, rounding after each matrix, and the order of errors
# for several wrong dtypes.
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

# Products of any shape: two sizes that do not fit, rows that cannot be folded, vectors with batches, ``out=`` that
# shares memory.
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

# Equations whose sizes or letters do not fit, ellipses of different ranks, unusual contraction paths, mixed dtypes.
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

# Singular values near the tolerance, and an operand that does not fit.
RANKS = [
    "s    linalg_matrix_rank.atol_rtol_float  (torch.cat([torch.diag(torch.tensor([1., 3e-6])), torch.zeros(50,2)]))",
    "s    linalg_pinv.atol_rtol_float  (torch.cat([torch.diag(torch.tensor([1., 3e-6])), torch.zeros(50,2)]))",
    "s    ormqr  (x(2,4,3), x(3,3), x(5,4,2))",
]

MATRICES = (
    "\n".join(
        [
            *FAILURES,
            *UNPACKED,
            *BESIDE,
            *SOLVED,
            *LDL,
            *SQUARES,
            *NOTHING,
            *ADDED,
            *SHAPES,
            *EQUATIONS,
            *DISTANCES,
            *RANKS,
        ]
    )
    + "\n"
)
