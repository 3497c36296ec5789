import sys

from softnpu.cli import main

sys.exit(main())
