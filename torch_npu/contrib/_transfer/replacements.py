"""What is replaced as a whole, because more than an argument differs: `.cuda()`, `.is_cuda`, a few functions of torch."""

import sys
from collections.abc import Callable

import torch

from torch_npu import npu
from torch_npu.contrib._transfer import arguments, environment
from torch_npu.contrib._transfer.report import Row
from torch_npu.contrib._transfer.table import TOLD_THE_TRUTH

_TENSOR_TYPES = {"torch.cuda." + name: "torch.npu." + name for name in dir(npu) if name.endswith("Tensor")}


def _tensor_cuda(original, row):
    def cuda(self, device=None, non_blocking=False, memory_format=torch.preserve_format):
        row.uses += 1
        environment.before_use()
        return self.npu(arguments.device(device), non_blocking, memory_format=memory_format)

    return cuda


def _module_cuda(original, row):
    def cuda(self, device=None):
        row.uses += 1
        environment.before_use()
        return self.npu(arguments.device(device))

    return cuda


def _storage_cuda(original, row):
    def cuda(self, device=None, non_blocking=False):
        row.uses += 1
        return self.npu(arguments.device(device), non_blocking)

    return cuda


def _is_cuda(original, row):
    def is_cuda(self) -> bool:
        return self.device.type in ("npu", "cuda")

    return property(is_cuda)


def _cuda_array_interface(original, row):
    """Its address would be one of a card that no library for CUDA can use; hasattr() must say no."""

    def interface(self):
        if self.device.type == "npu":
            raise AttributeError("__cuda_array_interface__: an npu tensor has no CUDA memory; pass tensor.cpu().numpy() instead")
        return original.__get__(self)

    return property(interface)


def _is_cuda_in_dynamo(original, row):
    """Dynamo folds tensor.is_cuda by itself."""

    def method_attr_is_cuda(self, tx):
        from torch._dynamo.variables import ConstantVariable

        return None if self.device is None else ConstantVariable.create(self.device.type in ("npu", "cuda"))

    return method_attr_is_cuda


def _tensor_type(original, row):
    """x.type("torch.cuda.FloatTensor") and x.type(torch.cuda.FloatTensor)."""

    def type(self, dtype=None, non_blocking=False, **kwargs):
        if isinstance(dtype, str) and dtype in _TENSOR_TYPES:
            dtype = getattr(npu, _TENSOR_TYPES[dtype].rpartition(".")[2])
        if getattr(dtype, "is_npu", False):
            row.uses += 1
            return self.to("npu" if not self.is_npu else self.device, dtype.dtype, non_blocking)
        return original(self, non_blocking=non_blocking, **kwargs) if dtype is None else original(self, dtype, non_blocking, **kwargs)

    return type


def _set_default_tensor_type(original, row):
    """The npu has no tensor type torch's C++ knows: the default dtype and the default device say the same."""

    def set_default_tensor_type(t):
        if isinstance(t, str) and t in _TENSOR_TYPES:
            t = getattr(npu, _TENSOR_TYPES[t].rpartition(".")[2])
        if not getattr(t, "is_npu", False):
            return original(t)
        row.uses += 1
        torch.set_default_dtype(t.dtype)
        torch.set_default_device("npu")

    return set_default_tensor_type


def is_available_for(module: str) -> bool:
    """Whether code of a module should take its GPU path: whether there is an npu. See table.TOLD_THE_TRUTH for the exceptions."""
    from torch_npu.contrib._transfer import patches

    environment.before_use()
    package = module.partition(".")[0]
    return package not in (*TOLD_THE_TRUTH, *patches.excluded) and npu.is_available()


def _is_available(original, row):
    def is_available() -> bool:
        available = is_available_for(sys._getframe(1).f_globals.get("__name__", ""))
        row.uses += available
        return available

    return is_available


def _get_device_properties(original, row):
    """Inductor asks for what a CUDA or ROCm build of torch answers, and expects that any other refuses."""

    def get_device_properties(device=None):
        if sys._getframe(1).f_globals.get("__name__", "").startswith("torch._inductor."):
            raise AssertionError("Torch not compiled with CUDA enabled")
        row.uses += 1
        return npu.get_device_properties(arguments.device(device))

    return get_device_properties


def _is_nccl_available(original, row):
    def is_nccl_available() -> bool:
        row.uses += 1
        return "hccl" in torch.distributed.Backend.backend_list

    return is_nccl_available


def _process_group_nccl(original, row):
    from torch_npu.distributed.backend import backend_module

    return backend_module().ProcessGroupHCCL


def _autograd_profiler(original, row):
    """torch.autograd.profiler.profile(use_cuda=True) or (use_device="cuda")."""

    def __init__(self, enabled=True, *, use_cuda=False, use_device=None, **kwargs):
        if use_cuda or use_device == "cuda":
            row.uses += 1
            supported = torch.profiler.ProfilerActivity.PrivateUse1 in torch.profiler.supported_activities()
            use_device = "npu" if supported else None
        original(self, enabled, use_device=use_device, **kwargs)

    return __init__


class _Graph(npu.graph):
    """torch.cuda.graph, whose parameters have other names and places than those of torch.npu.graph."""

    def __init__(self, cuda_graph, pool=None, stream=None, capture_error_mode="global", enable_annotations=False,
                 check_input_liveness=False):
        if enable_annotations:
            raise NotImplementedError("enable_annotations needs CUDA's library; leave it out. Names in a profile come from torch.npu.mstx.")
        if check_input_liveness:
            raise NotImplementedError("check_input_liveness is not there; SOFTNPU_STRICT=1 refuses a replay after an input was freed.")
        super().__init__(cuda_graph, pool, stream, capture_error_mode=capture_error_mode)


def _graph(original, row):
    return _Graph


def _no_arguments(function: Callable) -> Callable:
    def make(original, row: Row):
        def replacement(*args, **kwargs):
            row.uses += 1
            return function(*args, **kwargs)

        return replacement

    return make


def _default_backends(original: dict, row: Row) -> dict:
    return {device: backend for device, backend in original.items() if device != "cuda"}


def capability() -> tuple[int, int]:
    """What scripts compare with a GPU's: TORCH_NPU_DEVICE_CAPABILITY, or less than any GPU has, so that they take no CUDA path."""
    return npu.get_device_capability() or (0, 0)


def _capability_part(index: int) -> Callable:
    return lambda original, row: property(lambda properties: capability()[index])


def _handle(name: str) -> Callable:
    return lambda original, row: property(lambda owner: getattr(owner, name))


REPLACEMENTS: dict[str, Callable] = {
    "torch:Tensor.cuda": _tensor_cuda,
    "torch:Tensor.is_cuda": _is_cuda,
    "torch:Tensor.__cuda_array_interface__": _cuda_array_interface,
    "torch:Tensor.type": _tensor_type,
    "torch.nn:Module.cuda": _module_cuda,
    "torch._dynamo.variables.tensor:TensorVariable.method_attr_is_cuda": _is_cuda_in_dynamo,
    "torch:UntypedStorage.cuda": _storage_cuda,
    "torch:UntypedStorage.is_cuda": _is_cuda,
    "torch:TypedStorage.cuda": _storage_cuda,
    "torch:TypedStorage.is_cuda": _is_cuda,
    "torch.set_default_tensor_type": _set_default_tensor_type,
    "torch.get_autocast_gpu_dtype": _no_arguments(lambda: torch.get_autocast_dtype("npu")),
    "torch.set_autocast_gpu_dtype": _no_arguments(lambda dtype: torch.set_autocast_dtype("npu", dtype)),
    "torch.cuda.is_available": _is_available,
    "torch.cuda.get_device_properties": _get_device_properties,
    "torch.cuda.get_device_capability": _no_arguments(lambda device=None: capability()),
    "torch_npu._C:_NPUDeviceProperties.major": _capability_part(0),
    "torch_npu._C:_NPUDeviceProperties.minor": _capability_part(1),
    "torch_npu.npu.streams:Stream.cuda_stream": _handle("npu_stream"),
    "torch_npu.npu.streams:Event.cuda_event": _handle("npu_event"),
    "torch.cuda.graph": _graph,
    "torch.cuda.graphs.graph": _graph,
    "torch.cuda.amp.common.amp_definitely_not_available": _no_arguments(lambda: not npu.is_available()),
    "torch.distributed.is_nccl_available": _is_nccl_available,
    "torch.distributed.distributed_c10d.is_nccl_available": _is_nccl_available,
    "torch.distributed.ProcessGroupNCCL": _process_group_nccl,
    "torch.distributed.distributed_c10d.ProcessGroupNCCL": _process_group_nccl,
    "torch.distributed:Backend.default_device_backend_map": _default_backends,
    "torch.autograd.profiler:profile.__init__": _autograd_profiler,
}


def cuda_checkpoints(obj, location: str):
    """For torch.serialization.register_package: a file written on CUDA is loaded to npu when no map_location is given."""
    if not location.startswith("cuda"):
        return None
    return torch.serialization.default_restore_location(obj, arguments.device(location))
