"""What analysis says about uses that work on npu, or nearly: precision, speed, counterparts made for npu. Data."""

import torch_npu

PRECISION: dict[str, str] = {
    **dict.fromkeys(
        ("torch.float64", "torch.double", "torch.DoubleTensor", "torch.cuda.DoubleTensor", "torch.Tensor.double", "torch.complex128"),
        "float64: it stays float64 on npu, and is slow or missing in operators of Ascend cards; use float32 where it suffices",
    ),
    "torch.set_default_dtype": "check that the default dtype is not float64, which is slow on Ascend cards",
    "torch.backends.cuda.matmul.allow_tf32": "TF32 is CUDA's; npu's counterpart is torch.npu.matmul.allow_hf32",
    "torch.backends.cudnn.allow_tf32": "TF32 is CUDA's; npu's counterpart is torch.npu.conv.allow_hf32",
}

# dtype -> chips that refuse it in nearly every operator, whatever softnpu does: softnpu/soc_limits.yaml, with sources.
HARDWARE: dict[str, str] = {
    "bfloat16": "Ascend910A, Ascend910ProB",
    "float64": "every Ascend chip",
    "uint64": "every Ascend chip",
    "complex32": "every Ascend chip",
    "float8_e4m3fn": "every Ascend chip",
    "float8_e5m2": "every Ascend chip",
}

PERFORMANCE: dict[str, str] = {
    "torch.Tensor.item": "waits for the card; in a loop, collect values and read them at the end",
    "torch.Tensor.nonzero": "its result's size depends on data, so it waits for the card",
    "torch.nonzero": "its result's size depends on data, so it waits for the card",
    "torch.masked_select": "its result's size depends on data, so it waits for the card",
    "torch.Tensor.masked_select": "its result's size depends on data, so it waits for the card",
    "torch.unique": "its result's size depends on data, so it waits for the card",
    "torch.cuda.synchronize": "waits for all work of the card; needed only around measurements",
    "torch.cuda.empty_cache": "returns memory that the next step allocates again; needed only between phases",
    "torch.nn.DataParallel": "not supported on several cards: use torch.nn.parallel.DistributedDataParallel",
    "torch.autograd.set_detect_anomaly": "slows every step down; for debugging only",
}

# API -> counterpart below torch_npu or torch.npu, told only if this build has it.
_AFFINITY: dict[str, str] = {
    "torch.optim.Adam": "optim.NpuFusedAdam",
    "torch.optim.AdamW": "optim.NpuFusedAdamW",
    "torch.optim.SGD": "optim.NpuFusedSGD",
    "torch.optim.Adadelta": "optim.NpuFusedAdadelta",
    "torch.optim.RMSprop": "optim.NpuFusedRMSprop",
    "apex.optimizers.FusedAdam": "optim.NpuFusedAdam",
    "torch.nn.functional.scaled_dot_product_attention": "npu_fusion_attention",
}

CUDA_PACKAGES: dict[str, str] = {
    "pycuda": "CUDA from Python; rewrite with torch operators",
    "cupy": "arrays on CUDA; rewrite with torch operators",
    "numba": "its cuda module compiles for CUDA; its CPU part works",
    "pynvml": "asks the CUDA driver; use torch.npu.mem_get_info() and torch.npu.utilization()",
    "tensorrt": "inference on CUDA only",
    "torch_tensorrt": "inference on CUDA only",
    "flash_attn": "CUDA kernels; use torch.nn.functional.scaled_dot_product_attention",
    "xformers": "CUDA kernels; use torch.nn.functional.scaled_dot_product_attention",
    "bitsandbytes": "CUDA kernels for 8-bit optimizers",
    "triton": "compiles kernels for CUDA; needs a backend for npu",
    "nvidia": "NVIDIA's libraries",
    "amp_C": "CUDA extension of apex",
    "apex_C": "CUDA extension of apex",
    "fused_layer_norm_cuda": "CUDA extension of apex",
    "spconv": "sparse convolutions with CUDA kernels",
    "torch_scatter": "has a CUDA extension; use torch.Tensor.scatter_reduce_",
}

CUDA_APIS: dict[str, str] = {
    "torch.utils.cpp_extension.CUDAExtension": "builds CUDA kernels; npu needs an operator of its own, or torch operators",
    "torch.utils.cpp_extension.load": "sources with CUDA kernels need an operator of npu, or torch operators",
    "torch.utils.cpp_extension.load_inline": "sources with CUDA kernels need an operator of npu, or torch operators",
}


def affinity(api: str) -> str:
    """The name of the counterpart in this build, or nothing."""
    name = _AFFINITY.get(api)
    for prefix, owner in (("torch_npu", torch_npu), ("torch.npu", torch_npu.npu)):
        if name and _has(owner, name):
            return f"{prefix}.{name}"
    return ""


def _has(owner, name: str) -> bool:
    for part in name.split("."):
        owner = getattr(owner, part, None)
    return owner is not None
