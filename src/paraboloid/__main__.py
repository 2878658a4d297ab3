"""`python -m paraboloid` is the console script."""

import sys

from paraboloid_command import main

sys.exit(main())
