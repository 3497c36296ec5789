// Calls of the functions that the headers declare. What an argument may be follows from its type and name: handles may
// be anything at all, but memory that a caller describes by address and length must be there, as for any C function.
#include <cstring>
#include <map>

#include "steps.h"

namespace fuzz {

namespace {

constexpr int kMostCopies = 24;  // of one call

void nothing(void*) {}

const std::map<std::string, Kind> kHandles = {
    {"aclrtStream", Kind::stream},
    {"rtStream_t", Kind::stream},
    {"aclrtEvent", Kind::event},
    {"aclrtContext", Kind::context},
    {"aclrtDrvMemHandle", Kind::physical},
    {"HcclComm", Kind::comm},
    {"LcclComm", Kind::comm},
    {"aclmdlRI", Kind::other},
    {"aclrtTaskGrp", Kind::other},
    {"aclmdlRICondHandle", Kind::other},
    {"aclprofStepInfoPtr", Kind::other},
    {"aclOpExecutor*", Kind::executor},
    {"aclTensor*", Kind::tensor},
    {"aclScalar*", Kind::scalar},
    {"aclIntArray*", Kind::ints},
    {"aclBoolArray*", Kind::bools},
    {"aclTensorList*", Kind::tensors},
    {"aclScalarList*", Kind::scalars},
    {"aclTensorDesc*", Kind::desc},
    {"aclDataBuffer*", Kind::buffer},
    {"aclopAttr*", Kind::attributes},
    {"aclGraphDumpOption*", Kind::other},
    {"aclprofConfig*", Kind::other},
    {"acltdtChannelHandle*", Kind::other},
    {"acltdtDataset*", Kind::other},
    {"acltdtDataItem*", Kind::other},
};

bool starts(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }
bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

std::string without_const(std::string type) {
  for (size_t at; (at = type.find("const")) != std::string::npos;) type.erase(at, type[at + 5] == ' ' ? 6 : 5);
  std::string plain;
  for (char c : type)
    if (c != ' ') plain += c;
  return plain;
}

// A variable that receives handles of `kind`, or an array of them that is read.
void* handle_cells(Values& values, Kind kind) {
  auto* cells = static_cast<uint64_t*>(values.zeros());
  for (int i = 0; i < 8; i++) cells[i] = values.handle(kind);
  return cells;
}

// Memory that is read or written: the card's, in or out of its bounds, or (then *host becomes true) the caller's own.
uint64_t memory_address(Values& values, bool* host) {
  const uint64_t block = reinterpret_cast<uint64_t>(values.block());
  switch (values.random.below(8)) {
    case 0:
      return 0;
    case 1:
      *host = true;
      return reinterpret_cast<uint64_t>(values.host_block());
    case 2:
      return values.pool().get(Kind::memory, values.random);
    case 3:
      return block + kCard - 8;
    default:
      return block + 64 * values.random.below(kCard / 128);
  }
}

class Call {
 public:
  Call(const Target& target, Values& values) : target_(target), values_(values), random_(values.random) {}

  Arguments arguments() {
    for (const Parameter& p : target_.parameters) add(p);
    // A copy to or from host memory is no longer than its buffers; the card's are checked.
    const bool copies = starts(target_.name, "aclrtMemcpy") || starts(target_.name, "aclrtMemset");
    if (host_ && copies && !has(target_.name, "Batch")) arguments_.integers[3] %= kScratch;
    return arguments_;
  }

  // What the call made becomes an argument of later ones.
  void harvest(uint64_t result) {
    const auto returned = kHandles.find(without_const(target_.result));
    if (returned != kHandles.end()) {
      if (result) values_.pool().put(returned->second, result);
      return;
    }
    if (static_cast<uint32_t>(result) != 0) return;
    for (const auto& [cell, kind] : outputs_)
      if (*cell) values_.pool().put(kind, *cell);
  }

 private:
  void add(const Parameter& p) {
    const std::string type = without_const(p.type);
    const auto handle = kHandles.find(type);
    const bool array = has(p.name, "[");
    if (handle != kHandles.end() && !array) return arguments_.add(values_.handle(handle->second));
    if (p.type == "char*") return arguments_.add(random_.one_in(12) ? nullptr : values_.zeros());  // is written
    if (type == "float" || type == "double") return add_real(type == "float");
    if (has(type, "Callback") && !has(type, "*") && !has(type, "Type")) return add_function();
    if (type == "aclrtHostFunc") return add_function();
    if (type.back() == '*' || array) return arguments_.add(pointer(type, p.name));
    if (p.name == "threadId" || p.name == "theadId") return arguments_.add(random_.below(3));
    if (p.name == "timeout") return arguments_.add(random_.below(4) - 1);  // -1 waits for as long as it takes
    if (type == "size_t" || type == "uint64_t") return arguments_.add(size(p.name));
    if (type == "uint32_t" && p.name == "nRanks") return arguments_.add(random_.one_in(20) ? 2 + random_.below(9) : 1);
    if (counts_an_array(p.name)) return arguments_.add(random_.below(5));
    if (type == "bool") return arguments_.add(random_.below(2));
    arguments_.add(static_cast<uint64_t>(values_.integer()));
  }

  void add_real(bool single) {
    double number = values_.real();
    const float narrow = static_cast<float>(number);
    if (single) memcpy(&number, &narrow, sizeof narrow);
    arguments_.add_real(number);
  }

  void add_function() { arguments_.add(random_.one_in(8) ? nullptr : reinterpret_cast<const void*>(&nothing)); }

  static bool counts_an_array(const std::string& name) {
    return has(name, "num") || has(name, "Num") || name == "ndev";
  }

  uint64_t size(const std::string& name) {
    if (counts_an_array(name) || has(name, "ength") || name == "len" || has(name, "Len") || name == "arg1" ||
        name == "arraySize")
      return random_.below(20);
    // How many values follow: the arrays have 64.
    if (name == "size" && starts(target_.name, "aclCreate") && target_.name != "aclCreateDataBuffer")
      return random_.one_in(10) ? ~0ull - random_.below(8) : random_.below(9);
    if (has(name, "ount") && starts(target_.name, "Hccl"))
      return random_.one_in(5) ? values_.bytes() : random_.below(256);
    return values_.bytes();
  }

  const void* pointer(const std::string& type, const std::string& name) {
    if (random_.one_in(12)) return nullptr;
    if (type == "char*") return random_.one_in(2) ? values_.zeros() : static_cast<const void*>("/nonexistent/fuzz");
    if (type == "void*") return void_pointer(name);
    if (type == "void**") return void_cells(name);
    if (type == "int64_t*" && has(name, "[")) return number_lists();
    const std::string pointee = has(name, "[") ? type : type.substr(0, type.size() - 1);
    const auto handles = kHandles.find(pointee);
    if (handles != kHandles.end()) {
      void* cells = handle_cells(values_, handles->second);
      outputs_.emplace_back(static_cast<uint64_t*>(cells), handles->second);
      return cells;
    }
    if (has(target_.name, "Batch")) return lengths();  // of copies that may be the host's
    const bool number = has(type, "int") || has(type, "size_t") || has(type, "float");
    return number && random_.one_in(2) ? values_.numbers() : values_.zeros();
  }

  // As many as any call names, of numbers each.
  const void* number_lists() {
    auto* cells = static_cast<void**>(values_.zeros());
    for (int i = 0; i < 8; i++) cells[i] = random_.one_in(12) ? nullptr : values_.numbers();
    return cells;
  }

  const void* lengths() {
    auto* lengths = static_cast<uint64_t*>(values_.zeros());
    for (int i = 0; i < kMostCopies; i++) lengths[i] = random_.one_in(4) ? 0 : random_.below(kScratch);
    return lengths;
  }

  const void* void_pointer(const std::string& name) {
    if (has(name, "ounts") || has(name, "displs")) return values_.numbers();
    if (has(name, "host") || has(name, "Host")) return host_memory();
    if (name == "virPtr" || name == "expectPtr" || name == "windowHandle" || name == "handle" || name == "addr")
      return reinterpret_cast<void*>(values_.handle(Kind::range));
    if (name == "devPtr" && target_.name == "aclrtFree") return reinterpret_cast<void*>(values_.handle(Kind::memory));
    if (target_.name == "aclCreateScalar" || name == "args" || name == "userData" || name == "sendRecvInfo")
      return values_.zeros();
    if (target_.name == "aclrtHostRegister" || target_.name == "aclrtHostRegisterV2" ||
        target_.name == "aclrtHostUnregister")
      return host_memory();
    if (starts(target_.name, "rt")) return values_.zeros();
    return reinterpret_cast<void*>(memory_address(values_, &host_));
  }

  const void* host_memory() {
    return reinterpret_cast<void*>(random_.one_in(3) ? values_.foreign(Kind::host)
                                                     : values_.pool().get(Kind::host, random_));
  }

  const void* void_cells(const std::string& name) {
    auto* cells = static_cast<uint64_t*>(values_.zeros());
    if (name == "dsts" || name == "srcs") {
      for (int i = 0; i < kMostCopies; i++) cells[i] = memory_address(values_, &host_);
      return cells;
    }
    const bool host = starts(target_.name, "aclrtHost");
    const Kind kind = name == "virPtr" ? Kind::range : name == "devPtr" && !host ? Kind::memory : Kind::host;
    outputs_.emplace_back(cells, kind);
    return cells;
  }

  const Target& target_;
  Values& values_;
  Random& random_;
  Arguments arguments_;
  bool host_ = false;
  std::vector<std::pair<uint64_t*, Kind>> outputs_;
};

// Calls that end or change the whole process come seldom; see also kLeftOut.
bool is_drastic(const std::string& name) {
  return name == "aclFinalize" || name == "aclInit" || starts(name, "aclrtResetDevice") ||
         name == "aclrtDeviceTaskAbort" || name == "HcclCommInitAll" || starts(name, "HcclCommInit") ||
         name == "HcclCreateSubCommConfig" || name == "aclrtSetDevice" || name == "aclrtSetCurrentContext" ||
         name == "aclrtProcessReport";
}

}  // namespace

void call_function(const Target& target, Values& values, Journal& journal) {
  if (is_drastic(target.name) && !values.random.one_in(20)) return;
  Call call(target, values);
  const uint64_t result = make_call(target.name.c_str(), target.one, call.arguments(), journal);
  call.harvest(result);
}

}  // namespace fuzz
