// Whether a text is one JSON value: CANN's libraries read on with what they understand of a broken file.
#pragma once

#include <string_view>

namespace npu {

bool is_json(std::string_view text);

}  // namespace npu
