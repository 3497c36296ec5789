"""Tests of this folder import its modules, which are programs of the sweeps too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
