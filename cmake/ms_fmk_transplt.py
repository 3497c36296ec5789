#!/usr/bin/env python3
"""Converts PyTorch sources from CUDA to npu: python ms_fmk_transplt.py -i model_file.py -o model_file_out.py

Stands in tools/ms_fmk_transplt/ of the toolkit folder; the work is done by torch_npu.migrate.
"""

import importlib.util
import sys
from pathlib import Path

if importlib.util.find_spec("torch_npu") is None:  # the package that this toolkit belongs to
    sys.path.append(str(Path(__file__).resolve().parents[4]))

from torch_npu.migrate.ms_fmk_transplt import main

if __name__ == "__main__":
    sys.exit(main())
