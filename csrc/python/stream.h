// Between a Python stream object (torch.Stream or its subclass torch.npu.Stream) and npu::Stream.
#pragma once

#include "python/module.h"
#include "runtime/stream.h"

namespace npu::python {

// Raises TypeError for what is not a stream, and torch's error for a stream of another device.
Stream unwrap_stream(PyObject* object);

}  // namespace npu::python
