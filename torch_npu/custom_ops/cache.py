"""Writing into caches of keys and values."""

import torch

from torch_npu.custom_ops import refuse


def scatter_update_(self, indices, updates, axis):
    """Writes updates[i] into self[i], from place indices[i] of the axis on."""
    axis = axis % self.dim()
    places = indices.long().view(-1, 1) + torch.arange(updates.shape[axis], device=self.device)
    shape = [1] * self.dim()
    shape[0], shape[axis] = places.shape
    return self.scatter_(axis, places.view(shape).expand_as(updates), updates.to(self.dtype))


def scatter_update(self, indices, updates, axis):
    return scatter_update_(self.clone(), indices, updates, axis)


def npu_scatter_pa_kv_cache(key, value, key_cache, value_cache, slot_mapping, *, compress_lens=None, compress_seq_offsets=None,
                            seq_lens=None, cache_mode="PA_NZ"):
    """Writes each token's key and value at its slot of a paged cache.

    Norm: the cache is [blocks, slots of a block, heads, size]. PA_NZ: [blocks, heads * size / 16, slots of a block, 16].
    """
    refuse("npu_scatter_pa_kv_cache", compress_lens=compress_lens is not None, compress_seq_offsets=compress_seq_offsets is not None,
           seq_lens=seq_lens is not None)
    slots = slot_mapping.long()
    for tokens, cache in ((key, key_cache), (value, value_cache)):
        if cache_mode == "Norm":
            cache.index_put_((slots // cache.shape[1], slots % cache.shape[1]), tokens.to(cache.dtype))
        elif cache_mode == "PA_NZ":
            size = cache.shape[2]
            rows = tokens.flatten(1).unflatten(1, (cache.shape[1], cache.shape[3]))
            cache.transpose(1, 2).index_put_((slots // size, slots % size), rows.to(cache.dtype))
        else:
            raise ValueError(f"cache_mode must be 'Norm' or 'PA_NZ', not {cache_mode!r}")
