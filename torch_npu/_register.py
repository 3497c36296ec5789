"""Tells torch about the npu device through its registration calls, and fills the few places where it has no hook."""

import atexit
import functools
import sys
from multiprocessing.reduction import ForkingPickler

import torch

from torch_npu import _C
from torch_npu._after_import import after_import


def register() -> None:
    torch.utils.rename_privateuse1_backend("npu")
    from torch_npu import _captured_steps, _fallback_modules, _grad_scaler, _printing, _torchvision, custom_ops, npu

    torch._register_device_module("npu", npu)
    from torch_npu.multiprocessing import reductions

    # `import torch.npu.amp` must find the modules that exist, not load them a second time under another name.
    for name in [name for name in sys.modules if name.startswith("torch_npu.npu.")]:
        sys.modules["torch." + name.removeprefix("torch_npu.")] = sys.modules[name]
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)

    torch.version.__getattr__ = _version_attribute
    torch.Tensor.__dlpack_device__ = _dlpack_device
    torch.Tensor.__dlpack__ = _dlpack
    torch.nn.DataParallel.__init__ = _data_parallel
    if not torch._C._has_cuda:
        torch.cuda._lazy_init = _point_to_npu(torch.cuda._lazy_init)
    _printing.register(torch._tensor_str)
    _grad_scaler.register(torch.amp.GradScaler)
    _captured_steps.register()
    for cls in (torch.Tensor, torch.nn.Parameter):
        ForkingPickler.register(cls, reductions.reduce_tensor)
    ForkingPickler.register(npu.Event, reductions.reduce_event)
    # Programs that move weights between processes call it by name (verl, ms-swift, vllm-ascend); upstream knows CUDA's memory alone.
    torch.multiprocessing.reductions.reduce_tensor = reductions.reduce_tensor
    _C._storage_Use_Count = torch._C._storage_Use_Count  # trl asks for it here; upstream's counts storages of every device
    _C._NPUTaskGroupHandle = int  # what graph_task_group_end() returns
    custom_ops.register()
    _fallback_modules.register()
    after_import("torch._dynamo.device_interface", _register_interface)
    after_import("torch._dynamo", _register_rules)
    after_import("torch._functorch._aot_autograd.utils", _register_recomputation)
    after_import("torch._inductor.codegen.common", _register_inductor)
    after_import("torch._inductor.compile_fx", _wrap_inductor)
    after_import("torch.nn.attention.flex_attention", _allow_flex_attention)
    after_import("torchvision.extension", _torchvision.add)
    after_import("torch.distributed.fsdp.sharded_grad_scaler", lambda module: _grad_scaler.register(module.ShardedGradScaler))
    if torch.distributed.is_available():
        from torch_npu.distributed import backend

        backend.register()
        after_import("torch.distributed.tensor", _register_sharding)
        after_import("torch.distributed.tensor.experimental._context_parallel._attention", _register_rings)
    atexit.register(_C.finalize)
    atexit.register(reductions.end)  # before the cards are closed


def _point_to_npu(upstream):
    """What programs for CUDA meet first. There is no hook: torch looks the function up by name when a CUDA tensor is asked for."""

    @functools.wraps(upstream)
    def lazy_init() -> None:
        try:
            upstream()
        except AssertionError as error:
            raise AssertionError(f"{error}. `import torch_npu.contrib.transfer_to_npu` runs programs for CUDA on the npu; or write "
                                 ".npu() and device=\"npu\". See docs/migration.md.") from None

    return lazy_init


def _register_interface(device_interface) -> None:
    """torch.compile asks about streams and properties. Importing the registration call by ourselves would take seconds."""
    from torch_npu.dynamo.interface import NpuInterface

    device_interface.register_interface_for_device("npu", NpuInterface)


def _register_rules(dynamo) -> None:
    from torch_npu.dynamo import rules

    rules.register()


def _register_recomputation(utils) -> None:
    """Random numbers of checkpointed activations, which a compiled backward pass draws again."""
    utils.register_graphsafe_rng_device_type("npu")


def _register_inductor(common) -> None:
    from torch_npu.dynamo import inductor

    inductor.register(common)


def _wrap_inductor(compile_fx) -> None:
    from torch_npu.dynamo import inductor

    inductor.wrap_entry(compile_fx)


def _register_sharding(_tensor) -> None:
    from torch_npu.distributed import attention, sharding

    attention.register()
    sharding.register()


def _register_rings(context_parallel) -> None:
    from torch_npu.distributed import attention

    attention.register_rings(context_parallel)


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

_upstream_dlpack = torch.Tensor.__dlpack__


@functools.wraps(_upstream_dlpack)
def _dlpack(self: torch.Tensor, *, stream=-1, **kwargs):
    """Upstream's reads the consumer's stream for CUDA only: here the stream waits for what this thread's stream was given."""
    if self.device.type == "npu" and type(stream) is int and stream != -1 and not torch.overrides.has_torch_function_unary(self):
        from torch_npu import npu

        if stream <= 0:
            raise BufferError(f"stream must be the address of an aclrtStream, or -1, but got {stream}")
        npu.ExternalStream(stream, self.device).wait_stream(npu.current_stream(self.device))
    return _upstream_dlpack(self, stream=stream, **kwargs)


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
