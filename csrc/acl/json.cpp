#include "acl/json.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace npu {

namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}
  bool is_value() { return value(0) && (space(), rest_.empty()); }

 private:
  void space() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size())); }
  bool take(std::string_view token) {
    space();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  bool string() {
    if (!take("\"")) return false;
    for (size_t at = 0; at < rest_.size(); ++at) {
      if (rest_[at] == '\\') {
        ++at;
      } else if (rest_[at] == '"') {
        rest_.remove_prefix(at + 1);
        return true;
      }
    }
    return false;
  }
  bool number() {
    const size_t end = std::min(rest_.find_first_not_of("+-.eE0123456789"), rest_.size());
    const std::string digits(rest_.substr(0, end));
    char* last = nullptr;
    std::strtod(digits.c_str(), &last);
    rest_.remove_prefix(end);
    return end > 0 && *last == '\0';
  }
  template <typename Item>
  bool list(std::string_view close, Item item) {
    if (take(close)) return true;
    do {
      if (!item()) return false;
    } while (take(","));
    return take(close);
  }
  bool value(int depth) {
    if (depth > 64) return false;
    if (take("{")) return list("}", [&] { return string() && take(":") && value(depth + 1); });
    if (take("[")) return list("]", [&] { return value(depth + 1); });
    if (rest_.starts_with('"')) return string();
    return take("true") || take("false") || take("null") || number();
  }

  std::string_view rest_;
};

}  // namespace

bool is_json(std::string_view text) { return Reader(text).is_value(); }

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) {
      out += c;
    } else {
      char escaped[8];
      snprintf(escaped, sizeof(escaped), "\\u%04x", c);
      out += escaped;
    }
  }
  return out + '"';
}

}  // namespace npu
