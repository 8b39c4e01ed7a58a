"""`python -m pyrbacproxy`."""

import sys

from pyrbacproxy.cli import main

sys.exit(main())
