"""Callbacks for what orders work, as torch.cuda._gpu_trace has them; torch calls them by these names when its GPU trace is active."""

from torch._utils import CallbackRegistry

EventCreationCallbacks: CallbackRegistry = CallbackRegistry("NPU event creation")
EventDeletionCallbacks: CallbackRegistry = CallbackRegistry("NPU event deletion")
EventRecordCallbacks: CallbackRegistry = CallbackRegistry("NPU event record")
EventWaitCallbacks: CallbackRegistry = CallbackRegistry("NPU event wait")
MemoryAllocationCallbacks: CallbackRegistry = CallbackRegistry("NPU memory allocation")
MemoryDeallocationCallbacks: CallbackRegistry = CallbackRegistry("NPU memory deallocation")
StreamCreationCallbacks: CallbackRegistry = CallbackRegistry("NPU stream creation")
DeviceSynchronizationCallbacks: CallbackRegistry = CallbackRegistry("NPU device synchronization")
StreamSynchronizationCallbacks: CallbackRegistry = CallbackRegistry("NPU stream synchronization")
EventSynchronizationCallbacks: CallbackRegistry = CallbackRegistry("NPU event synchronization")
