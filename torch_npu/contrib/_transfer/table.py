"""What transfer_to_npu redirects, as data.

A name is `module.function` or, inside a class, `module:Class.method`. ARGUMENTS gives, for a function or method, the
parameters in which "cuda" or "nccl" is rewritten: `name` by keyword, `name@i` also as positional argument i (self
counts), `name@i=value` also when it is missing.
"""

_FACTORIES = """
    arange as_tensor asarray bartlett_window blackman_window empty empty_like empty_permuted empty_quantized empty_strided eye
    from_file full full_like hamming_window hann_window kaiser_window linspace logspace normal ones ones_like rand
    rand_like randint randint_like randn randn_like randperm range scalar_tensor sparse_bsc_tensor sparse_bsr_tensor
    sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor tensor tril_indices triu_indices zeros
    zeros_like _empty_affine_quantized _empty_per_channel_affine_quantized
""".split()
_NEW = "new_empty new_empty_strided new_full new_ones new_tensor new_zeros".split()

ARGUMENTS: dict[str, str] = {
    **{f"torch.{name}": "device" for name in _FACTORIES},
    **{f"torch:Tensor.{name}": "device" for name in _NEW},
    "torch.nested.nested_tensor": "device",
    "torch.nested.as_nested_tensor": "device@2",
    "torch.random.fork_rng": "devices@0 device_type",
    "torch.fft.fftfreq": "device",
    "torch.fft.rfftfreq": "device",
    "torch:Tensor.to": "device@1",
    "torch:Tensor.pin_memory": "device@1",
    "torch:Tensor.is_pinned": "device@1",
    "torch:UntypedStorage.is_pinned": "device@1",
    "torch:TypedStorage.is_pinned": "device@1",
    "torch._pin_memory": "device@1",
    "torch._cudnn_init_dropout_state": "device",
    "torch.nn:Module.to": "device@1",
    "torch.nn:Module.to_empty": "device",
    "torch:UntypedStorage.__new__": "device",
    "torch:UntypedStorage.to": "device",
    "torch:TypedStorage.to": "device",
    "torch.load": "map_location@1",
    "torch.jit.load": "map_location@1",
    "torch.set_default_device": "device@0",
    "torch.get_device_module": "device@0",
    "torch.utils._device:DeviceContext.__init__": "device@1",
    "torch.utils.data:DataLoader.__init__": "pin_memory_device",
    # mixed precision
    "torch.amp:autocast.__init__": "device_type@1",
    "torch.amp:GradScaler.__init__": "device@1=npu",
    "torch.amp.custom_fwd": "device_type",
    "torch.amp.custom_bwd": "device_type",
    "torch.is_autocast_enabled": "device_type@0=npu",
    "torch.get_autocast_dtype": "device_type@0",
    "torch.set_autocast_dtype": "device_type@0",
    "torch.set_autocast_enabled": "device_type@0",
    # distributed
    "torch.distributed.init_process_group": "backend@0 device_id",
    "torch.distributed.new_group": "backend@2 device_id",
    "torch.distributed.distributed_c10d.init_process_group": "backend@0 device_id",
    "torch.distributed.distributed_c10d.new_group": "backend@2 device_id",
    "torch.distributed.distributed_c10d._new_group_with_tag": "backend@2 device_id",
    "torch.distributed:ProcessGroup._get_backend": "device@1",
    "torch.distributed.init_device_mesh": "device_type@0",
    "torch.distributed.device_mesh.init_device_mesh": "device_type@0",
    "torch.distributed.device_mesh:DeviceMesh.__init__": "device_type@1",
    "torch.distributed.fsdp.fully_sharded_data_parallel:FullyShardedDataParallel.__init__": "device_id@10",
    "torch.distributed.pipelining.stage:PipelineStage.__init__": "device@4",
    "torch.distributed.pipelining.stage.build_stage": "device@3",
    "torch.nn.parallel:DistributedDataParallel.__init__": "device_ids@2 output_device@3",
    "torch.nn:DataParallel.__init__": "device_ids@2 output_device@3",
    # profiler
    "torch.profiler:_KinetoProfile.__init__": "activities",
    "torch.profiler:_KinetoProfile.export_memory_timeline": "device@2",
    # operators of the script's own
    "torch.library.custom_op": "device_types",
    "torch.library.register_kernel": "device_types@1",
    "torch.library.register_autocast": "device_type@1",
    "torch.library.impl": "types@1 dispatch_key@2",
    "torch.library:CustomOpDef.register_kernel": "device_types@1",
    "torch.library:CustomOpDef.register_autocast": "device_type@1",
    "torch.library:Library.__init__": "dispatch_key@3",
    "torch.library:Library.impl": "dispatch_key@3",
    # the npu's own classes, when they are reached as torch.cuda.device, torch.cuda.Stream
    "torch.npu:device.__init__": "device@1",
    "torch.npu:Stream.__new__": "device@1",
    "torch.npu:ExternalStream.__new__": "device@2",
}

# Classes that cannot be changed in place: a class that makes the same objects, for which isinstance holds, stands in.
CLASSES: dict[str, str] = {
    "torch.Generator": "device@0",
    "torch.Event": "device@0",
    "torch.Stream": "device@0",
}

# Modules of torch.cuda and the ones of torch.npu whose public names take their place.
MODULES: dict[str, str] = {
    "torch.cuda": "torch_npu.npu",
    "torch.cuda.graphs": "torch_npu.npu.graphs",
    "torch.cuda.memory": "torch_npu.npu.memory",
    "torch.cuda.random": "torch_npu.npu.random",
    "torch.cuda.streams": "torch_npu.npu.streams",
    "torch.cuda.nvtx": "torch_npu.npu.nvtx",
    "torch.cuda.amp": "torch_npu.npu.amp",
    "torch.cuda.amp.autocast_mode": "torch_npu.npu.amp",
    "torch.cuda.amp.grad_scaler": "torch_npu.npu.amp",
}

# What torch itself and its users call in torch.cuda beside the public names.
PRIVATE_NAMES = ("_lazy_init", "_lazy_call", "_is_in_bad_fork", "_get_device_index")
PRIVATE_MEMORY_NAMES = ("_record_memory_history", "_snapshot", "_dump_snapshot", "_set_allocator_settings")

# Names of torch.cuda that stand under another name in torch.npu.
RENAMED: dict[str, str] = {
    "torch.cuda.CUDAPluggableAllocator": "NPUPluggableAllocator",
    "torch.cuda.CUDAGraph": "NPUGraph",
    "torch.cuda.graphs.CUDAGraph": "NPUGraph",
}

_NCCL = "npu's collectives are HCCL's; use torch.distributed with the backend hccl"
_PROFILER = "the CUDA profiler does not see an npu; use torch.profiler"

# What has no counterpart: a call says so in one sentence. A name that torch.npu has is not refused.
REFUSED: dict[str, str] = {
    **{f"torch.cuda.{name}": "an npu has no CUDA library; cure: remove the call"
       for name in "cudart current_blas_handle current_solver_handle jiterator".split()},
    **{f"torch.cuda.{name}": "not known of an npu; cure: ask npu-smi, or torch.npu.utilization() and torch.npu.mem_get_info()"
       for name in "clock_rate device_memory_used list_gpu_processes memory_usage power_draw temperature".split()},
    **{f"torch.cuda.profiler.{name}": _PROFILER for name in "init profile start stop".split()},
    "torch.autograd.profiler.emit_nvtx": _PROFILER,
    **{f"torch.cuda.nccl.{name}": _NCCL
       for name in "all_gather all_reduce broadcast init_rank reduce reduce_scatter unique_id version".split()},
    **{f"torch.cuda.comm.{name}": "copies between cards of one process go by tensor.to(), those between processes by torch.distributed"
       for name in "broadcast broadcast_coalesced gather reduce_add reduce_add_coalesced scatter".split()},
    "torch.cuda._sleep": "an npu has no kernel that only waits; time.sleep() holds up the host",
}

# Packages that know npu by themselves, and torch, which asks whether CUDA's own library is there: torch.cuda.is_available()
# tells them that there is no CUDA, and they find npu.
TOLD_THE_TRUTH = ("torch", "torchvision", "torchaudio", "transformers", "accelerate", "peft", "trl", "diffusers")
