"""``python -m torchnp`` is the ``torchnp`` command."""

import sys

from torchnp.cli import main

sys.exit(main())
