"""Single steps of optimisers on the tensors out=(var, m, v)."""


def _needs_out(*args, **kwargs):
    raise RuntimeError("this operator updates its parameters: call it with out=(var, m, v)")


npu_apply_adam = npu_apply_adam_w = npu_bert_apply_adam = _needs_out


def npu_bert_apply_adam_out(lr, beta1, beta2, epsilon, grad, max_grad_norm, global_grad_norm, weight_decay, step_size=None,
                            adam_mode=0, *, var, m, v):
    """BertAdam: no bias correction; gradients whose global norm is above max_grad_norm are scaled down."""
    if adam_mode not in (0, 1):
        raise ValueError(f"adam_mode must be 0 or 1, not {adam_mode}")
    if max_grad_norm > 0 and global_grad_norm > max_grad_norm:
        grad = grad * (max_grad_norm / global_grad_norm)
    m.lerp_(grad, 1 - beta1)
    v.lerp_(grad * grad, 1 - beta2)
    var.sub_(m / (v.sqrt() + epsilon) + weight_decay * var, alpha=lr if step_size is None else lr * step_size)
    return var, m, v
