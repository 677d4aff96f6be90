import sys

from .scoring import main

sys.exit(main())
