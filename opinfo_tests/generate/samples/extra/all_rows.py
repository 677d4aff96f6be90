"""All rows of this package, and the overloads that no row can call."""

import torch

from torchnp.core.target import parse

from .branches import BRANCHES
from .compute_precision import SPREAD
from .conversions import CONVERSIONS
from .edges import EDGES
from .general import GENERAL
from .indexing import INDEXING
from .internal_operators import INTERNAL_OPERATORS, NO_CPU
from .large import LARGE
from .layers import LAYERS
from .matrices import MATRICES
from .pointwise import POINTWISE
from .quantized import LOW_BIT, QUANTIZED
from .signals import ELSEWHERE, PHILOX, PHILOX_RANDINT, SIGNALS
from .strided import STREWN
from .targets import TARGETS
from .transforms import TRANSFORMS

HAS_PHILOX = parse(torch.__version__) >= (2, 14)
HAS_RANDINT = parse(torch.__version__) >= (2, 15)

ROWS = "\n".join(
    text.strip()
    for text in (
        GENERAL,
        QUANTIZED,
        INTERNAL_OPERATORS,
        SIGNALS,
        EDGES,
        BRANCHES,
        INDEXING,
        LARGE,
        LAYERS,
        MATRICES,
        TRANSFORMS,
        LOW_BIT,
        CONVERSIONS,
        POINTWISE,
        SPREAD,
        STREWN,
        TARGETS,
        PHILOX * HAS_PHILOX,
        PHILOX_RANDINT * HAS_RANDINT,
    )
)

# Overloads of torchnp's table that no row can call, and why.
UNREACHED = {
    "prims::xor_sum": "torch leaves it to its compiler",
    "aten::mkldnn_rnn_layer_backward": "what oneDNN keeps for it has no layout that could be drawn",
    "aten::mkldnn_rnn_layer_backward.out": "what oneDNN keeps for it has no layout that could be drawn",
    "aten::_copy_from": "torch has no kernel of it on the CPU",
    "aten::_copy_from.out": "torch has no kernel of it on the CPU",
    **{f"aten::{name}": "torch has no kernel of it on the CPU" for name in (*NO_CPU, *ELSEWHERE)},
}
if not HAS_PHILOX:
    names = {line.split()[1] for line in PHILOX.strip().splitlines()}
    UNREACHED |= {f"aten::{name}": "torch has no kernel of it on the CPU before 2.14" for name in names}
