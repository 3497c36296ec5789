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
    gradients = _Gradients()
    parts = [_Part(c, args, allow_unused_input, gradients) for c, args in zip(callables, sample_args, strict=True)]

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


class _Gradients:
    """Autograd makes the first gradient of a parameter its `grad` without a copy, in memory that later replays write to."""

    def __init__(self) -> None:
        self.places: list[tuple[torch.Tensor, int]] = []  # of parameters, where a replay leaves their gradients
        self.replayed = False

    def keep(self) -> None:
        """Before a replay: those that are still needed, because the program adds them up, move out."""
        if self.replayed:
            self.replayed = False
            for parameter, place in self.places:
                if (grad := parameter.grad) is not None and grad.data_ptr() == place:
                    parameter.grad = grad.clone()


class _Part:
    """One callable with its static tensors and its two graphs."""

    def __init__(self, function, args, allow_unused: bool, gradients: _Gradients) -> None:
        self.function, self.allow_unused, self.gradients = function, allow_unused, gradients
        self.args = args
        flat, _ = pytree.tree_flatten(args)
        if isinstance(args, torch.Tensor):
            raise TypeError("sample_args must be a tuple of the arguments: (tensor,), not tensor")
        if not all(isinstance(arg, torch.Tensor) for arg in flat):
            raise TypeError("sample_args must be tensors, or containers of tensors")
        parameters: tuple[torch.Tensor, ...] = ()
        if isinstance(function, torch.nn.Module):
            if function._backward_hooks or function._forward_hooks or function._forward_pre_hooks:
                raise RuntimeError("Modules must not have hooks registered at the time they are passed. Register them afterwards.")
            if any(buffer.requires_grad for buffer in function.buffers()):
                raise RuntimeError("A module may only have buffers with requires_grad=False.")
            parameters = tuple(function.parameters())
        if not any(tensor.is_npu for tensor in (*flat, *parameters)):
            raise ValueError("neither sample_args nor parameters are on an npu, so there is nothing to capture")
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
        leaves = pytree.tree_leaves(self.function(*self.args))
        if others := {type(leaf).__name__ for leaf in leaves if not isinstance(leaf, torch.Tensor)}:
            raise TypeError(f"a callable must return tensors, or containers of tensors, but returned {', '.join(sorted(others))}")
        if outputs := tuple(leaf for leaf in leaves if leaf.requires_grad):
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
        for parameter, grad in zip(self.surface[len(self.inputs) :], self.grad_inputs[len(self.inputs) :], strict=True):
            if grad is not None:
                self.gradients.places.append((parameter, grad.data_ptr()))

    def check(self, given: list) -> None:
        """A tensor of another shape would be spread over the captured one, one too few would make a parameter an input."""
        if len(given) != len(self.inputs):
            raise TypeError(f"a graphed callable takes what it was captured with: {len(self.inputs)} tensors, but got {len(given)}")
        for number, (static, value) in enumerate(zip(self.inputs, given, strict=True)):
            if not isinstance(value, torch.Tensor):
                raise TypeError(f"a graphed callable takes tensors, but argument {number} is of type {type(value).__name__}")
            if value.shape != static.shape:
                raise ValueError(f"a graphed callable takes the shapes that it was captured with: argument {number} has {list(value.shape)}"
                                 f" in place of {list(static.shape)}")

    def callable(self):
        function, part = self.function, self
        graphed = _function_of(self)

        def functionalized(*args):
            flat, _ = pytree.tree_flatten(args)
            part.check(flat)
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
            ctx.leaves = {i for i, given in enumerate(inputs[: len(part.inputs)]) if given.is_leaf}
            part.gradients.keep()
            part.forward.replay()
            return tuple(o.detach() for o in part.outputs)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, *grads):
            for static, given in zip(part.grad_outputs, grads, strict=True):
                if static is not None and static.data_ptr() != given.data_ptr():
                    static.copy_(given)
            part.gradients.keep()
            part.backward.replay()
            part.gradients.replayed = True
            # A leaf's gradient becomes its `grad`, which is to outlive the next replay.
            return tuple(None if g is None else g.clone() if i in ctx.leaves else g.detach() for i, g in enumerate(part.grad_inputs))

    return Graphed
