"""make_graphed_callables: modules and functions whose forward and backward are graphs."""

from __future__ import annotations

import torch
from torch.utils import _pytree as pytree

import torch_npu


def make_graphed_callables(callables, sample_args, num_warmup_iters=3, allow_unused_input=False, pool=None):
    """Captures each callable's forward and backward; returns callables that replay them.

    A tuple of callables needs a tuple of sample_args for each, in the order in which they will run. Arguments are tensors, of the
    shapes and requires_grad of the samples.
    """
    if torch.is_autocast_enabled("npu") and torch.is_autocast_cache_enabled():
        raise RuntimeError("make_graphed_callables does not support the autocast caching. Please set `cache_enabled=False`.")
    single = not isinstance(callables, tuple)
    if single:
        callables, sample_args = (callables,), (sample_args,)
    if len(callables) != len(sample_args):
        raise ValueError(f"sample_args must have a tuple for each of the {len(callables)} callables, but has {len(sample_args)}")
    parts = [_Part(c, args, allow_unused_input) for c, args in zip(callables, sample_args, strict=True)]

    torch.npu.synchronize()
    with torch.npu.stream(torch.npu.Stream()):
        for part in parts:
            for _ in range(num_warmup_iters):
                part.warm_up()
    torch.npu.synchronize()

    pool = torch_npu.npu.graph_pool_handle() if pool is None else pool
    for part in parts:
        part.capture_forward(pool)
    for part in reversed(parts):  # as they will run, so that memory is reused in that order
        part.capture_backward(pool)
    graphed = tuple(part.callable() for part in parts)
    return graphed[0] if single else graphed


class _Part:
    """One callable with its static tensors and its two graphs."""

    def __init__(self, function, args, allow_unused: bool) -> None:
        self.function, self.allow_unused = function, allow_unused
        self.args = args
        flat, _ = pytree.tree_flatten(args)
        if not all(isinstance(arg, torch.Tensor) for arg in flat):
            raise TypeError("sample_args must be tensors, or containers of tensors")
        parameters: tuple[torch.Tensor, ...] = ()
        if isinstance(function, torch.nn.Module):
            if function._backward_hooks or function._forward_hooks or function._forward_pre_hooks:
                raise RuntimeError("Modules must not have hooks registered at the time they are passed. Register them afterwards.")
            if any(buffer.requires_grad for buffer in function.buffers()):
                raise RuntimeError("A module may only have buffers with requires_grad=False.")
            parameters = tuple(function.parameters())
        self.inputs = tuple(flat)  # replays read these
        self.surface = self.inputs + parameters  # what is differentiated
        self.forward, self.backward = torch_npu.npu.NPUGraph(), torch_npu.npu.NPUGraph()
        self.outputs: tuple[torch.Tensor, ...] = ()
        self.grad_outputs: tuple[torch.Tensor | None, ...] = ()
        self.grad_inputs: tuple[torch.Tensor | None, ...] = ()
        self.structure: pytree.TreeSpec | None = None

    def _gradients(self, outputs, grads):
        wanted = tuple(t for t in self.surface if t.requires_grad)
        return torch.autograd.grad(outputs, wanted, grads, only_inputs=True, allow_unused=self.allow_unused)

    def warm_up(self) -> None:
        outputs = tuple(o for o in pytree.tree_leaves(self.function(*self.args)) if o.requires_grad)
        if outputs:
            self._gradients(outputs, tuple(torch.empty_like(o) for o in outputs))

    def capture_forward(self, pool) -> None:
        with torch_npu.npu.graph(self.forward, pool=pool):
            outputs = self.function(*self.args)
        flat, self.structure = pytree.tree_flatten(outputs)
        self.outputs = tuple(flat)

    def capture_backward(self, pool) -> None:
        self.grad_outputs = tuple(torch.empty_like(o) if o.requires_grad else None for o in self.outputs)
        differentiated = tuple(o for o in self.outputs if o.requires_grad)
        grads: tuple = ()
        if differentiated:
            with torch_npu.npu.graph(self.backward, pool=pool):
                grads = self._gradients(differentiated, tuple(g for g in self.grad_outputs if g is not None))
        given = iter(grads)
        self.grad_inputs = tuple(next(given, None) if t.requires_grad else None for t in self.surface)

    def callable(self):
        function, part = self.function, self
        graphed = _function_of(self)

        def functionalized(*args):
            flat, _ = pytree.tree_flatten(args)
            parameters = tuple(function.parameters()) if isinstance(function, torch.nn.Module) else ()
            assert part.structure is not None  # since the capture
            return pytree.tree_unflatten(graphed.apply(*flat, *parameters), part.structure)

        if not isinstance(function, torch.nn.Module):
            return functionalized
        eager, captured_training = function.forward, function.training

        def forward(*args):
            # The graph is one of training or of evaluation; in the other state the module runs as it did before.
            return functionalized(*args) if function.training == captured_training else eager(*args)

        function.forward = forward  # type: ignore[method-assign]
        return function


def _function_of(part: _Part):
    class Graphed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            for static, given in zip(part.inputs, inputs, strict=False):
                if static.data_ptr() != given.data_ptr():
                    static.detach().copy_(given.detach())
            part.forward.replay()
            return tuple(o.detach() for o in part.outputs)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, *grads):
            for static, given in zip(part.grad_outputs, grads, strict=True):
                if static is not None and static.data_ptr() != given.data_ptr():
                    static.copy_(given)
            part.backward.replay()
            return tuple(None if g is None else g.detach() for g in part.grad_inputs)

    return Graphed
