"""Single steps of optimisers on the tensors out=(var, m, v)."""


def _needs_out(*args, **kwargs):
    raise RuntimeError("this operator updates its parameters: call it with out=(var, m, v)")


npu_apply_adam = npu_apply_adam_w = npu_bert_apply_adam = _needs_out


def npu_apply_adam_out(beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad, use_locking, use_nesterov, *, var, m, v):
    """Adam; beta1_power and beta2_power belong to this step."""
    m.lerp_(grad, 1 - beta1)
    v.lerp_(grad * grad, 1 - beta2)
    direction = m * beta1 + grad * (1 - beta1) if use_nesterov else m
    var.sub_(direction / (v.sqrt() + epsilon), alpha=lr * (1 - beta2_power) ** 0.5 / (1 - beta1_power))
    return var, m, v


def npu_apply_adam_w_out(beta1_power, beta2_power, lr, weight_decay, beta1, beta2, epsilon, grad, max_grad_norm, amsgrad, maximize,
                         *, var, m, v):
    """AdamW; beta1_power and beta2_power belong to the step before. With amsgrad, max_grad_norm holds the largest v so far."""
    grad = -grad if maximize else grad
    m.lerp_(grad, 1 - beta1)
    v.lerp_(grad * grad, 1 - beta2)
    square = v
    if amsgrad:
        square = max_grad_norm.copy_(max_grad_norm.maximum(v))
    root = (square / (1 - beta2_power * beta2)).sqrt() + epsilon
    var.mul_(1 - lr * weight_decay).sub_(m / root, alpha=lr / (1 - beta1_power * beta1))
    return var, m, v


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
