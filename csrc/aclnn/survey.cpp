#include "aclnn/survey.h"

#include <unordered_map>

namespace npu::ops {

std::vector<const uint64_t*> tensor_arguments(PhaseOne phase_one, const Packer& packer) {
  std::vector<const uint64_t*> starts;
  Unpacker survey(packer.words.data() + 1, &starts);
  uint64_t size;
  aclOpExecutor* executor;
  phase_one(nullptr, survey, &size, &executor);
  return starts;
}

uint64_t written_by(std::string_view op) {
  static const std::unordered_map<std::string_view, uint64_t> all = {
#include "aclnn_outputs.inc"
  };
  const auto found = all.find(op);
  return found == all.end() ? 0 : found->second;
}

std::vector<PackedTensor> packed_tensors(PhaseOne phase_one, const Packer& packer) {
  std::vector<PackedTensor> all;
  const auto starts = tensor_arguments(phase_one, packer);
  size_t address = 0;
  for (size_t argument = 0; argument < starts.size(); argument++) {
    const uint64_t* word = starts[argument];
    const bool is_list = (*word & 0xff) == kTensorList;
    for (uint64_t left = is_list ? *word++ >> 8 : 1; left > 0; left--) {
      const TensorWords t(word);
      word = t.end;
      if (t.present) all.push_back({t, packer.addresses[address++], argument});
    }
  }
  return all;
}

}  // namespace npu::ops
