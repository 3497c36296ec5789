"""Numbers of an npu tensor are made into text on the host, as upstream does for xla and mtia.

torch._tensor_str finds out widths and scale in float64, which the chips do not compute with, and formats integers one by one:
a launch and a wait for each. It lists the devices it spares that and has no hook. Only what is shown is copied.
"""

import functools

import torch


def register(module) -> None:
    """`module` is torch._tensor_str."""
    upstream_summary, upstream_formatter = module.get_summarized_data, module._Formatter.__init__

    @functools.wraps(upstream_summary)
    def get_summarized_data(self):
        if self.device.type != "npu":
            return upstream_summary(self)
        return _edges(self, module.PRINT_OPTS.edgeitems)

    @functools.wraps(upstream_formatter)
    def init(self, tensor) -> None:
        upstream_formatter(self, tensor.cpu() if tensor.device.type == "npu" else tensor)

    module.get_summarized_data = get_summarized_data
    module._Formatter.__init__ = init


def _edges(tensor: torch.Tensor, count: int, dim: int = 0) -> torch.Tensor:
    """The first and last `count` of each longer dimension, on the host."""
    if dim == tensor.dim():
        return tensor.cpu()
    size = tensor.size(dim)
    if size <= 2 * count:
        return _edges(tensor, count, dim + 1)
    ends = [tensor.narrow(dim, start, count) for start in (0, size - count)]
    return torch.cat([_edges(end, count, dim + 1) for end in ends], dim)
