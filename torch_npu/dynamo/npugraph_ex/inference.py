"""Compiled graphs on disk."""

from torch_npu._refusal import refuse

__all__ = ["cache_compile", "readable_cache"]

_REASON = "captured graphs belong to the process that captured them; call torch.compile(function, backend=\"npu\") in each process"

cache_compile = refuse("cache_compile", _REASON, "func, *, config=None, dynamic=True, cache_dir=None, global_rank=None, tp_rank=None, "
                       "pp_rank=None, ge_cache=False, custom_decompositions=None, **kwargs")
readable_cache = refuse("readable_cache", _REASON, "cache_bin, print_output=True, file=None")
