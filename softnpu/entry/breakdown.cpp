// Which faults a card has had, and their repair. See Note [Breakdowns] in runtime/breakdown.h.
#include <string.h>

#include <algorithm>

#include "entry.h"
#include "runtime/breakdown.h"
#include "runtime/context.h"

using namespace softnpu;

namespace {

aclrtErrorType type_of(const Breakdown& breakdown) {
  switch (breakdown.code) {
    case 0:
      return ACL_RT_NO_ERROR;
    case ACL_ERROR_RT_DEVICE_MEM_ERROR:
    case ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR:
    case ACL_ERROR_RT_SUSPECT_DEVICE_MEM_ERROR:
      return ACL_RT_ERROR_MEMORY;
    case ACL_ERROR_RT_LINK_ERROR:
      return ACL_RT_ERROR_LINK;
    default:
      return ACL_RT_ERROR_OTHERS;
  }
}

}  // namespace

aclError aclrtGetErrorVerbose(int32_t device, aclrtErrorInfo* info) {
  return guard("aclrtGetErrorVerbose", [&] {
    const auto breakdown = breakdown_of(card_of_device(device));
    memset(required(info, "errorInfo"), 0, sizeof *info);
    info->errorType = type_of(breakdown);
    auto& detail = info->detail.uceInfo;
    detail.arraySize = std::min<size_t>(breakdown.ranges.size(), ACL_RT_MEM_UCE_INFO_MAX_NUM);
    std::copy_n(breakdown.ranges.begin(), detail.arraySize, detail.memUceInfoArray);
    info->hasDetail = info->tryRepair = detail.arraySize > 0;
  });
}

aclError aclrtGetMemUceInfo(int32_t device, aclrtMemUceInfo* infos, size_t size, size_t* count) {
  return guard("aclrtGetMemUceInfo", [&] {
    const auto breakdown = breakdown_of(card_of_device(device));
    required(infos, "memUceInfoArray");
    *required(count, "retSize") = std::min(size, breakdown.ranges.size());
    std::copy_n(breakdown.ranges.begin(), *count, infos);
  });
}

aclError aclrtMemUceRepair(int32_t device, aclrtMemUceInfo* infos, size_t size) {
  return guard("aclrtMemUceRepair", [&] {
    const int card = card_of_device(device);
    repair(card, size ? required(infos, "memUceInfoArray") : infos, size);
  });
}

aclError aclrtRepairError(int32_t device, const aclrtErrorInfo* info) {
  return guard("aclrtRepairError", [&] {
    required(info, "errorInfo");
    repair_all(card_of_device(device));
  });
}
