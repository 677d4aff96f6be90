"""Rows for Fourier transforms and windows."""

NAN = "float('nan')"

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

TRANSFORMS = "\n".join([*TRANSFORMED, *WINDOWED]) + "\n"
