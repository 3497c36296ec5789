// JSON: whether a text is one value (CANN's libraries read on with what they understand of a broken file), and strings.
#pragma once

#include <string>
#include <string_view>

namespace npu {

bool is_json(std::string_view text);
std::string quoted(const std::string& text);

}  // namespace npu
