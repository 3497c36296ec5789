"""Copies the next batch of a loader to the card while the current one is computed with."""

from torch_npu import npu

__all__ = ["Prefetcher"]


class Prefetcher:
    """next() gives (input, target) on the card, (None, None) behind the last batch. The loader should pin its memory."""

    def __init__(self, loader, stream=None) -> None:
        self.loader = iter(loader)
        self.stream = stream if stream is not None else npu.Stream()
        self.preload()

    def preload(self) -> None:
        batch = next(self.loader, None)
        if batch is None:
            self.next_input = self.next_target = None
            return
        with npu.stream(self.stream):
            self.next_input, self.next_target = (tensor.npu(non_blocking=True) for tensor in batch)

    def next(self):
        current = npu.current_stream()
        current.wait_stream(self.stream)
        result = self.next_input, self.next_target
        for tensor in result:
            if tensor is not None:
                tensor.record_stream(current)
        if result[0] is not None:
            self.preload()
        return result
