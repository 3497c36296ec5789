"""torch_npu_run: torchrun with the options of the official launcher. `python -m torch_npu.distributed.run` is the same."""

import sys

from torch.distributed.run import get_args_parser, run

__all__ = ["parse_args"]


def parse_args(args):
    """torchrun's arguments. torch's own store (libuv, one thread for all connections) stands for the parallel ones."""
    parser = get_args_parser()
    parser.add_argument(
        "--enable_tiered_parallel_tcpstore",
        "--enable-tiered-parallel-tcpstore",
        default="false",
        help="accepted for compatibility: torch's store serves all ranks",
    )
    parsed = parser.parse_args(args)
    if parsed.rdzv_backend == "parallel":
        parsed.rdzv_backend = "static" if not parsed.rdzv_endpoint else "c10d"
    return parsed


def _main(args=None):
    run(parse_args(sys.argv[1:] if args is None else args))


if __name__ == "__main__":
    _main()
