"""combine_grad: the gradients of a model as views of one buffer per dtype, so that unscaling is one launch.
combine_ddp: the buffers are averaged over the ranks, in ddp_replica_count pieces, instead of wrapping the model in DDP.
"""

import torch


class CombinedGradients:
    def __init__(self, parameters: list[torch.nn.Parameter], properties) -> None:
        self._parameters = [p for p in parameters if p.requires_grad]
        self._check, self._ddp = properties.check_combined_tensors, properties.combine_ddp
        self._pieces = properties.ddp_replica_count
        self._buffers: dict[torch.dtype, torch.Tensor] = {}
        self._views: list[torch.Tensor] = []
        if self._ddp:
            self._send_parameters()

    def buffers(self) -> list[torch.Tensor]:
        return list(self._buffers.values())

    def attach(self) -> None:
        """Makes every .grad a zeroed view; autograd adds into it."""
        if not self._views:
            self._allocate()
        torch._foreach_zero_(self.buffers())
        for parameter, view in zip(self._parameters, self._views):
            parameter.grad = view

    def finish_backward(self) -> None:
        if self._check:
            for parameter, view in zip(self._parameters, self._views):
                if parameter.grad is None or parameter.grad.data_ptr() != view.data_ptr():
                    raise RuntimeError("a gradient was replaced during backward and is no longer part of the combined buffer")
        if self._ddp:
            self._reduce()

    def _allocate(self) -> None:
        self._views = [torch.empty(0)] * len(self._parameters)
        for dtype in {p.dtype for p in self._parameters}:
            members = [i for i, p in enumerate(self._parameters) if p.dtype == dtype]
            sizes = [self._parameters[i].numel() for i in members]
            buffer = torch.zeros(sum(sizes), dtype=dtype, device=self._parameters[members[0]].device)
            for i, part in zip(members, buffer.split(sizes)):
                self._views[i] = part.view(self._parameters[i].shape)
            self._buffers[dtype] = buffer

    def _send_parameters(self) -> None:
        for parameter in self._parameters:
            torch.distributed.broadcast(parameter.data, src=0)

    def _reduce(self) -> None:
        world = torch.distributed.get_world_size()
        pieces = [piece for buffer in self.buffers() for piece in buffer.chunk(self._pieces)]
        for work in [torch.distributed.all_reduce(piece, async_op=True) for piece in pieces]:
            work.wait()
        torch._foreach_div_(self.buffers(), world)
