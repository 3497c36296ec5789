"""The backend "hccl" for torch.distributed. Registered when torch_npu is imported, made when a group first needs it."""

import functools
import os

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import BackendConfig
from torch.nn.parallel import DistributedDataParallel

from torch_npu import _C


def register() -> None:
    dist.Backend.register_backend("hccl", _create, extended_api=True, devices=["npu"])
    BackendConfig.__init__ = _init_backend_config
    DistributedDataParallel._check_comm_hook = _check_comm_hook
    from torch_npu.distributed.distributed_c10d import is_hccl_available

    dist.is_hccl_available = is_hccl_available  # type: ignore[attr-defined] # beside upstream's is_nccl_available()
    backend_module()  # now: `from torch_npu._C._distributed_c10d import ProcessGroupHCCL` is the first line of some programs


_upstream_init_backend_config = BackendConfig.__init__


@functools.wraps(_upstream_init_backend_config)
def _init_backend_config(self, backend) -> None:
    """init_process_group() without a backend: hccl for npu, as upstream finds out, and gloo for what is on the CPU."""
    _upstream_init_backend_config(self, backend)
    if str(backend) == dist.Backend.UNDEFINED and "npu" in self.device_backend_map:
        self.device_backend_map["cpu"] = dist.Backend("gloo")


_upstream_check_comm_hook = DistributedDataParallel._check_comm_hook


@functools.wraps(_upstream_check_comm_hook)
def _check_comm_hook(self, hook) -> None:
    """Upstream has a list of the backends that may compress gradients to bfloat16; hccl reduces that type too."""
    is_bfloat16 = getattr(hook, "__name__", "") in ("bf16_compress_hook", "bf16_compress_wrapper_hook")
    if not (is_bfloat16 and self.device_type == "npu"):
        _upstream_check_comm_hook(self, hook)


def backend_module():
    """torch_npu._C._distributed_c10d: ProcessGroupHCCL."""
    _C._bind_distributed()
    return _C._distributed_c10d


def _create(group, options):
    module = backend_module()
    if options is None:
        options = module.ProcessGroupHCCL.Options()
    elif not isinstance(options, module.ProcessGroupHCCL.Options):
        raise TypeError(f"pg_options for hccl must be ProcessGroupHCCL.Options, got {type(options).__name__}")
    options._timeout = group.timeout
    options.group_name = group.group_id
    options.global_ranks_in_group = group.global_ranks_in_group
    # torchrun keeps its store when it starts the workers anew: what an earlier attempt left there must not be found.
    store = dist.PrefixStore(f"attempt/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", group.store)
    if _needs_gloo(store, group.group_rank, group.group_size):
        inner = dist.ProcessGroupGloo(
            dist.PrefixStore("gloo", store), group.group_rank, group.group_size, timeout=group.timeout
        )
        inner._set_sequence_number_for_group()
        return module.StagedBackend(inner, "hccl")
    return module.ProcessGroupHCCL(store, group.group_rank, group.group_size, options)


def _needs_gloo(store, rank: int, size: int) -> bool:
    """Whether ranks are on several hosts, which softnpu's HCCL does not connect. All ranks come to the same answer."""
    if not _C.is_softnpu():
        return False
    if _C._hccl_transport() == "gloo":
        return True
    if size == 1:
        return False
    store.set(f"host/{rank}", _host())
    hosts = {bytes(store.get(f"host/{other}")) for other in range(size)}
    return len(hosts) > 1


def _host() -> str:
    """The kernel's boot and the network namespace: the same for processes that can share memory and Unix sockets."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return f"{file.read().strip()} {os.stat('/proc/self/ns/net').st_ino}"


def hccl_backend(group=None):
    """The ProcessGroupHCCL (or its stand-in between hosts) of a group."""
    group = group if group is not None else dist.group.WORLD
    return group._get_backend(torch.device("npu"))
