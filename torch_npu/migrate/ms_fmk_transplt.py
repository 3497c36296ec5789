"""ms_fmk_transplt.py: conversion under the name and with the flags that users of the Ascend toolkit know."""

import argparse
import sys

from torch_npu.migrate.__main__ import add_convert_arguments, guarded, run_convert


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="ms_fmk_transplt.py", description="Converts PyTorch sources from CUDA to npu.")
    add_convert_arguments(parser)
    return guarded(run_convert, parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
