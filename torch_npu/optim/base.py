"""What the fused optimisers share: parameters, gradients and state of a group as views of combined buffers.

The views are the parameters' own .data, .grad and optimizer.state entries. State dicts are therefore those of the torch.optim
class with the same rule, and whoever replaces a view (load_state_dict, zero_grad(set_to_none=True)) is noticed at the next step.
"""

from typing import Any

import torch
from torch.optim import Optimizer

from torch_npu.utils.combine_tensors import combine, is_combined_tensor_valid

__all__ = ["NpuFusedOptimizerBase"]


def gradients_of(parameters: list[torch.nn.Parameter]) -> list[torch.Tensor]:
    return [p.grad for p in parameters if p.grad is not None]


def require(condition: bool, name: str, value) -> None:
    if not condition:
        raise ValueError(f"Invalid {name} value: {value}")


class Bucket:
    """Parameters of one group, dtype, device and step count, combined. `step` is a CPU tensor, as in torch.optim."""

    def __init__(self, parameters: list[torch.nn.Parameter], states: list[dict], names: dict[str, float]) -> None:
        self.parameters = parameters
        self._states = states
        self.param = combine(parameters)
        self.grad = combine(gradients_of(parameters))
        self.sizes = [p.numel() for p in parameters]
        self.step = torch.tensor(float(states[0].get("step", 0.0)))
        self.state = {name: self._combine_state(name, initial) for name, initial in names.items()}
        for state in states:
            state["step"] = self.step
        self._sizes_on_card: torch.Tensor | None = None
        self._counts: torch.Tensor | None = None
        self.projection: Any = None  # of the rule that has one
        self._first_count = 0

    def is_fused(self, operator: str) -> bool:
        """Whether the provider has the step as one kernel. If not, it is composed of launches whose number does not depend on the
        number of parameters either."""
        return self.param.device.type == "npu" and torch._C._dispatch_has_kernel_for_dispatch_key(operator, "PrivateUse1")

    def count_on_card(self) -> torch.Tensor:
        """`step` for kernels that read it on the card: a view of numbers that went there together, so most steps copy nothing."""
        index = int(self.step) - self._first_count
        if self._counts is None or not 0 <= index < len(self._counts):
            self._first_count, index = int(self.step), 0
            self._counts = torch.arange(self._first_count, self._first_count + 4096, dtype=torch.float32, device=self.param.device)
        return self._counts[index]

    def _combine_state(self, name: str, initial: float) -> torch.Tensor:
        for parameter, state in zip(self.parameters, self._states):
            if name not in state:
                state[name] = torch.full_like(parameter, initial, memory_format=torch.contiguous_format)
        return combine([state[name] for state in self._states])

    def gather_gradients(self) -> None:
        """Gradients that autograd has made anew move into the buffer."""
        grads = gradients_of(self.parameters)
        if not is_combined_tensor_valid(self.grad, grads):
            self.grad = combine(grads)

    def is_valid(self, parameters: list[torch.nn.Parameter]) -> bool:
        """Whether this still is the memory of exactly these parameters and of their state."""
        return (
            len(parameters) == len(self.parameters)
            and all(a is b for a, b in zip(parameters, self.parameters))
            and is_combined_tensor_valid(self.param, self.parameters)
            and all(state.get("step") is self.step for state in self._states)
            and all(
                is_combined_tensor_valid(combined, [state.get(name) for state in self._states])
                for name, combined in self.state.items()
            )
        )

    def spread(self, numbers: torch.Tensor) -> torch.Tensor:
        """One number for each parameter, repeated for each of its elements: a buffer of this bucket's length."""
        if self._sizes_on_card is None:
            self._sizes_on_card = torch.tensor(self.sizes, device=self.param.device)
        return numbers.repeat_interleave(self._sizes_on_card, output_size=self.param.numel())

    def split(self, combined: torch.Tensor) -> list[torch.Tensor]:
        """A buffer of this bucket's length as tensors of the parameters' shapes."""
        return [part.view(p.shape) for part, p in zip(combined.split(self.sizes), self.parameters)]


class NpuFusedOptimizerBase(Optimizer):
    """A subclass says which state a parameter has, state_of(group) -> {name: initial value}, and gives update(group, bucket)."""

    def __init__(self, params, default: dict) -> None:
        self._buckets: dict[int, list[Bucket]] = {}
        super().__init__(params, default)

    def state_of(self, group: dict) -> dict[str, float]:
        return {}

    def update(self, group: dict, bucket: Bucket) -> None:
        raise NotImplementedError

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        buckets = self._combine()
        self.before_update([bucket for group in buckets for bucket in group])
        for group, group_buckets in zip(self.param_groups, buckets):
            for bucket in group_buckets:
                self.update(group, bucket)
        return loss

    def before_update(self, buckets: list[Bucket]) -> None:
        """For rules that look at all gradients first."""

    def _combine(self) -> list[list[Bucket]]:
        return [self._buckets_of(index, group) for index, group in enumerate(self.param_groups)]

    def _buckets_of(self, index: int, group: dict) -> list[Bucket]:
        members: dict[tuple, list] = {}
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            if parameter.grad.is_sparse:
                raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")
            step = self.state[parameter].get("step", 0.0)
            members.setdefault((parameter.dtype, parameter.device, float(step)), []).append(parameter)
        buckets, names = self._buckets.get(index, []), self.state_of(group)
        current = list(members.values())
        if len(buckets) == len(current) and all(bucket.is_valid(p) for bucket, p in zip(buckets, current)):
            for bucket in buckets:
                bucket.gather_gradients()
        else:
            buckets = [Bucket(parameters, [self.state[p] for p in parameters], names) for parameters in current]
            self._buckets[index] = buckets
        return buckets

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Zeroes the combined gradients; set_to_none=True gives them up, as in torch.optim."""
        if set_to_none:
            super().zero_grad(set_to_none=True)
            return
        buckets = [bucket for group in self._buckets.values() for bucket in group]
        whole = [b for b in buckets if is_combined_tensor_valid(b.grad, [p.grad for p in b.parameters])]
        covered = {id(p) for bucket in whole for p in bucket.parameters}
        others = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None and id(p) not in covered]
        grads = [bucket.grad for bucket in whole] + [grad.detach() for grad in others]
        if grads:
            torch._foreach_zero_(grads)

    def get_combined_params(self) -> list[torch.Tensor]:
        """The buffers of parameters that have gradients, one per group, dtype and device."""
        return [bucket.param for group in self._combine() for bucket in group]

    def get_combined_grads(self) -> list[torch.Tensor]:
        return [bucket.grad for group in self._combine() for bucket in group]

    @torch.no_grad()
    def clip_grad_norm_fused_(self, max_norm: float, norm_type: float = 2) -> torch.Tensor:
        """torch.nn.utils.clip_grad_norm_ over all parameters of this optimiser; returns the norm before clipping."""
        grads = self.get_combined_grads()
        if not grads:
            return torch.tensor(0.0)
        norms = torch.stack([torch.linalg.vector_norm(grad, norm_type).to(grads[0].device) for grad in grads])
        total = torch.linalg.vector_norm(norms, norm_type)
        coefficient = torch.clamp(max_norm / (total + 1e-6), max=1.0)
        for grad in grads:
            grad.mul_(coefficient.to(grad.device))
        return total

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        self._buckets = {}

    def load_state_dict(self, state_dict: dict) -> None:
        super().load_state_dict(state_dict)
        self._buckets = {}
