"""Own rows of differences, samplers, cells and backwards that OpInfo leaves out."""

SIGNALS = """
fic  gradient.scalarint  (x(4,5), spacing=2)
f    gradient.scalarint  (x(4,5), dim=-1, edge_order=2)
fic  gradient.scalararray  (x(4,5), spacing=1.5, dim=[1,0])
fic  gradient.array  (x(4,5), dim=[0], edge_order=2)
f    gradient.scalarrayint  (x(4,5), spacing=[2,1.5])
f    gradient.scalarrayarray  (x(4,5), spacing=[2,1.5], dim=[1,0], edge_order=2)
f    gradient.tensorarrayint  (x(4,5), spacing=[p(5).cumsum(0)], dim=1)
fc   gradient.tensorarray  (x(4,5), spacing=[p(4).cumsum(0), p(5).cumsum(0)], dim=[0,1], edge_order=2)
s    _standard_gamma  (p(3,4))
s    _standard_gamma  (p(40).double() / 6, generator=g())
s    _sample_dirichlet  (p(3,4), generator=g())
s    _sample_dirichlet  (p(3,4).double().t())
s    _standard_gamma_grad  (p(3,40), p(3,40))
s    _standard_gamma_grad  (p(40).double() * 9, p(40).double() * 9)
s    _dirichlet_grad  (x(40, low=0.1, high=0.9), p(40), p(40) + 3)
s    _dirichlet_grad  (x(40, low=0.1, high=0.9).double(), p(40).double() * 9, p(40).double() * 9 + 40)
"""
