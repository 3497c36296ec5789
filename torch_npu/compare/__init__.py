"""Two dumps of operators, side by side: `python -m torch_npu.compare A B` (docs/debug.md). Needs numpy; no card, but for --replay."""
