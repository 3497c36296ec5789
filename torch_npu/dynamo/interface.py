"""What Dynamo and Inductor ask about the npu. Registered once torch._dynamo is imported (torch_npu/_register.py)."""

import torch
from torch._dynamo.device_interface import (
    DeviceInterface,
    caching_worker_current_devices,
    caching_worker_device_properties,
)

from torch_npu import _C
from torch_npu.npu import devices, memory, streams


class NpuInterface(DeviceInterface):
    device = devices.device
    Event = streams.Event
    Stream = streams.Stream

    class Worker:
        """The same questions in a compile worker, which must not use the card: the parent has asked before it forked."""

        @staticmethod
        def set_device(device: int) -> None:
            caching_worker_current_devices["npu"] = device

        @staticmethod
        def current_device() -> int:
            if "npu" in caching_worker_current_devices:
                return caching_worker_current_devices["npu"]
            return devices.current_device()

        @staticmethod
        def get_device_properties(device=None):
            if "npu" not in caching_worker_device_properties:
                cards = range(devices.device_count())
                caching_worker_device_properties["npu"] = [devices.get_device_properties(card) for card in cards]
            index = torch.device(device).index if isinstance(device, str) else getattr(device, "index", device)
            return caching_worker_device_properties["npu"][NpuInterface.Worker.current_device() if index is None else index]

    current_device = staticmethod(devices.current_device)
    set_device = staticmethod(devices.set_device)
    device_count = staticmethod(devices.device_count)
    exchange_device = staticmethod(_C.exchange_device)
    maybe_exchange_device = staticmethod(_C.maybe_exchange_device)
    is_available = staticmethod(devices.is_available)
    synchronize = staticmethod(devices.synchronize)
    stream = staticmethod(streams.stream)  # type: ignore[assignment] # upstream names torch.Stream, as for its own devices
    current_stream = staticmethod(streams.current_stream)
    set_stream = staticmethod(streams.set_stream)  # type: ignore[assignment]
    get_device_properties = staticmethod(devices.get_device_properties)  # type: ignore[assignment]
    get_compute_capability = staticmethod(devices.get_device_name)  # type: ignore[assignment]
    is_bf16_supported = staticmethod(devices.is_bf16_supported)
    memory_allocated = staticmethod(memory.memory_allocated)

    @staticmethod
    def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
        streams.set_stream(streams.Stream(stream_id=stream_id, device_index=device_index))

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        return streams.current_stream(device_idx).npu_stream
