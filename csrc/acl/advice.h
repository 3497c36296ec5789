// What is wrong and what to do about it, one sentence for each code of the runtime: the first line of an error.
#pragma once

namespace npu::acl {

// Every code of abi/acl_types.h has one of them, others have nullptr. The general kind says less than the device's
// words do, where it has any: they come first then.
const char* advice(int code) noexcept;
const char* general_advice(int code) noexcept;

}  // namespace npu::acl
