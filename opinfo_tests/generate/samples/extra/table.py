"""All rows of this package."""

from .branches import BRANCHES
from .compute_precision import SPREAD
from .conversions import CONVERSIONS
from .edges import EDGES
from .elementwise import ELEMENTWISE
from .general import GENERAL
from .indexing import INDEXING
from .internal_operators import INTERNAL_OPERATORS
from .large import LARGE
from .layers import LAYERS
from .matrices import MATRICES
from .quantized import LOW_BIT, QUANTIZED
from .rare_operators import RARE_OPERATORS
from .reductions import REDUCTIONS
from .strided import STREWN
from .targets import TARGETS
from .transforms import TRANSFORMS

ROWS = "\n".join(
    text.strip()
    for text in (
        GENERAL,
        QUANTIZED,
        INTERNAL_OPERATORS,
        RARE_OPERATORS,
        EDGES,
        BRANCHES,
        INDEXING,
        LARGE,
        LAYERS,
        MATRICES,
        TRANSFORMS,
        LOW_BIT,
        CONVERSIONS,
        ELEMENTWISE,
        REDUCTIONS,
        SPREAD,
        STREWN,
        TARGETS,
    )
)
