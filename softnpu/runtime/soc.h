// The chips softnpu can be. One row per chip name in soc.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace softnpu {

struct Soc {
  const char* name;      // as aclrtGetSocName gives it
  const char* hardware;  // row and products of the compatibility table that carry it
  size_t memory;         // bytes of one card
  int ai_cores;
  int cube_cores;
  int vector_cores;
  int aicpu_cores;
  size_t l2_bytes;
  bool bf16;
};

constexpr const char* kDefaultSoc = "Ascend910B1";

const Soc* find_soc(const std::string& name);  // NULL for an unknown name
std::string soc_names();                       // "Ascend910A, Ascend910ProB, ..."

}  // namespace softnpu
