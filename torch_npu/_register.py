"""Tells torch about the npu device through its registration calls, and fills the few places where it has no hook."""

import atexit
import functools
import sys
from multiprocessing.reduction import ForkingPickler

import torch
from torch.multiprocessing.reductions import reduce_tensor

from torch_npu import _C
from torch_npu._after_import import after_import


def register() -> None:
    torch.utils.rename_privateuse1_backend("npu")
    from torch_npu import _grad_scaler, _printing, _torchvision, custom_ops, npu

    torch._register_device_module("npu", npu)
    # `import torch.npu.amp` must find the modules that exist, not load them a second time under another name.
    for name in [name for name in sys.modules if name.startswith("torch_npu.npu.")]:
        sys.modules["torch." + name.removeprefix("torch_npu.")] = sys.modules[name]
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)

    torch.version.__getattr__ = _version_attribute
    torch.Tensor.__dlpack_device__ = _dlpack_device
    torch.nn.DataParallel.__init__ = _data_parallel
    _printing.register(torch._tensor_str)
    _grad_scaler.register(torch.amp.GradScaler)
    for cls in (torch.Tensor, torch.nn.Parameter):
        ForkingPickler.register(cls, _reduce_tensor)
    _C._storage_Use_Count = torch._C._storage_Use_Count  # trl asks for it here; upstream's counts storages of every device
    custom_ops.register()
    after_import("torch._dynamo.device_interface", _register_interface)
    after_import("torch._dynamo", _register_rules)
    after_import("torch._inductor.codegen.common", _register_inductor)
    after_import("torch._inductor.compile_fx", _wrap_inductor)
    after_import("torch.nn.attention.flex_attention", _allow_flex_attention)
    after_import("torchvision.extension", _torchvision.add)
    after_import("torch.distributed.fsdp.sharded_grad_scaler", lambda module: _grad_scaler.register(module.ShardedGradScaler))
    if torch.distributed.is_available():
        from torch_npu.distributed import backend

        backend.register()
    atexit.register(_C.finalize)


def _register_interface(device_interface) -> None:
    """torch.compile asks about streams and properties. Importing the registration call by ourselves would take seconds."""
    from torch_npu.npu._dynamo import NpuInterface

    device_interface.register_interface_for_device("npu", NpuInterface)


def _register_rules(dynamo) -> None:
    from torch_npu.npu import _dynamo_rules

    _dynamo_rules.register()


def _register_inductor(common) -> None:
    from torch_npu.npu import _inductor

    _inductor.register(common)


def _wrap_inductor(compile_fx) -> None:
    from torch_npu.npu import _inductor

    _inductor.wrap_entry(compile_fx)


def _allow_flex_attention(module) -> None:
    """Upstream has a list of the devices that its operator takes; it runs on npu, with gradients, as it is."""
    upstream = module._validate_device

    @functools.wraps(upstream)
    def validate_device(query, key, value) -> None:
        if query.device.type != "npu":
            upstream(query, key, value)

    module._validate_device = validate_device


def _version_attribute(name: str):
    """torch.version.cann, read when asked for: `import torch` does not load the runtime library."""
    if name == "cann":
        return _C.cann_version() if _C.is_available() else None
    raise AttributeError(f"module 'torch.version' has no attribute '{name}'")


_upstream_dlpack_device = torch.Tensor.__dlpack_device__


def _dlpack_device(self: torch.Tensor):
    """Upstream's knows a PrivateUse1 device only under its name before the renaming."""
    if self.device.type == "npu" and not torch.overrides.has_torch_function_unary(self):
        from torch.utils.dlpack import DLDeviceType

        return DLDeviceType.kDLExtDev, self.device.index
    return _upstream_dlpack_device(self)


_dlpack_device.__name__ = "__dlpack_device__"


_upstream_data_parallel = torch.nn.DataParallel.__init__


@functools.wraps(_upstream_data_parallel)
def _data_parallel(self, *args, **kwargs) -> None:
    """Upstream's replicas need CUDA's own collectives, and fail in the first forward without a word of the reason.

    On one card there is nothing to replicate: the module is called as it is.
    """
    _upstream_data_parallel(self, *args, **kwargs)
    if not self.device_ids or self.src_device_obj.type != "npu":
        return
    if len(self.device_ids) > 1:
        raise RuntimeError(
            "torch.nn.DataParallel is not supported on several npu cards: use torch.nn.parallel.DistributedDataParallel with "
            "one process for each card, or show the program one card with ASCEND_RT_VISIBLE_DEVICES=0"
        )
    self.device_ids = []


def _reduce_tensor(tensor: torch.Tensor):
    """Pickling for torch.multiprocessing: host memory is shared, card memory is copied through the host.

    Refusing is no way: a queue pickles on a thread of its own, where an error loses the tensor and its reader waits for ever.
    """
    if tensor.device.type != "npu" or (tensor.requires_grad and not tensor.is_leaf):  # upstream refuses the latter
        return reduce_tensor(tensor)
    return _rebuild_tensor, (type(tensor), tensor.detach().cpu(), tensor.device, tensor.requires_grad)


def _rebuild_tensor(cls: type, host: torch.Tensor, device: torch.device, requires_grad: bool) -> torch.Tensor:
    tensor = host.to(device)
    if issubclass(cls, torch.nn.Parameter):
        return torch.nn.Parameter(tensor, requires_grad=requires_grad)
    return tensor.requires_grad_() if requires_grad else tensor
