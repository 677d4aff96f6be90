"""``python -m torchnp`` runs the ``torchnp`` command."""

import sys

from torchnp.cli import main

sys.exit(main())
