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
"""
