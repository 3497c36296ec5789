"""amp.scale_loss: the context around backward."""

from contextlib import contextmanager

import torch

from apex.amp import frontend


@contextmanager
def scale_loss(
    loss: torch.Tensor,
    optimizers,
    loss_id: int = 0,
    model=None,
    delay_unscale: bool = False,
    delay_overflow_check: bool = False,
):
    """Gives the scaled loss to backward; afterwards the optimisers' gradients are unscaled and the scale has moved.

    delay_unscale=True leaves the gradients scaled, for another backward with the same loss_id before the step.
    `model` and `delay_overflow_check` are accepted for compatibility and have no effect.
    """
    if not frontend.is_initialized():
        raise RuntimeError("Invoked 'with amp.scale_loss`, but internal Amp state has not been initialized. "
                           "model, optimizer = amp.initialize(model, optimizer, opt_level=...) must be called before it.")
    if not frontend.is_enabled():
        yield loss
        return
    scaler = frontend.scaler(loss_id)
    states = [optimizer._amp for optimizer in ([optimizers] if isinstance(optimizers, torch.optim.Optimizer) else optimizers)]
    for state in states:
        state.before_backward()
    yield loss.float() * scaler.loss_scale()
    for state in states:
        state.unscale_pending = delay_unscale
    if delay_unscale:
        return
    overflow = [state.after_backward(scaler) for state in states]
    if scaler.update(any(overflow)):
        for state in states:
            state.skip_next_step = True
        frontend.say(f"Gradient overflow.  Skipping step, loss scaler {loss_id} reducing loss scale to {scaler.loss_scale()}")
