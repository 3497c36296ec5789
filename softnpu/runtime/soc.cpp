#include "soc.h"

namespace softnpu {

namespace {

constexpr size_t GB = size_t{1} << 30;
constexpr size_t MB = size_t{1} << 20;

// Core counts and sizes are the published ones of the product lines; software does not depend on their exactness.
// Chips whose cube and vector units are not separate report the same number for both.
constexpr Soc kTable[] = {
    // name, hardware, memory, ai, cube, vector, aicpu, L2, bf16
    {"Ascend910A", "Atlas training: 800 (9000, 9010), 900 PoD (9000)", 32 * GB, 32, 32, 32, 14, 32 * MB, false},
    {"Ascend910ProB", "Atlas training: 300T, 300T Pro (9000)", 32 * GB, 30, 30, 30, 14, 32 * MB, false},
    {"Ascend910B1", "Atlas A2 training: 800T A2, 900 A2 PoD", 64 * GB, 24, 24, 48, 6, 192 * MB, true},
    {"Ascend910B2", "Atlas A2 training: 800T A2, 900 A2 PoD", 64 * GB, 24, 24, 48, 6, 192 * MB, true},
    {"Ascend910B2C", "Atlas A2 training: 200T A2 Box16", 64 * GB, 24, 24, 48, 6, 192 * MB, true},
    {"Ascend910B3", "Atlas A2 training: 800T A2", 64 * GB, 20, 20, 40, 6, 192 * MB, true},
    {"Ascend910B4", "inference: 800I A2", 32 * GB, 20, 20, 40, 6, 96 * MB, true},
    {"Ascend910_9391", "Atlas A3 training: 900 A3 SuperPoD", 64 * GB, 24, 24, 48, 6, 192 * MB, true},
    {"Ascend910_9392", "Atlas A3 training: 800T A3", 64 * GB, 24, 24, 48, 6, 192 * MB, true},
};

}  // namespace

const Soc* find_soc(const std::string& name) {
  for (const Soc& soc : kTable)
    if (name == soc.name) return &soc;
  return nullptr;
}

std::string soc_names() {
  std::string names;
  for (const Soc& soc : kTable) names += (names.empty() ? "" : ", ") + std::string(soc.name);
  return names;
}

}  // namespace softnpu
