"""An optimiser under amp: float32 master weights, gradients on their way from model to optimiser, skipped steps."""

import types

import torch

from apex.amp.combine import CombinedGradients
from apex.amp.scaler import unscale


class OptimizerState:
    """What amp knows about one optimiser; reached as optimizer._amp.

    `pairs` holds (parameter of the model, parameter that the optimiser updates); the two differ with master weights.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, properties) -> None:
        self.properties = properties
        self.pairs: list[tuple[torch.nn.Parameter, torch.nn.Parameter]] = []
        self.skip_next_step = False
        self.unscale_pending = False
        self._stash: list[torch.Tensor | None] = []
        for group in optimizer.param_groups:
            self.adopt(optimizer, group)
        self.combined = CombinedGradients([model for model, _ in self.pairs], properties) if properties.combine_grad else None

    def adopt(self, optimizer, group: dict) -> None:
        """Gives the group's float16 parameters float32 masters, with the optimiser's state cast along."""
        for i, parameter in enumerate(group["params"]):
            master = parameter
            if self.properties.master_weights and parameter.dtype == torch.float16:
                master = torch.nn.Parameter(parameter.detach().float(), parameter.requires_grad)
                group["params"][i] = master
                if parameter in optimizer.state:
                    state = optimizer.state.pop(parameter)
                    optimizer.state[master] = {k: v.float() if _is_half(v) else v for k, v in state.items()}
            self.pairs.append((parameter, master))

    def before_backward(self) -> None:
        """Sets gradients of earlier backwards aside: they are unscaled already, the new ones are not."""
        if self.unscale_pending:
            return
        self._stash = [master.grad for _, master in self.pairs]
        if self.combined:
            self._stash = [None if grad is None else grad.clone() for grad in self._stash]
            self.combined.attach()
            return
        for model, master in self.pairs:
            model.grad = master.grad = None

    def after_backward(self, scaler) -> bool:
        """Moves the gradients to the optimiser's parameters, unscaled; returns whether one of them overflowed."""
        if self.combined:
            self.combined.finish_backward()
        overflow = self._unscale(scaler)
        for (_, master), earlier in zip(self.pairs, self._stash):
            if earlier is not None:
                master.grad = earlier if master.grad is None else master.grad.add_(earlier)
        self._stash = []
        return overflow

    def _unscale(self, scaler) -> bool:
        copied = [(model, master) for model, master in self.pairs if model is not master and model.grad is not None]
        for model, master in copied:
            master.grad = model.grad.float()
        if self.combined and not copied:
            return unscale(self.combined.buffers(), scaler.loss_scale(), scaler.dynamic)
        grads = [master.grad for _, master in self.pairs if master.grad is not None]
        return unscale(grads, scaler.loss_scale(), scaler.dynamic)

    def update_model(self) -> None:
        pairs = [(model.data, master.data) for model, master in self.pairs if model is not master]
        if pairs:
            torch._foreach_copy_([model for model, _ in pairs], [master for _, master in pairs])

    def zero_grad(self, set_to_none: bool) -> None:
        for model, master in self.pairs:
            for parameter in (model, master):
                if parameter.grad is not None:
                    if set_to_none and not self.combined:
                        parameter.grad = None
                    else:
                        parameter.grad.detach().zero_()


def _is_half(value) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype == torch.float16


def attach(optimizer: torch.optim.Optimizer, properties) -> None:
    """Teaches an optimiser to skip steps, to update master weights and to clear both kinds of gradients."""
    if hasattr(optimizer, "_amp"):
        raise RuntimeError("A given optimizer should only be passed through amp.initialize once.")
    state = optimizer._amp = OptimizerState(optimizer, properties)
    step, add_param_group = optimizer.step, optimizer.add_param_group

    def amp_step(self, closure=None, **kwargs):
        if state.unscale_pending:
            raise RuntimeError("the gradients are still scaled: the last amp.scale_loss() before step() must not have delay_unscale=True")
        if state.skip_next_step:
            state.skip_next_step = False
            return None
        if closure is not None:
            raise RuntimeError("amp does not support closures: a step may have to be skipped")
        result = step(**kwargs)
        state.update_model()
        return result

    def amp_zero_grad(self, set_to_none: bool = True):
        state.zero_grad(set_to_none)

    def amp_add_param_group(self, group):
        add_param_group(group)
        state.adopt(self, self.param_groups[-1])

    optimizer.step = types.MethodType(amp_step, optimizer)
    optimizer.zero_grad = types.MethodType(amp_zero_grad, optimizer)
    optimizer.add_param_group = types.MethodType(amp_add_param_group, optimizer)


def master_params(optimizer: torch.optim.Optimizer):
    """The parameters that the optimiser updates: float32 masters at O2, the model's own otherwise."""
    for group in optimizer.param_groups:
        yield from group["params"]
