"""A kit for a machine with cards: `python -m torch_npu.verify` compares what is there with the CPU and writes one report.

It runs on CANN and on softnpu alike. docs/verify.md shows reports; __main__.py has the command line.
"""
