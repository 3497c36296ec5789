"""What cards and processes do, on a page in a browser: `python -m torch_npu.dashboard`. Note [Dashboard] in server.py."""
